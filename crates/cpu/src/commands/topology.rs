//! `cpu topology`: the tree, and its caches as rows.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cpu::{Cache, CpuList, Topology, TopologyPart, Tree};
use cachewise_model::{Missing, Reason};
use cachewise_units::counted;
use cachewise_view::{Sheet, SheetCell, Style};
use serde_json::{Map, Value as Json, json};

use super::columns::TOPOLOGY;
use super::{CommandOutput, check_format, write};
use crate::commands::arguments::CpuTopology;
use cachewise_cli::output::Stream;
use cachewise_cli::sinks::Sinks;

const NOT_TOLD: Missing = Missing::Unknown(Reason::NotInSysfs);

/// Shows the topology of the CPUs.
pub fn topology(arguments: &CpuTopology) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    check_format(&sinks)?;
    let topology = Topology::read(&arguments.sys)?;
    let columns = arguments.columns.as_ref();
    write(sinks, columns, |style| CommandOutput {
        text: match columns {
            None => text(&topology, style),
            Some(_) => sheet(&topology).chosen(columns).table(style) + &notes(&topology),
        },
        sheet: sheet(&topology),
        members: members(&topology),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(topology: &Topology, style: Style) -> String {
    let mut text = String::new();
    let tree = topology.tree();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", style.bold(&name(&tree, topology)));
    branches(&mut text, &tree, topology, "");
    text + &notes(topology)
}

fn notes(topology: &Topology) -> String {
    let notes = topology.notes.iter();
    notes.map(|note| format!("note: {note}\n")).collect()
}

fn branches(text: &mut String, tree: &Tree, topology: &Topology, indent: &str) {
    for (place, inside) in tree.inside.iter().enumerate() {
        let (branch, below) = match place + 1 == tree.inside.len() {
            true => ("└─ ", "   "),
            false => ("├─ ", "│  "),
        };
        let _ = writeln!(text, "{indent}{branch}{}", name(inside, topology));
        branches(text, inside, topology, &format!("{indent}{below}"));
    }
}

fn name(tree: &Tree, topology: &Topology) -> String {
    let cpus = cpus(&tree.cpus);
    match &tree.place {
        TopologyPart::Machine => {
            let cores = counted(topology.cores_of(&tree.cpus) as u64, "core");
            let threads = counted(tree.cpus.len() as u64, "hardware thread");
            format!("machine: {cores}, {threads}: {cpus}")
        }
        TopologyPart::Node(id, memory) => {
            let memory = memory.map_or("? memory".to_owned(), |memory| {
                format!("{memory} of memory")
            });
            format!("NUMA node {id}, {memory}: {cpus}")
        }
        TopologyPart::Package(id) => format!("package {id}: {cpus}"),
        TopologyPart::Caches(caches) => {
            let names: Vec<String> = caches.iter().map(Cache::to_string).collect();
            format!("{}: {cpus}", names.join("; "))
        }
        TopologyPart::Core(None) => format!("core: {cpus}"),
        TopologyPart::Core(Some(kind)) => format!("core, {kind}: {cpus}"),
    }
}

fn cpus(cpus: &CpuList) -> String {
    match cpus.len() {
        0 => "no CPU".to_owned(),
        1 => format!("CPU {cpus}"),
        _ => format!("CPUs {cpus}"),
    }
}

fn sheet(topology: &Topology) -> Sheet {
    let mut sheet = Sheet::new(&TOPOLOGY);
    let number = |number| SheetCell::or_missing(number, NOT_TOLD, SheetCell::count);
    let bytes = |bytes| SheetCell::or_missing(bytes, NOT_TOLD, SheetCell::bytes);
    for cache in &topology.caches {
        sheet.rows.push(vec![
            SheetCell::text(cache.name()),
            number(Some(cache.level.into())),
            SheetCell::text(cache.kind.id()),
            bytes(cache.size),
            bytes(cache.line),
            number(cache.ways.map(u64::from)),
            number(cache.sets.map(u64::from)),
            SheetCell::text(cache.cpus.to_string()),
            number(Some(cache.cpus.len() as u64)),
            number(Some(topology.cores_of(&cache.cpus) as u64)),
        ]);
    }
    sheet
}

fn members(topology: &Topology) -> Map<String, Json> {
    let cpus = topology.cpus.iter().map(|cpu| {
        json!({
            "cpu": cpu.id,
            "package": cpu.package,
            "core_cpus": cpu.core.to_string(),
            "kind": cpu.kind,
        })
    });
    let nodes = topology.nodes.iter().map(|node| {
        json!({
            "node": node.id,
            "cpus": node.cpus.to_string(),
            "memory_bytes": node.memory.map(|memory| memory.0),
        })
    });
    Map::from_iter([
        ("online".to_owned(), topology.online.to_string().into()),
        ("caches".to_owned(), sheet(topology).json()),
        ("cpus".to_owned(), cpus.collect()),
        ("nodes".to_owned(), nodes.collect()),
        ("notes".to_owned(), topology.notes.clone().into()),
    ])
}
