//! `tier`: a block cache that many machines share.
//!
//! # Layout
//! - `get`: bytes to standard output; `files`: put, warm and verify, file by file
//! - `stat`: what a mount was asked, and what came from where; `totals`: the same over all tiers
//! - `dev_cluster`: servers to try it on

mod dev_cluster;
mod files;
mod get;
mod stat;
mod totals;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_view::SheetColumn;

use crate::cli::{Tier, TierCommand};
use crate::output::Sink;

/// Does it.
pub fn tier(arguments: &Tier) -> Result<ExitCode> {
    match &arguments.command {
        TierCommand::Get(arguments) => get::get(arguments),
        TierCommand::Put(arguments) => files::on_files(arguments, files::Act::Put),
        TierCommand::Warm(arguments) => files::on_files(arguments, files::Act::Warm),
        TierCommand::Verify(arguments) => files::on_files(arguments, files::Act::Verify),
        TierCommand::Stat(arguments) => stat::stat(arguments),
        TierCommand::DevCluster(arguments) => dev_cluster::dev_cluster(arguments),
    }
}

/// The columns of each command's rows, for the list of all columns.
pub const SHEETS: [(&str, &[SheetColumn]); 4] = [
    ("tier put, warm, verify", &files::COLUMNS),
    ("tier stat", &stat::COLUMNS),
    ("tier stat, over all tiers", &totals::COLUMNS),
    ("tier dev-cluster", &dev_cluster::COLUMNS),
];

/// Writes a whole text.
fn write(mut sink: Sink, text: &str) -> Result<()> {
    let name = sink.name().to_owned();
    sink.write_all(text.as_bytes())
        .with_context(|| format!("cannot write to {name}"))?;
    sink.keep()
}
