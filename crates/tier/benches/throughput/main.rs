//! Bytes a second: from the servers beside a raw client, sealed blocks beside plain ones, and through the mount beside a
//! FUSE file system of the same crate that passes reads on. Reads of the origin by clients that start at once.
//!
//! Both sides of each comparison take turns, so that other load on the machine disturbs both alike.
//! The bench prints the medians of the turns and of their ratios.
//!
//! `cargo bench -p cachewise-tier --bench throughput [-- saturated|sealed|mount|start] [--check]`

mod pass_through;
mod saturated;
mod sealed;
mod start;
#[path = "../support/mod.rs"]
mod support;
mod through_mount;

use std::process::ExitCode;

fn main() -> ExitCode {
    if support::wants("saturated") {
        saturated::run();
    }
    if support::wants("sealed") {
        sealed::run();
    }
    if support::wants("mount") {
        through_mount::run();
    }
    if support::wants("start") {
        start::run();
    }
    support::status()
}
