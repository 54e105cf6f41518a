//! Cost of `size` beside `run`: CPU time of the program and its children, and wall time, in pairs that take turns.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use cachewise_sys::children_usage;

use crate::Outcome;
use crate::loads::Load;

/// Pairs of each load, of which medians are printed.
const PAIRS: usize = 9;

const PAGE: u64 = 4096;
/// Pages of the file that is read: 256 MiB.
const FILE_PAGES: u64 = 256 << 8;
const RANDOM_READS: u64 = 400_000;
const ROUNDS: usize = 20;

/// CPU time and wall time of a run, in seconds.
type Times = [f64; 2];

/// Prints the ratios of `size` to `run` for three loads in the page cache.
pub fn compare(folder: &Path) -> Outcome<()> {
    let file = folder.join("cost");
    std::fs::write(&file, vec![7; (FILE_PAGES * PAGE) as usize])?;
    let read = |how: &str| -> Outcome<Vec<OsString>> {
        let program = std::env::current_exe()?;
        Ok(vec![
            program.into(),
            "--read".into(),
            how.into(),
            file.clone().into(),
        ])
    };
    println!(
        "{:<12} {:>8} {:>8} {:>8} {:>22} {:>22}",
        "load", "run CPU", "size CPU", "run wall", "CPU, size/run", "wall, size/run"
    );
    for (name, command) in [
        ("random", read("random")?),
        ("sequential", read("sequential")?),
        ("git-grep", Load::prepare("git-grep", folder)?.command()?),
    ] {
        let (mut runs, mut sizes) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            runs.push(times("run", &command)?);
            sizes.push(times("size", &command)?);
        }
        let ratios = |number: usize| {
            let pairs = runs.iter().zip(&sizes);
            let [low, middle, high] =
                quartiles(pairs.map(|(run, size)| size[number] / run[number]));
            format!("{middle:.2} [{low:.2}-{high:.2}]")
        };
        let median =
            |times: &[Times], number: usize| quartiles(times.iter().map(|times| times[number]))[1];
        println!(
            "{name:<12} {:>7.2}s {:>7.2}s {:>7.2}s {:>22} {:>22}",
            median(&runs, 0),
            median(&sizes, 0),
            median(&runs, 1),
            ratios(0),
            ratios(1)
        );
    }
    Ok(())
}

fn times(tool: &str, command: &[OsString]) -> Outcome<Times> {
    let (before, began) = (children_usage(), Instant::now());
    Command::new(env!("CARGO_BIN_EXE_cachewise"))
        .args([tool, "-o", "json=/dev/null", "--"])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let (after, wall) = (children_usage(), began.elapsed());
    let cpu = after.user + after.system - before.user - before.system;
    Ok([cpu.as_secs_f64(), wall.as_secs_f64()])
}

fn quartiles(numbers: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| numbers[numbers.len() * quarter / 4])
}

/// Reads a file that is in the page cache: pages at random, or all of it again and again.
pub fn read(how: &str, path: &str) -> Outcome<()> {
    let mut file = File::open(path)?;
    if how == "random" {
        let mut random = fastrand::Rng::with_seed(11);
        let mut buffer = [0; PAGE as usize];
        for _ in 0..RANDOM_READS {
            file.read_exact_at(&mut buffer, random.u64(..FILE_PAGES) * PAGE)?;
        }
        return Ok(());
    }
    let mut buffer = vec![0; 64 << 10];
    for _ in 0..ROUNDS {
        std::io::Seek::rewind(&mut file)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}
