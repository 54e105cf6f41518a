//! Predictions of `cachewise size` against memory groups of the kernel: eight loads at four limits.
//!
//! `cargo bench -p cachewise --bench size [LOAD...]`, as root, with memory groups of version 1 or 2, sqlite3, git and
//! PostgreSQL. Each load runs from a cold cache: once as it is, which gives its footprint in pages of files and the other
//! memory that it takes; once under `size` in a group without limit; and in groups that have room for 25, 50, 75 and
//! 100 % of the footprint beside the other memory, where `run` and the kernel count. Whole runs are compared.
//!
//! `cargo bench -p cachewise --bench size -- --cost` compares what `size` and `run` cost instead.
//!
//! All pages are simulated (`--full-sample`); `CACHEWISE_SIZE_SAMPLED=1`: the usual sample.
//!
//! `CACHEWISE_PLOT_DIR=PATH` draws the curve of each load there, with the counted points on it.
//! `CACHEWISE_BENCH_DIR=PATH` keeps the data there for the next time. Differences may also be the machine's: a proactive
//! reclaimer evicts pages that are not used for a while.

mod cost;
mod group;
mod loads;
mod measure;
mod plot;
#[path = "../../../curve/benches/groups/load.rs"]
mod synthetic;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use loads::{LOADS, Load};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Limits, in percent of the footprint.
const PERCENT: [u64; 4] = [25, 50, 75, 100];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let done = match &arguments[..] {
        [how, name, file] if how == "--pages" => loads::read_pages(name, file),
        [how, name, file] if how == "--read" => cost::read(name, file),
        [how] if how == "--cost" => with_folder(cost::compare),
        names => with_folder(|folder| compare(names, folder)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("size: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Differences in points: of the curve, of the curve of fetched pages, and of plain LRU.
#[derive(Default)]
struct Errors {
    missed: Vec<f64>,
    fetched: Vec<f64>,
    lru: Vec<f64>,
}

/// Has something done with the folder of the data.
fn with_folder(work: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<()> {
    let temporary = tempfile::tempdir_in("/var/tmp")?;
    let kept = std::env::var_os("CACHEWISE_BENCH_DIR").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    // The server of PostgreSQL has a user of its own.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, open)?;
    work(folder)
}

fn compare(names: &[String], folder: &Path) -> Outcome<()> {
    let temporary = tempfile::tempdir_in("/var/tmp")?;
    println!(
        "{:<12} {:>8} {:>7} {:>7} {:>6} {:>7} {:>6} {:>7} {:>7} {:>6} {:>7} {:>4}",
        "load",
        "limit",
        "MISS%",
        "counted",
        "error",
        "LRU",
        "error",
        "FETCH%",
        "counted",
        "error",
        "kernel",
        "s"
    );
    let mut errors = Errors::default();
    for name in LOADS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let load = Load::prepare(name, folder)?;
        compare_load(&load, temporary.path(), &mut errors)?;
    }
    for (what, errors) in [
        ("MISS%", &errors.missed),
        ("LRU", &errors.lru),
        ("FETCH%", &errors.fetched),
    ] {
        let within = |most: f64| errors.iter().filter(|error| error.abs() <= most).count();
        println!(
            "{what}: {} of {} within 1 point, {} within 3",
            within(1.0),
            errors.len(),
            within(3.0)
        );
    }
    Ok(())
}

fn compare_load(load: &Load, folder: &Path, errors: &mut Errors) -> Outcome<()> {
    let charged = measure::charged(load, folder)?;
    println!(
        "{}: {} MiB of files, {:.1} MiB of other memory",
        load.name,
        charged.files >> 20,
        charged.other as f64 / f64::from(1 << 20)
    );
    let limits = PERCENT.map(|percent| (charged.files / 100 * percent + charged.other) >> 12 << 12);
    let predicted = measure::predicted(load, &limits, folder)?;
    let mut counts = Vec::new();
    for (limit, predicted) in limits.into_iter().zip(predicted) {
        let began = Instant::now();
        let counted = measure::counted(load, limit, folder)?;
        let points = |one: f64, other: f64| (one - other) * 100.0;
        let missed = points(predicted.ratios.missed, counted.ratios.missed);
        let fetched = points(predicted.ratios.fetched, counted.ratios.fetched);
        let lru = points(predicted.lru, counted.ratios.missed);
        println!(
            "{:<12} {:>4} MiB {:>7.2} {:>7.2} {missed:>+6.2} {:>7.2} {lru:>+6.2} {:>7.2} {:>7.2} {fetched:>+6.2} {:>7.2} {:>4.1}",
            load.name,
            limit >> 20,
            predicted.ratios.missed * 100.0,
            counted.ratios.missed * 100.0,
            predicted.lru * 100.0,
            predicted.ratios.fetched * 100.0,
            counted.ratios.fetched * 100.0,
            counted.kernel * 100.0,
            began.elapsed().as_secs_f64()
        );
        errors.missed.push(missed);
        errors.fetched.push(fetched);
        errors.lru.push(lru);
        counts.push(((limit - charged.other) as f64, counted.ratios.fetched));
    }
    match measure::plot_of(load) {
        Some(svg) => plot::add_points(&svg, &measure::curve_of(folder), &counts),
        None => Ok(()),
    }
}
