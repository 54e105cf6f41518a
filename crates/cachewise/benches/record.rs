//! Cost of `cachewise record` on this machine as it is: CPU time at an interval of one second, and bytes an hour.
//!
//! `cargo bench -p cachewise --bench record`, as root: without BPF there is less to record.
//!
//! It records for `CACHEWISE_BENCH_SECONDS` (120). CPU time is that of the recorder (utime and stime of /proc/PID/stat)
//! between the first sample and the last, without the start. Bytes are those of the file, and of the file packed by
//! `zstd` and `gzip` if installed, scaled up to an hour. A machine is idle if no other program works: the table shows how
//! busy this one was. `CACHEWISE_TABLE=PATH` writes the table there too. Without `--bench` all is short.

#[path = "../../probe/benches/support/number.rs"]
mod number;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use number::number;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The most of a core, in per cent, and the most bytes an hour when they are packed.
const CPU_GOAL: f64 = 0.5;
const BYTES_GOAL: f64 = 2e6;

/// How long the start takes at most before CPU time is counted.
const START: Duration = Duration::from_secs(2);

/// A process, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a process in seconds.
fn cpu(pid: u32) -> Outcome<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit(')').next().ok_or("no name in stat")?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: u64 = fields.get(11).ok_or("no utime")?.parse::<u64>()?
        + fields.get(12).ok_or("no stime")?.parse::<u64>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// How much of the machine was busy, 0 to 1, from two readings of /proc/stat.
fn busy_and_all() -> Outcome<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().ok_or("no first line in /proc/stat")?;
    let times: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    let idle: u64 = times.iter().skip(3).take(2).sum();
    let all: u64 = times.iter().take(8).sum();
    Ok((all - idle, all))
}

fn packed(with: &[&str], file: &Path) -> Option<u64> {
    let output = Command::new(with[0])
        .args(&with[1..])
        .stdin(fs::File::open(file).ok()?)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then_some(output.stdout.len() as u64)
}

fn measure(seconds: u64) -> Outcome<()> {
    let place = tempfile::tempdir_in("/var/tmp")?;
    let file = place.path().join("r");
    let length = format!("{}", seconds + START.as_secs());
    let recorder = Command::new(env!("CARGO_BIN_EXE_cachewise"))
        .args(["record", "-q", "--interval", "1", "--duration", &length])
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()?;
    let mut recorder = Running(recorder);
    let pid = recorder.0.id();
    sleep(START);
    let (begin, cpu_before, busy_before) = (Instant::now(), cpu(pid)?, busy_and_all()?);
    sleep(Duration::from_secs(seconds).saturating_sub(Duration::from_millis(500)));
    let (cpu_after, elapsed) = (cpu(pid)?, begin.elapsed().as_secs_f64());
    let busy_after = busy_and_all()?;
    if !recorder.0.wait()?.success() {
        return Err("the recorder failed".into());
    }
    let share = (cpu_after - cpu_before) / elapsed * 100.0;
    let busy = (busy_after.0 - busy_before.0) as f64 / (busy_after.1 - busy_before.1).max(1) as f64;
    let hour = 3600.0 / (seconds + START.as_secs()) as f64;
    let raw = fs::metadata(&file)?.len();
    let mut table = format!(
        "| of `record` at 1 s, {seconds} s, the machine {:.0} % busy | | goal |\n|---|---|---|\n\
         | CPU, of a core | {share:.2} % | {CPU_GOAL} % |\n| bytes an hour, as written | {:.2} MB | |\n",
        busy * 100.0,
        raw as f64 * hour / 1e6
    );
    for with in [&["zstd", "-c"][..], &["gzip", "-c"]] {
        if let Some(bytes) = packed(with, &file) {
            table += &format!(
                "| bytes an hour, {} | {:.2} MB | {} MB |\n",
                with[0],
                bytes as f64 * hour / 1e6,
                BYTES_GOAL / 1e6
            );
        }
    }
    println!("{table}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, table)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let seconds = number("CACHEWISE_BENCH_SECONDS", if is_bench { 120 } else { 2 });
    match seconds
        .map_err(Into::into)
        .and_then(|seconds| measure(seconds as u64))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}
