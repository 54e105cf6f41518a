//! `tier`: a block cache that many machines share.
//!
//! # Layout
//! - `dev_cluster`: servers to try it on

mod dev_cluster;

use std::process::ExitCode;

use anyhow::Result;
use cachewise_view::SheetColumn;

use crate::cli::{Tier, TierCommand};

/// The columns of each command's rows, for the list of all columns.
pub const SHEETS: [(&str, &[SheetColumn]); 1] = [("tier dev-cluster", &dev_cluster::COLUMNS)];

/// Does it.
pub fn tier(arguments: &Tier) -> Result<ExitCode> {
    match &arguments.command {
        TierCommand::DevCluster(arguments) => dev_cluster::dev_cluster(arguments),
    }
}
