//! `cpu topology`: the tree, and its caches as rows.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cpu::{Cache, CpuList, Topology, TopologyPart, Tree};
use cachewise_model::{Missing, Reason};
use cachewise_view::{Sheet, SheetCell, SheetColumn, Style};
use serde_json::{Map, Value as Json, json};

use super::{CommandOutput, check_format, write};
use crate::commands::arguments::CpuTopology;
use cachewise_cli::output::Stream;
use cachewise_cli::sinks::Sinks;

/// A row is a cache.
pub const COLUMNS: [SheetColumn; 10] = [
    // Without headers: tables show the tree instead.
    SheetColumn::new("name", "", false, "The cache's name: L1d, L1i, L2"),
    SheetColumn::new(
        "level",
        "",
        true,
        "Level of the cache; 1 is nearest to the core",
    ),
    SheetColumn::new("kind", "", false, "Contents: data, instruction or unified"),
    SheetColumn::new("size_bytes", "", true, "Size of the cache, from sysfs"),
    SheetColumn::new("line_bytes", "", true, "Size of a cache line"),
    SheetColumn::new("ways", "", true, "Associativity: number of ways"),
    SheetColumn::new("sets", "", true, "Number of sets"),
    SheetColumn::new("cpus", "", false, "The CPUs that share it"),
    SheetColumn::new(
        "threads",
        "",
        true,
        "Number of hardware threads that share it",
    ),
    SheetColumn::new("cores", "", true, "Number of cores that share it"),
];

const NOT_TOLD: Missing = Missing::Unknown(Reason::NotInSysfs);

/// Shows the topology of the CPUs.
pub fn topology(arguments: &CpuTopology) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    check_format(&sinks)?;
    let topology = Topology::read(&arguments.sys)?;
    write(sinks, |style| CommandOutput {
        text: text(&topology, style),
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
    for note in &topology.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
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
            let cores = counted(topology.cores_of(&tree.cpus), "core");
            let threads = counted(tree.cpus.len(), "hardware thread");
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

fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn sheet(topology: &Topology) -> Sheet {
    let mut sheet = Sheet::new(&COLUMNS);
    let number = |number: Option<u64>| {
        SheetCell::or_missing(number, NOT_TOLD, |number| SheetCell::number(number, ""))
    };
    for cache in &topology.caches {
        sheet.rows.push(vec![
            SheetCell::text(cache.name()),
            number(Some(cache.level.into())),
            SheetCell::text(cache.kind.id()),
            number(cache.size.map(|size| size.0)),
            number(cache.line.map(|line| line.0)),
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
