//! `tier` and `mount`, with real servers and real mounts.

#[path = "../support/mod.rs"]
mod support;

mod dev_cluster;

use std::process::ExitCode;

fn main() -> ExitCode {
    let trials = [dev_cluster::trials()];
    support::run("tier", trials.into_iter().flatten().collect())
}
