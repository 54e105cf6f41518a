//! The programs that count, as the build made them for libbpf.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/ledger.skel.rs"));
