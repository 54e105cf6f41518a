//! Counts of the probe, compared with independent figures of the kernel.
//!
//! Every file system, every call, every state: `oracle.rs` describes the source of the expected numbers, and
//! the head of each other module the margins that the definitions leave. The process watches itself: it attaches
//! a probe to its own process id, and alternates between counted requests and queries for the expected numbers.
//!
//! Variables: `CACHEWISE_TABLE=FILE.md` writes a table of every case; `CACHEWISE_TEST_DIR` is the directory for
//! the images of the file systems, `CACHEWISE_TEST_DISKS` names block devices to use instead,
//! `CACHEWISE_BACK_ENDS` the back-ends, and `CACHEWISE_TEST_ONLY` parts of the names of the trials to run. Without
//! root no trial runs, and one line says so.
//!
//! # Layout
//! - `stand`: the probe, the mounts, and the steps of a case.
//! - `kit`, shared with the other tests: `image`, the mounts themselves; `oracle`, files of known residency, and the
//!   expected counts of reads; `reader`, the calls.
//! - `matrix`, `forms`, `limits`, `races`, `direct`, `writes`, `results`, `marks`, `aio`, `uring_reads`, `uring_results`,
//!   `lifetimes`, `again`, `late`, `names`, `volumes`, `elsewhere`: the cases.
//! - `table`: expected and counted.

mod again;
mod aio;
mod direct;
mod elsewhere;
mod fallback;
mod forms;
mod late;
mod lifetimes;
mod limits;
mod marks;
mod matrix;
mod names;
mod races;
mod results;
mod stand;
mod table;
mod uring_reads;
mod uring_results;
mod volumes;
mod writes;

#[path = "../kit/mod.rs"]
mod kit;

use std::path::Path;
use std::process::ExitCode;

use kit::{image, libaio, needs, oracle, partial, problem, random, reader, uring};
use libtest_mimic::{Arguments, Completion, Trial};
use rustix::mm::MlockAllFlags;

fn main() -> ExitCode {
    if let Some(code) = races::be_a_reader() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Counts belong to the process: two cases at once would be counted as one.
    arguments.test_threads = Some(1);
    let mut trials = trials();
    if let Ok(only) = std::env::var("CACHEWISE_TEST_ONLY") {
        trials.retain(|trial| {
            only.split_whitespace()
                .any(|part| trial.name().contains(part))
        });
    }

    if arguments.list {
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    if let Some(reason) = needs::missing() {
        println!("skipped: ground truth: {reason}");
        trials = trials
            .into_iter()
            .map(|trial| {
                let reason = reason.clone();
                let name = trial.name().to_owned();
                Trial::ignorable_test(name, move || Ok(Completion::ignored_with(reason)))
            })
            .collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    if let Err(problem) = image::enter_own_mount_namespace() {
        eprintln!("ground truth: {problem}");
        return ExitCode::FAILURE;
    }
    // A page of this program that has to be read from the disk in the middle of a case would be
    // taken for a fault on the file. It is only a safeguard, so it may be refused.
    let _ = rustix::mm::mlockall(MlockAllFlags::CURRENT);

    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(report) = stand::take_down()
        && !report.is_empty()
    {
        report.print();
        if let Some(path) = std::env::var_os("CACHEWISE_TABLE")
            && let Err(problem) = report.write_markdown(Path::new(&path))
        {
            eprintln!("ground truth: {problem}");
            return ExitCode::FAILURE;
        }
    }
    conclusion.exit_code()
}

fn trials() -> Vec<Trial> {
    let mut trials = matrix::trials();
    trials.extend(fallback::trials());
    trials.extend(forms::trials());
    trials.extend(limits::trials());
    trials.extend(races::trials());
    trials.extend(again::trials());
    trials.extend(late::trials());
    trials.extend(direct::trials());
    trials.extend(writes::trials());
    trials.extend(results::trials());
    trials.extend(marks::trials());
    trials.extend(aio::trials());
    trials.extend(uring_reads::trials());
    trials.extend(uring_results::trials());
    trials.extend(lifetimes::trials());
    trials.extend(names::trials());
    trials.extend(elsewhere::trials());
    trials.extend(volumes::trials());
    // A file system at a time.
    let by_place = |trial: &Trial| trial.name().split("::").next().map(str::to_owned);
    trials.sort_by_key(by_place);
    trials
}
