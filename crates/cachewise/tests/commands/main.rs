//! The commands of the binary, as they are typed.
//!
//! One program for all of them: what it is linked from is far more than the tests. Each module names its tests, and
//! `cargo test -p cachewise --test commands acts::usage::ranges` runs one.

#[path = "../support/mod.rs"]
mod support;

mod acts;
mod acts_lock;
mod acts_snapshot;
mod advice;
mod advice_tried;
mod bench;
mod case_studies;
mod cgroup_limit;
mod compare;
mod compat;
mod doctor;
mod drop;
mod fail_if;
mod files;
mod guard;
mod labels;
mod laws;
mod layers;
mod map_full;
mod matrix;
mod names;
mod nothing_left;
mod order;
mod output;
mod path_lists;
mod pictures;
mod pid_namespace;
mod process_limit;
mod recipes;
mod record;
mod record_waits;
mod report_page;
mod run_command;
mod run_evictions;
mod run_follow;
mod serve;
mod shield;
mod shield_inputs;
mod shield_metrics;
mod shield_mounts;
mod shield_waits;
mod size;
mod snapshot_of_command;
mod stacks;
mod stat;
mod times;
mod top;
mod trying;
mod unprivileged;

use std::process::ExitCode;

/// The tests of these modules, below their names.
macro_rules! parts {
    ($($part:ident),+ $(,)?) => {
        [$(support::part(stringify!($part), $part::trials())),+].concat()
    };
}

fn main() -> ExitCode {
    let roles = [
        process_limit::be_without_clone3,
        unprivileged::be_without_bpf,
        size::be_a_reader,
    ];
    if let Some(code) = roles.iter().find_map(|role| role()) {
        return code;
    }
    let mut trials = parts![
        acts,
        acts_lock,
        acts_snapshot,
        advice,
        advice_tried,
        bench,
        case_studies,
        cgroup_limit,
        compare,
        compat,
        doctor,
        drop,
        fail_if,
        files,
        guard,
        labels,
        laws,
        layers,
        map_full,
        matrix,
        names,
        nothing_left,
        order,
        output,
        path_lists,
        pictures,
        pid_namespace,
        process_limit,
        recipes,
        record,
        record_waits,
        report_page,
        run_command,
        run_evictions,
        run_follow,
        serve,
        shield,
        shield_inputs,
        shield_metrics,
        shield_mounts,
        shield_waits,
        size,
        snapshot_of_command,
        stacks,
        stat,
        times,
        top,
        trying,
        unprivileged,
    ];
    trials.extend(support::part("advice_more", advice::more()));
    support::run(
        "exact counts, other users, other file systems and the whole machine",
        trials,
    )
}
