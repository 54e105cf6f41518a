//! `tier` and `mount`, with real servers and real mounts.

#[path = "../support/mod.rs"]
mod support;

mod dev_cluster;
mod faults;
mod files;
mod growing;
mod mount;
mod mounted;
mod ordinary_user;
mod reader;
mod walkthrough;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = reader::be_one() {
        return code;
    }
    let trials = [
        dev_cluster::trials(),
        files::trials(),
        mount::trials(),
        faults::trials(),
        growing::trials(),
        ordinary_user::trials(),
        walkthrough::trials(),
    ];
    support::run("tier", trials.into_iter().flatten().collect())
}
