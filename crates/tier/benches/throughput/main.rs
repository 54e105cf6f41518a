//! Bytes a second: from the servers beside a raw client, sealed blocks beside plain ones, and through the mount beside a FUSE file system of the same
//! crate that passes reads on.
//!
//! Both sides of each comparison take turns, so that other load on the machine disturbs both alike.
//! The bench prints the medians of the turns and of their ratios.
//!
//! `cargo bench -p cachewise-tier --bench throughput [-- saturated|sealed|mount]`

mod pass_through;
mod saturated;
mod sealed;
#[path = "../support/mod.rs"]
mod support;
mod through_mount;

fn main() {
    if support::wants("saturated") {
        saturated::run();
    }
    if support::wants("sealed") {
        sealed::run();
    }
    if support::wants("mount") {
        through_mount::run();
    }
}
