//! `cachewise._native`: what the Python package `cachewise` is made of.
//!
//! It takes and gives tuples, numbers and strings; names, types and documentation are in the Python part beside it.
//! All work is done without the interpreter's lock.
//!
//! It is *not* a library for Rust: those are `cachewise-residency` and `cachewise-tier`, which it wraps.
//!
//! # Layout
//! - `file`: a path, a file or a descriptor, as Python has them; byte ranges.
//! - `raise`: errors as exceptions.
//! - `stream`: work by a thread of its own, handed over piece by piece.
//! - `look`: residency; `act`: warm and evict; `walk`: trees; `order`: orders and scans.
//! - `trees`: warm and evict trees; `table`: residency of trees in columns; `snapshot`: saved residency.
//! - `baseline`: what was resident before, so that pages inserted since can be dropped.
//! - `cache`: the block cache between machines.

#![forbid(unsafe_code)]

mod act;
mod baseline;
mod cache;
mod file;
mod look;
mod order;
mod path_name;
mod raise;
mod snapshot;
mod stream;
mod table;
mod trees;
mod walk;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::act::{evict, warm};
    #[pymodule_export]
    use crate::baseline::Baselines;
    #[pymodule_export]
    use crate::cache::{Cache, Object, cache_settings};
    #[pymodule_export]
    use crate::look::{ranges, residency, samples};
    #[pymodule_export]
    use crate::order::{Scan, Scanner, order};
    #[pymodule_export]
    use crate::snapshot::{SnapshotReader, snapshot_restore, snapshot_save};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::trees::{evict_trees, warm_trees};
    #[pymodule_export]
    use crate::walk::Walk;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("PAGE_SIZE", cachewise_sys::page_size().get())
    }
}
