//! Advice: each test runs a real program with a known cause, checks the cause that is named, applies the fix, and
//! checks that the named figure improves. Healthy programs have no finding.
//!
//! `make test` runs the quickest test of each rule, `make test-advice` all of them: it also prints a table of the
//! scenarios.
//!
//! # Layout
//! - `fault`: a scenario with a fault, and the table
//! - `fio`: jobs of fio
//! - `kit`: programs, memory groups, reports
//! - `memory`: working sets larger than their memory group
//! - `streams`: evictions by others
//! - `databases`: databases
//! - `languages`: programs in Java, Node.js and C
//! - `machine`: the whole machine
//! - `mapping`: mapped files
//! - `cold`: files and directories that are not resident
//! - `patterns`: requests that cost more than their data
//! - `devices`: devices that other programs keep busy
//! - `servers`: web servers and PostgreSQL
//! - `settings`: writers that reach the limits of dirty memory
//! - `writes`: writers that wait
//! - `swap`: memory that is swapped out
//! - `twice`: caches of programs beside the page cache
//! - `healthy`: no finding

use crate::support::*;

mod cold;
mod databases;
mod devices;
mod fault;
mod fio;
mod healthy;
mod kit;
mod languages;
mod machine;
mod mapping;
mod memory;
mod patterns;
mod servers;
mod settings;
mod streams;
mod swap;
mod twice;
mod writes;

/// The tests that `make test` runs: of each rule the quickest, and healthy programs.
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
            "verdict::small_and_warm",
            healthy::verdict_of_small_and_warm_reads,
        ),
    ];
    all.extend(trials![
        needs_root streams::stream_beside_an_index,
        needs_root streams::stream_under_the_shield,
        needs_root streams::proactive_reclaim,
        needs_root mapping::faults_one_by_one,
        needs_root mapping::random_touches,
        needs_root cold::git_grep,
        needs_root cold::find,
        needs_root patterns::direct_reads_again,
        needs_root patterns::unaligned_direct_writes,
        needs_root patterns::dd_in_tiny_blocks,
        needs_root patterns::readahead_unused,
        needs_root devices::device_busy_for_another_program,
        needs_root patterns::dropped_between_reads,
        needs_root patterns::parts_of_pages,
        needs_root twice::blocks_in_a_dictionary,
        needs_root settings::dirty_throttling,
        needs_root writes::reclaim_by_a_writer,
        needs_root swap::swap_in_a_small_group,
        needs_root healthy::warm_reads,
        needs_root healthy::calculation_and_sleep,
        needs_root healthy::small_cold_file,
        needs_root healthy::small_write,
    ]);
    all
}

/// The others.
pub fn more() -> Vec<Trial> {
    let mut all = vec![needs_root(
        "mapping::read_in_order",
        mapping::mapping_read_in_order,
    )];
    all.extend(trials![
        needs_root databases::sqlite_index_scan,
        needs_root databases::sqlite_lookups,
        needs_root databases::sqlite_mapped_lookups,
        needs_root databases::warm_sqlite,
        needs_root databases::lmdb_gets,
        needs_root databases::lmdb_scan,
        needs_root databases::warm_lmdb,
        needs_root memory::sha256sum_again,
        needs_root memory::grep_again,
        needs_root memory::gzip_again,
        needs_root memory::rsync_checksums_in_a_small_group,
        needs_root memory::git_grep_in_a_small_group,
        needs_root cold::cp,
        needs_root cold::rsync,
        needs_root cold::tar,
        needs_root cold::dd,
        needs_root cold::git_status,
        needs_root patterns::tiny_reads,
        needs_root writes::sqlite_commit_for_each_row,
        needs_root mapping::random_touches_tried,
        needs_root machine::process_that_misses,
        needs_root settings::backlog_of_dd,
        needs_root settings::backlog_of_tar,
        needs_root fio::random_reads,
        needs_root fio::cold_file,
        needs_root fio::direct_reads,
        needs_root fio::evicted_before_each_job,
        needs_root fio::readahead_unused,
        needs_root fio::mapping_read_ahead,
        needs_root fio::mapping_page_by_page,
        needs_root fio::again_in_a_small_group,
        needs_root fio::fsync_after_each_write,
        needs_root fio::warm_reads,
        needs_root languages::java_without_a_buffer,
        needs_root languages::java_random_reads,
        needs_root languages::warm_java,
        needs_root languages::node_tiny_reads,
        needs_root languages::node_cold_file,
        needs_root languages::warm_node,
        needs_root languages::c_without_a_buffer,
        needs_root languages::c_mapping_with_wrong_advice,
        needs_root servers::nginx_cold,
        needs_root servers::lighttpd_cold,
        needs_root servers::nginx_in_a_small_group,
        needs_root servers::warm_nginx,
        needs_root servers::postgres_lookups,
        needs_root servers::postgres_scans_in_a_small_group,
        needs_root servers::postgres_with_large_buffers,
        needs_root healthy::pipe_of_two_programs,
        needs_root healthy::warm_git_grep,
        needs_root healthy::warm_git_status,
        needs_root healthy::tar_to_nowhere,
        needs_root healthy::small_cold_copy,
        needs_root healthy::warm_compilation,
        needs_root healthy::warm_import,
    ]);
    all
}
