//! `cpu`: the CPU's own caches.
//!
//! # Layout
//! - `topology`: caches, cores and nodes as a tree; `table`: what they measure; `lab`: experiments
//! - `run`: how a program uses them
//! - this file: what the commands share: where output goes, and the head of documents

mod lab;
mod run;
mod table;
mod topology;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::SCHEMA_VERSION;
use cachewise_view::{Format, Sheet, SheetColumn, Style};
use serde_json::{Map, Value as Json};

use crate::cli::{Cpu, CpuCommand};
use crate::machine;
use crate::output::Sink;

/// Shows it.
pub fn cpu(arguments: &Cpu) -> Result<ExitCode> {
    match &arguments.command {
        CpuCommand::Topology(arguments) => topology::topology(arguments),
        CpuCommand::Table(arguments) => table::table(arguments),
        CpuCommand::Lab(arguments) => lab::lab(arguments),
        CpuCommand::Run(arguments) => run::run(arguments),
    }
}

/// The columns of each command's rows, for the list of all columns.
pub const SHEETS: [(&str, &[SheetColumn]); 4] = [
    ("cpu topology", &topology::COLUMNS),
    ("cpu table", &table::COLUMNS),
    ("cpu lab", &lab::COLUMNS),
    ("cpu run", &run::COLUMNS),
];

/// What a command found, in each form that it may be written in.
struct Found {
    /// For people.
    text: String,
    /// The rows of CSV.
    sheet: Sheet,
    /// What JSON has, below the head of every document.
    members: Map<String, Json>,
}

/// Refuses what there is no such thing of, before anything is measured.
fn check_format(sink: &Sink) -> Result<()> {
    if sink.format == Format::OpenMetrics {
        bail!(
            "cpu has no metrics to scrape, as what it shows does not change while a machine runs: \
             use -o json or -o csv"
        );
    }
    Ok(())
}

/// Writes it as was asked.
fn write(mut sink: Sink, make: impl FnOnce(Style) -> Found) -> Result<()> {
    let found = make(sink.style);
    let text = match sink.format {
        Format::Table => found.text,
        Format::Csv => found.sheet.csv()?,
        Format::Json => format!("{:#}\n", document(found.members)),
        Format::JsonLines => format!("{}\n", document(found.members)),
        Format::OpenMetrics => bail!("cpu has no metrics"),
    };
    let name = sink.name().to_owned();
    sink.write_all(text.as_bytes())
        .with_context(|| format!("cannot write to {name}"))?;
    sink.keep()
}

/// With the head that every document has.
pub fn document(members: Map<String, Json>) -> Json {
    let mut object = Map::new();
    object.insert("schema_version".into(), SCHEMA_VERSION.into());
    object.insert("timestamp".into(), machine::timestamp().into());
    object.insert("hostname".into(), machine::hostname(&Kernel::new()).into());
    let page_size = cachewise_sys::page_size().get();
    object.insert("page_size_bytes".into(), page_size.into());
    object.extend(members);
    Json::Object(object)
}

/// Nanoseconds as seconds for machine formats.
fn seconds(ns: f64) -> f64 {
    // Not more digits than were measured, and those exact in decimal.
    format!("{ns:.3}e-9").parse().unwrap_or(ns * 1e-9)
}
