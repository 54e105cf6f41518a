//! Pages that `shield` saves, and its cost: a hot set is read at random beside a scan, in one memory group.
//!
//! `cargo bench -p cachewise --bench shield [-- --check]`, as root; `--check` fails where a goal is missed.
//!
//! - A reader reads pages of a file of 400 MiB at random, with `POSIX_FADV_RANDOM`; a scan reads a file of 2 GiB twice, in
//!   steps of 1 MiB with a pause of 1.5 ms; both run in a memory group of 560 MiB. The arms take turns: the reader alone,
//!   with the scan, with the scan under `cachewise shield`, and under `nocache` where it is installed. The scan alone, and
//!   alone under the shield, give its rate.
//! - FETCHED is `read_bytes` of `/proc/PID/io` of the reader: bytes that it had to read from the device, counted by the
//!   kernel. OPS/CPU-S is its reads by its own CPU time, which other programs of the machine change little.
//! - RESIDENT is the most of the scan's file that `cachestat(2)` found in the cache, 100 times a second.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (5), `CACHEWISE_TEST_DIR` the directory (`/var/tmp`),
//! `CACHEWISE_TABLE=PATH` writes the table there too. Without `--bench` it is one round with a tenth of the sizes.

#[path = "../../probe/benches/support/number.rs"]
mod number;
#[path = "../../probe/benches/support/quantile.rs"]
mod quantile;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use number::number;
use quantile::quantile;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");

const MIB: u64 = 1 << 20;

/// Pause of the scan after each MiB.
const PAUSE: Duration = Duration::from_micros(1500);

/// The reader pauses after this many reads.
const BURST: u32 = 64;

/// Sizes in MiB.
#[derive(Clone, Copy)]
struct Sizes {
    group: u64,
    hot: u64,
    scan: u64,
}

const FULL: Sizes = Sizes {
    group: 560,
    hot: 400,
    scan: 2048,
};
const SHORT: Sizes = Sizes {
    group: 112,
    hot: 40,
    scan: 200,
};

/// How the scan runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Arm {
    Alone,
    Unprotected,
    Shielded,
    Nocache,
    ScanAlone,
    ScanAloneShielded,
}

impl Arm {
    const ALL: [Arm; 6] = [
        Arm::Alone,
        Arm::Unprotected,
        Arm::Shielded,
        Arm::Nocache,
        Arm::ScanAlone,
        Arm::ScanAloneShielded,
    ];

    fn name(self) -> &'static str {
        match self {
            Arm::Alone => "hot reader alone",
            Arm::Unprotected => "with the scan",
            Arm::Shielded => "with the scan under shield",
            Arm::Nocache => "with the scan under nocache",
            Arm::ScanAlone => "scan alone",
            Arm::ScanAloneShielded => "scan alone under shield",
        }
    }

    fn has_reader(self) -> bool {
        !matches!(self, Arm::ScanAlone | Arm::ScanAloneShielded)
    }

    fn has_scan(self) -> bool {
        self != Arm::Alone
    }
}

/// Figures of one run.
#[derive(Default, Clone, Copy)]
struct Run {
    fetched: f64,
    by_cpu: f64,
    operations: f64,
    scan_seconds: f64,
    resident: f64,
    shield_cpu: f64,
    advice_cpu: f64,
    needed: f64,
}

