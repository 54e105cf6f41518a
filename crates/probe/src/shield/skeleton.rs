//! The programs of the shield, as the build made it for libbpf.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/shield.skel.rs"));
