//! The commands of `cachewise-tier`: a block cache that many machines share.
//!
//! # Layout
//! - `columns`: the columns of all tables; `dashboard`: what dashboards/tier/ shows of them
//! - `get`: bytes to standard output; `files`: put, warm and verify, file by file;
//!   `listed`: the files of a snapshot
//! - `stat`: counters of a mount by operation, tier and node; `stat_periods`: those of each period; `totals`: counters over all tiers
//! - `drop`: paths that are forgotten on all machines
//! - `trim`: blocks of an engine, counted and removed
//! - `mount`: an origin as a directory; `background`: it goes on when the command has ended; `cache`: a cache from its settings
//! - `published`: versions of an origin: publishing, comparing, removing, and mounting them
//! - `csi`: volumes of Kubernetes
//! - `dev_cluster`: cache servers for tests

mod arguments;
mod background;
mod cache;
mod columns;
mod csi;
#[cfg(test)]
mod dashboard;
mod dev_cluster;
mod drop;
mod files;
mod get;
mod listed;
mod mount;
mod published;
mod stat;
mod stat_periods;
mod totals;
mod trim;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use cachewise_kstat::Kernel;
use cachewise_model::SCHEMA_VERSION;
use cachewise_view::{Format, Sheet, SheetColumn};
use serde_json::json;

use cachewise_cli::about::sheets;
use cachewise_cli::host;
use cachewise_cli::output::Sink;
use cachewise_cli::sinks::Sinks;
use clap::CommandFactory;

pub use arguments::Cli;
use arguments::Command;
pub use background::typed;

/// Runs a command, of this command line.
pub fn run(command: &Command, typed: &[OsString]) -> Result<ExitCode> {
    match command {
        Command::Get(arguments) => get::get(arguments),
        Command::Put(arguments) => files::on_files(arguments, files::Act::Put, None),
        Command::Warm(arguments) => {
            let listed = listed::listed(arguments)?;
            files::on_files(&arguments.on, files::Act::Warm, listed)
        }
        Command::Verify(arguments) => files::on_files(arguments, files::Act::Verify, None),
        Command::Stat(arguments) => stat::stat(arguments),
        Command::Drop(arguments) => drop::drop_paths(arguments),
        Command::Key(arguments) => published::key(arguments),
        Command::Publish(arguments) => published::publish(arguments),
        Command::Diff(arguments) => published::diff(arguments),
        Command::Gc(arguments) => published::gc(arguments),
        Command::Csi(arguments) => csi::csi(arguments),
        Command::Trim(arguments) => trim::trim(arguments),
        Command::DevCluster(arguments) => dev_cluster::dev_cluster(arguments),
        Command::Mount(arguments) => mount::mount(arguments, typed),
        Command::About(about) => {
            cachewise_cli::about::about(about, Cli::command(), &sheets(&SHEETS))
        }
    }
}

/// The columns of each command's rows, for the list of all columns.
const SHEETS: [(&str, &[SheetColumn]); 9] = [
    ("tier put, warm, verify", &columns::FILES),
    ("tier stat", &columns::STAT),
    ("tier stat, over all tiers", &totals::COLUMNS),
    ("tier dev-cluster", &columns::DEV_CLUSTER),
    ("tier publish", &columns::PUBLISHED),
    ("tier diff", &columns::DIFFERENCES),
    ("tier drop", &columns::DROPPED),
    ("tier gc", &columns::COLLECTED),
    ("tier trim", &columns::TRIMMED),
];

/// Writes a text to each target, in its format.
fn write(sinks: Sinks, text: impl Fn(&Sink) -> Result<String>) -> Result<()> {
    sinks.write(|sink| {
        let text = text(sink)?;
        Ok(sink.write_all(text.as_bytes())?)
    })
}

/// Refuses metrics of a command without any.
fn refuse_metrics(sinks: &Sinks) -> Result<()> {
    ensure!(
        !sinks.have(Format::OpenMetrics),
        "-o openmetrics: only `tier stat` has metrics to scrape: use -o json or -o csv"
    );
    Ok(())
}

/// Writes a table alone to each target.
fn written(sinks: Sinks, sheet: &Sheet) -> Result<()> {
    refuse_metrics(&sinks)?;
    write(sinks, |sink| {
        Ok(match sink.format {
            Format::Csv => sheet.csv()?,
            Format::Json => format!("{:#}\n", document(sheet)),
            Format::JsonLines => format!("{}\n", document(sheet)),
            Format::Table | Format::OpenMetrics => sheet.table(sink.style),
        })
    })
}

fn document(sheet: &Sheet) -> serde_json::Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "timestamp": host::timestamp(),
        "hostname": host::hostname(&Kernel::new()),
        "page_size_bytes": cachewise_sys::page_size().get(),
        "rows": sheet.json(),
    })
}
