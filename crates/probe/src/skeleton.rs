//! The programs that count, as the build made them for libbpf.

#![allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/ledger.skel.rs"));

/// The object for kernels with bpf_rdonly_cast (6.2).
pub(crate) const LEDGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o"));

/// The same programs without stacks and accesses, which most commands do not want.
pub(crate) const LEDGER_COUNTS_ONLY: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/ledger_counts_only.bpf.o"));

/// All programs for older kernels.
pub(crate) const LEDGER_BY_HELPER: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/ledger_by_helper.bpf.o"));