/// The group, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Outcome<Group> {
        let hierarchy = cachewise_kstat::Kernel::new().cgroup_hierarchy()?;
        let mount = hierarchy.mount().ok_or("no memory groups here")?;
        let path = mount.join(format!("cachewise-bench-shield-{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Group(path);
        let files = ["memory.max", "memory.limit_in_bytes"];
        let mut files = files.iter().map(|file| group.0.join(file));
        let file = files.find(|file| file.exists());
        fs::write(file.ok_or("the group has no limit")?, limit.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn join(group: &Path) -> Outcome<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
    Ok(())
}

fn read_bytes() -> Outcome<u64> {
    let io = fs::read_to_string("/proc/self/io")?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.ok_or("no I/O accounting here")?.parse()?)
}

fn cpu_seconds() -> f64 {
    let usage = cachewise_sys::process_usage();
    (usage.user + usage.system).as_secs_f64()
}

/// The reader: reads all pages twice, says so, and goes on at random from a line of input to the next.
fn read_at_random(path: &Path, group: &Path) -> Outcome<()> {
    join(group)?;
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    let page = cachewise_sys::page_size().get();
    let pages = file.metadata()?.len() / page;
    let mut buffer = vec![0; page as usize];
    let mut random = fastrand::Rng::with_seed(7);
    let mut order: Vec<u64> = (0..pages).collect();
    for _ in 0..2 {
        random.shuffle(&mut order);
        for number in &order {
            file.read_exact_at(&mut buffer, number * page)?;
        }
    }
    println!("ready");
    let mut lines = std::io::stdin().lock();
    lines.read_line(&mut String::new())?;
    let (fetched, cpu) = (read_bytes()?, cpu_seconds());
    let done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = std::sync::Arc::clone(&done);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        told.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(lines);
    let mut operations = 0u64;
    while !done.load(std::sync::atomic::Ordering::Relaxed) {
        for _ in 0..BURST {
            file.read_exact_at(&mut buffer, random.u64(0..pages) * page)?;
        }
        operations += u64::from(BURST);
        std::thread::sleep(Duration::from_millis(2));
    }
    println!(
        "{operations} {} {}",
        read_bytes()? - fetched,
        cpu_seconds() - cpu
    );
    Ok(())
}

/// The scan: reads the file twice, and says how long that took.
fn scan(path: &Path, group: &Path) -> Outcome<()> {
    join(group)?;
    let mut buffer = vec![0; MIB as usize];
    let begin = Instant::now();
    for _ in 0..2 {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {
            std::thread::sleep(PAUSE);
        }
    }
    println!("{}", begin.elapsed().as_secs_f64());
    Ok(())
}

fn role(name: &str, file: &Path, group: &Path) -> Outcome<Vec<std::ffi::OsString>> {
    let own = std::env::current_exe()?;
    Ok(vec![
        own.into(),
        "--role".into(),
        name.into(),
        file.into(),
        group.into(),
    ])
}

fn start(words: &[std::ffi::OsString]) -> Outcome<(Child, BufReader<std::process::ChildStdout>)> {
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().ok_or("a pipe was asked for")?;
    Ok((child, BufReader::new(out)))
}

fn evict(path: &Path) -> Outcome<()> {
    let file = File::open(path)?;
    rustix::fs::fdatasync(&file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

fn measure(arm: Arm, hot: &Path, scanned: &Path, group: &Path, alone: Duration) -> Outcome<Run> {
    evict(hot)?;
    evict(scanned)?;
    let mut run = Run::default();
    let mut reader = match arm.has_reader() {
        true => {
            let (child, mut out) = start(&role("reader", hot, group)?)?;
            out.read_line(&mut String::new())?;
            Some((child, out))
        }
        false => None,
    };
    let say = |reader: &mut Option<(Child, _)>| -> Outcome<()> {
        if let Some((child, _)) = reader {
            let input = child.stdin.as_mut().ok_or("a pipe was asked for")?;
            input.write_all(b"\n")?;
        }
        Ok(())
    };
    say(&mut reader)?;
    let result = scanned.with_extension("json");
    if arm.has_scan() {
        let mut words: Vec<std::ffi::OsString> = match arm {
            Arm::Shielded | Arm::ScanAloneShielded => {
                let mut target = std::ffi::OsString::from("json=");
                target.push(&result);
                vec![
                    CACHEWISE.into(),
                    "shield".into(),
                    "-o".into(),
                    target,
                    "--".into(),
                ]
            }
            Arm::Nocache => vec!["nocache".into()],
            _ => Vec::new(),
        };
        words.extend(role("scan", scanned, group)?);
        let (mut child, mut out) = start(&words)?;
        let looked = File::open(scanned)?;
        while child.try_wait()?.is_none() {
            if let Ok(found) = cachewise_sys::cachestat(std::os::fd::AsFd::as_fd(&looked), None) {
                let bytes = found.cached.bytes(cachewise_sys::page_size());
                run.resident = run.resident.max(bytes.0 as f64 / MIB as f64);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut line = String::new();
        out.read_line(&mut line)?;
        run.scan_seconds = line.trim().parse()?;
    } else {
        std::thread::sleep(alone);
    }
    say(&mut reader)?;
    if let Some((mut child, mut out)) = reader {
        let mut line = String::new();
        out.read_line(&mut line)?;
        child.wait()?;
        let numbers: Vec<f64> = line
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let [operations, fetched, cpu] = numbers[..] else {
            return Err(format!("the reader said {line:?}").into());
        };
        run.operations = operations;
        run.fetched = fetched / MIB as f64;
        run.by_cpu = operations / cpu;
    }
    if matches!(arm, Arm::Shielded | Arm::ScanAloneShielded) {
        let report: Value = serde_json::from_slice(&fs::read(&result)?)?;
        let number = |id: &str| report[id].as_f64().ok_or("a figure is missing");
        run.shield_cpu = number("cpu_seconds")? / number("elapsed_seconds")?;
        run.advice_cpu = number("advice_cpu_seconds")? / number("elapsed_seconds")?;
        let dropped = report["pages"]["dropped_pages"].as_f64().unwrap_or(1.0);
        run.needed = number("needed_by_others_pages")? / dropped.max(1.0);
        // The second pass of the scan reads pages that the first one had dropped.
        fs::remove_file(&result)?;
    }
    Ok(run)
}

fn has_nocache() -> bool {
    let tried = Command::new("nocache").arg("true").output();
    tried.is_ok_and(|tried| tried.status.success())
}

fn make(path: &Path, mib: u64) -> Outcome<()> {
    let mut file = File::create(path)?;
    let mut block = vec![0; MIB as usize];
    let mut random = fastrand::Rng::with_seed(mib);
    for _ in 0..mib {
        random.fill(&mut block);
        file.write_all(&block)?;
    }
    file.sync_all()?;
    Ok(())
}

/// Median, least and most.
fn range(runs: &[Run], figure: fn(&Run) -> f64, digits: usize) -> String {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    format!(
        "**{:.digits$}** ({:.digits$}-{:.digits$})",
        quantile(&values, 0.5),
        quantile(&values, 0.0),
        quantile(&values, 1.0)
    )
}

fn median(runs: &[Run], figure: fn(&Run) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(figure).collect();
    quantile(&values, 0.5)
}

fn bench() -> Outcome<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = !arguments.iter().any(|argument| argument == "--bench");
    let check = arguments.iter().any(|argument| argument == "--check");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: shield: without root programs cannot be shielded; run it as root");
        return Ok(true);
    }
    let sizes = if short { SHORT } else { FULL };
    let rounds = number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 5 })?;
    let place = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
    let directory = tempfile::Builder::new()
        .prefix("shield-")
        .tempdir_in(place)?;
    let (hot, scanned) = (directory.path().join("hot"), directory.path().join("scan"));
    make(&hot, sizes.hot)?;
    make(&scanned, sizes.scan)?;
    let group = Group::new(sizes.group * MIB)?;
    let nocache = has_nocache();
    if !nocache {
        println!("skipped: shield: nocache: it is not installed (apt-get install nocache)");
    }
    let arms: Vec<Arm> = Arm::ALL
        .into_iter()
        .filter(|arm| nocache || *arm != Arm::Nocache)
        .collect();
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); arms.len()];
    let mut alone = Duration::from_secs_f64(sizes.scan as f64 * 2.0 / 512.0);
    for round in 0..rounds {
        for place in 0..arms.len() {
            let place = (place + round) % arms.len();
            let run = measure(arms[place], &hot, &scanned, &group.0, alone)?;
            if run.scan_seconds > 0.0 {
                alone = Duration::from_secs_f64(run.scan_seconds);
            }
            runs[place].push(run);
        }
    }
    let of = |arm: Arm| {
        let place = arms.iter().position(|other| *other == arm);
        place.map(|place| &runs[place][..]).unwrap_or_default()
    };
    let mut table = String::from(
        "| | FETCHED MiB | OPS/CPU-S | OPS | scan, s | RESIDENT MiB | shield, % of a CPU | of it fadvise, % |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (arm, runs) in arms.iter().zip(&runs) {
        let cell = |is: bool, text: String| if is { text } else { "-".to_owned() };
        let is_shield = matches!(arm, Arm::Shielded | Arm::ScanAloneShielded);
        writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            arm.name(),
            cell(arm.has_reader(), range(runs, |run| run.fetched, 1)),
            cell(arm.has_reader(), range(runs, |run| run.by_cpu, 0)),
            cell(arm.has_reader(), range(runs, |run| run.operations, 0)),
            cell(arm.has_scan(), range(runs, |run| run.scan_seconds, 2)),
            cell(arm.has_scan(), range(runs, |run| run.resident, 1)),
            cell(is_shield, range(runs, |run| run.shield_cpu * 100.0, 2)),
            cell(is_shield, range(runs, |run| run.advice_cpu * 100.0, 2)),
        )?;
    }
    let fetched = |arm| median(of(arm), |run| run.fetched);
    let (alone, without, with) = (
        fetched(Arm::Alone),
        fetched(Arm::Unprotected),
        fetched(Arm::Shielded),
    );
    let speed = |arm| median(of(arm), |run| run.by_cpu);
    let seconds = |arm| median(of(arm), |run| run.scan_seconds);
    let goals = [
        (
            format!(
                "fetched with the shield, {with:.1} MiB, is at most {alone:.1} alone plus 5 % of what the scan costs, {:.1}",
                without - alone
            ),
            with <= alone + 0.05 * (without - alone).max(0.0),
        ),
        (
            format!(
                "operations per second of CPU with the shield are {:.3} of those alone, at least 0.95",
                speed(Arm::Shielded) / speed(Arm::Alone)
            ),
            speed(Arm::Shielded) >= 0.95 * speed(Arm::Alone),
        ),
        (
            format!(
                "most of the scan resident is {:.1} MiB, at most 32",
                median(of(Arm::Shielded), |run| run.resident)
            ),
            median(of(Arm::Shielded), |run| run.resident) <= 32.0,
        ),
        (
            format!(
                "the rate of the scan under the shield is {:.3} of its own, at least 0.95",
                seconds(Arm::ScanAlone) / seconds(Arm::ScanAloneShielded)
            ),
            seconds(Arm::ScanAlone) >= 0.95 * seconds(Arm::ScanAloneShielded),
        ),
        (
            format!(
                "CPU of the shield besides fadvise is {:.2} % of one, at most 2",
                median(of(Arm::Shielded), |run| (run.shield_cpu - run.advice_cpu)
                    * 100.0)
            ),
            median(of(Arm::Shielded), |run| run.shield_cpu - run.advice_cpu) <= 0.02,
        ),
        (
            format!(
                "dropped pages that others needed are {:.3} %, at most 0.1",
                median(of(Arm::Shielded), |run| run.needed * 100.0)
            ),
            median(of(Arm::Shielded), |run| run.needed) <= 0.001,
        ),
    ];
    table.push('\n');
    for (text, is_met) in &goals {
        writeln!(
            table,
            "- {}: {text}",
            if *is_met { "met" } else { "missed" }
        )?;
    }
    print!("{table}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, &table)?;
    }
    Ok(!check || goals.iter().all(|(_, is_met)| *is_met))
}

fn main() -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    let done = match &words[..] {
        [_, flag, name, file, group] if flag == "--role" => {
            let (file, group) = (Path::new(file), Path::new(group));
            match name.to_str() {
                Some("reader") => read_at_random(file, group),
                _ => scan(file, group),
            }
            .map(|()| true)
        }
        _ => bench(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("shield: {error}");
            ExitCode::FAILURE
        }
    }
}
