//! Prediction of a warm run: the verdict of `cachewise run` on cold programs, beside the same programs warm.
//!
//! `cargo bench -p cachewise --bench warm [-- NAME...]`, as root; a name is a part of the name of a program.
//!
//! - Each round evicts the files of each program, runs it under `cachewise run`, which predicts its warm run, and runs it
//!   again, also under `cachewise run`. The programs take turns. The table has the medians of all rounds, and the median
//!   of measured / predicted with its quartiles. The goal is 1 +- 15 %.
//! - Files are evicted by `posix_fadvise`: those in which a first run has read or mapped pages, the program's own and its
//!   libraries too. Pages that another process maps stay.
//! - A warm run that missed more than a fiftieth of the pages of the cold one is not used: something else on the machine
//!   evicted them.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (7); `CACHEWISE_TABLE=PATH` writes the table there too. Without
//! `--bench` it is one round of small files.

#[path = "../../probe/benches/support/number.rs"]
mod number;
#[path = "support/programs.rs"]
mod programs;
#[path = "../../probe/benches/support/quantile.rs"]
mod quantile;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use number::number;
use programs::{Program, programs};
use quantile::quantile;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");

/// Maximum deviation of a warm run from its prediction.
const GOAL: f64 = 0.15;

/// Share of the cold run's misses up to which a run is warm: compilers read files that they have just made.
const STILL_WARM: f64 = 0.02;

/// A run, in seconds.
struct Measured {
    wall: f64,
    cold: f64,
    /// The prediction of a warm run.
    warm: f64,
    missed_pages: f64,
    files: Vec<PathBuf>,
}

fn measure(program: &Program, place: &Path) -> Outcome<Measured> {
    let report = place.join("run.json");
    let mut target = std::ffi::OsString::from("json=");
    target.push(&report);
    let output = Command::new(CACHEWISE)
        .args(["run", "-o"])
        .arg(target)
        .arg("--")
        .args(&program.command)
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}: {said}", program.name, output.status).into());
    }
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    let number = |value: &Value| value.as_f64().ok_or("a time is missing");
    let files = report["files"].as_array().into_iter().flatten();
    Ok(Measured {
        wall: number(&report["wall_seconds"])?,
        cold: number(&report["times"]["cold_seconds"])?,
        warm: number(&report["times"]["warm_seconds"])?,
        missed_pages: number(&report["totals"]["read_missed_pages"])?
            + number(&report["totals"]["fault_miss_pages"])?,
        files: files
            .filter_map(|file| Some(PathBuf::from(file["path"].as_str()?)))
            .collect(),
    })
}

/// Evicts the pages of files that no process has mapped; other files stay as they are.
fn evict(files: &[PathBuf]) {
    for path in files {
        if let Ok(file) = File::open(path)
            && file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            // Dirty pages stay.
            let _ = rustix::fs::fdatasync(&file);
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

/// Cold and warm runs of one program.
#[derive(Default)]
struct Pairs {
    cold: Vec<f64>,
    waited: Vec<f64>,
    predicted: Vec<f64>,
    measured: Vec<f64>,
}

impl Pairs {
    fn row(&self, name: &str) -> String {
        let ratios: Vec<f64> = self
            .measured
            .iter()
            .zip(&self.predicted)
            .map(|(measured, predicted)| measured / predicted)
            .collect();
        if ratios.is_empty() {
            return format!("| {name} | | | | | every warm run missed pages | | |\n");
        }
        let ratio = quantile(&ratios, 0.5);
        format!(
            "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | **{ratio:.2}** | {:.2}-{:.2} | {} |\n",
            quantile(&self.cold, 0.5),
            quantile(&self.waited, 0.5),
            quantile(&self.predicted, 0.5),
            quantile(&self.measured, 0.5),
            quantile(&ratios, 0.25),
            quantile(&ratios, 0.75),
            match (ratio - 1.0).abs() <= GOAL {
                true => "met",
                false => "missed",
            }
        )
    }
}

fn bench() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = !arguments.iter().any(|argument| argument == "--bench");
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: warm: without root there is no probe to measure with; run it as root");
        return Ok(());
    }
    let rounds = number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 7 })?;
    let directory = tempfile::Builder::new()
        .prefix("warm-")
        .tempdir_in("/var/tmp")?;
    let place = directory.path();
    let mut all = programs(place, if short { 1 } else { 16 })?;
    all.retain(|program| {
        filters.is_empty() || filters.iter().any(|name| program.name.contains(*name))
    });
    let mut files = Vec::new();
    for program in &all {
        files.push(measure(program, place)?.files);
    }
    let mut pairs: Vec<Pairs> = all.iter().map(|_| Pairs::default()).collect();
    for _ in 0..rounds {
        for ((program, files), pairs) in all.iter().zip(&files).zip(&mut pairs) {
            evict(files);
            let cold = measure(program, place)?;
            let warm = measure(program, place)?;
            if warm.missed_pages <= cold.missed_pages * STILL_WARM {
                pairs.cold.push(cold.wall);
                pairs.waited.push(cold.cold);
                pairs.predicted.push(cold.warm);
                pairs.measured.push(warm.wall);
            }
        }
    }
    let mut table = format!(
        "{rounds} rounds, medians, seconds; goal: measured / predicted from {:.2} to {:.2}\n\n\
         | program | cold | of it for cold data | warm, predicted | warm, measured | measured / predicted | quartiles | goal |\n\
         |---|---|---|---|---|---|---|---|\n",
        1.0 - GOAL,
        1.0 + GOAL
    );
    for (program, pairs) in all.iter().zip(&pairs) {
        table.push_str(&pairs.row(program.name));
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    writeln!(table, "\nload average {load} at the end")?;
    print!("{table}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        std::fs::write(path, table)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warm: {error}");
            ExitCode::FAILURE
        }
    }
}
