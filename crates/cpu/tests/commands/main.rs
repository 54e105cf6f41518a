//! `cpu`: the commands as they are typed.
//!
//! Figures carry marks for disturbance by the machine: no test depends on a quiet machine.
//!
//! # Layout
//! - `machine`: `topology`, `table` and `lab`; `program`: `run`
//! - `surroundings`: where less is to be had than usual
//! - `sharing` has a file of tests of its own

#[path = "../../../cachewise/tests/support/mod.rs"]
mod support;

mod machine;
mod program;
mod surroundings;

use std::process::{Command, ExitCode};

use serde_json::Value;
use support::*;

fn main() -> ExitCode {
    run(
        "the CPU's caches",
        trials![
            plain machine::topology,
            plain machine::topology_of_another_machine,
            plain machine::topology_refused,
            plain machine::table,
            plain machine::table_refused,
            plain machine::lab,
            plain machine::lab_refused,
            plain program::names_the_line_through_inlined_code,
            plain program::first_touches_miss_wherever_the_program_is_loaded,
            plain program::simulated_programs_of_go_are_not_interrupted,
            plain program::samples_what_the_kernel_counts,
            plain program::follows_by_samples,
            plain program::samples_refused,
            plain program::of_any_kind,
            plain program::refused,
            needs_root program::not_allowed,
            plain surroundings::one_cpu,
            needs_root surroundings::no_information_on_caches,
            needs_root surroundings::a_part_of_a_cpus_time,
        ],
    )
}

fn cpu(arguments: &[&str]) -> Command {
    let mut command = cachewise([] as [&str; 0]);
    command.args(arguments);
    command
}

fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out)
        .unwrap_or_else(|error| panic!("a JSON document ({error}): {}", ended.out()))
}
