//! `cachewise files`: what it says of files of known residency, and what it does with all that are none.
//!
//! # Layout
//! - `stand`: files loaded page by page, file systems that only one process sees, the documents
//! - `known`: k of n pages, reported exactly; others' files, reported as unknown
//! - `bad`: what is no file, cannot be opened, vanishes or changes meanwhile; what cannot be typed
//! - `shown`: formats, order, trees, ncdu, again and again
//! - `fuse`: files that lose their pages when they are opened
//! - `held`: the files of processes; `machine`: all files there are

mod bad;
mod fuse;
mod held;
mod known;
mod machine;
mod shown;
mod stand;

use crate::support::{Trial, needs_root, trials};

/// The tests.
pub fn trials() -> Vec<Trial> {
    let mut trials = trials![
        plain known::here,
        needs_root known::through_overlayfs,
        needs_root known::an_overlay_and_its_layers_count_once,
        needs_root known::unknown_to_others,
        plain known::sparse,
        plain bad::paths,
        plain bad::in_a_tree,
        plain bad::names,
        plain bad::nothing,
        plain bad::names_begin_no_lines,
        plain bad::reports_take_their_place_when_complete,
        needs_root bad::a_full_disk_leaves_the_old_report,
        needs_root bad::planted_links_are_not_followed,
        plain bad::arguments,
        plain bad::outputs,
        needs_root bad::no_permission,
        needs_root bad::read_only,
        plain bad::truncated_meanwhile,
        plain bad::made_and_deleted_meanwhile,
        plain shown::formats,
        plain shown::order,
        plain shown::once,
        plain shown::columns,
        plain shown::tree,
        plain shown::ncdu,
        plain shown::fail_below,
        plain shown::watch,
        plain shown::watch_says_things_once,
        plain shown::nobody_reads,
        plain shown::an_interrupt_shows_what_was_found,
        needs_root shown::an_interrupt_ends_each_way_to_look,
        plain held::by_this_process,
        needs_root held::in_another_mount_namespace,
        plain held::by_none,
        needs_root held::by_others,
        needs_root fuse::looking_drops_no_page,
        needs_root fuse::pages_are_counted_by_the_census,
        needs_root machine::adds_up,
        needs_root machine::lists_all,
        needs_root machine::sorted_by_dirty_pages,
        needs_root machine::tree_and_ncdu,
        needs_root machine::block_devices_are_in_no_size,
        needs_root machine::patterns,
        needs_root machine::evicted,
        needs_root machine::without_the_right,
    ];
    trials.extend(vec![
        needs_root("known::on_ext4", || known::on("ext4")),
        needs_root("known::on_xfs", || known::on("xfs")),
        needs_root("known::on_btrfs", || known::on("btrfs")),
        needs_root("known::on_tmpfs", || known::on("tmpfs")),
    ]);
    trials
}
