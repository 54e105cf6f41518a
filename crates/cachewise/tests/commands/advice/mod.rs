//! Advice: each test runs a real program with a known cause, checks the cause that is named, applies the fix, and
//! checks that the named figure improves. Healthy programs have no finding.
//!
//! # Layout
//! - `kit`: programs, memory groups, reports
//! - `memory`: working sets larger than their memory group
//! - `mapping`: mapped files
//! - `cold`: files and directories that are not resident
//! - `patterns`: requests that cost more than their data
//! - `devices`: devices that other programs keep busy
//! - `writes`: writers and memory that wait
//! - `healthy`: no finding

use crate::support::*;

mod cold;
mod devices;
mod healthy;
mod kit;
mod mapping;
mod memory;
mod patterns;
mod writes;

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut all = vec![
        needs_root(
            "random_reads::limit_of_the_readers_group",
            memory::random_reads_in_a_small_group,
        ),
        needs_root(
            "scans::limit_of_the_readers_group",
            memory::scans_in_a_small_group,
        ),
        needs_root(
            "mapping::random_touches",
            mapping::random_touches_of_a_mapping,
        ),
        needs_root("mapping::read_in_order", mapping::mapping_read_in_order),
        needs_root(
            "verdict::small_and_warm",
            healthy::verdict_of_small_and_warm_reads,
        ),
    ];
    all.extend(trials![
        needs_root memory::sqlite_index_scan,
        needs_root memory::stream_beside_an_index,
        needs_root mapping::faults_one_by_one,
        needs_root cold::git_grep,
        needs_root cold::copies,
        needs_root patterns::direct_reads_again,
        needs_root patterns::tiny_reads,
        needs_root patterns::readahead_unused,
        needs_root writes::dirty_throttling,
        needs_root writes::swap_in_a_small_group,
        needs_root devices::device_busy_for_another_program,
        needs_root healthy::warm_reads,
        needs_root healthy::calculation_and_sleep,
        needs_root healthy::pipe_of_two_programs,
        needs_root healthy::warm_git_grep,
        needs_root healthy::small_cold_file,
        needs_root healthy::small_write,
        needs_root healthy::warm_compilation,
        needs_root healthy::warm_import,
    ]);
    all
}
