//! `size`: miss ratios by memory size, against those of real memory groups.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::one_thing_to_watch", one_thing_to_watch),
        needs_root("command::not_found_is_127", not_found),
        needs_root("command::keeps_its_status_and_is_plotted", keeps_status),
        needs_root("command::simulated_policy_is_named_everywhere", policy),
        needs_root("command::seconds_lost_have_the_measured_price", price),
        needs_root("command::size_without_room_for_files_is_named", no_room),
        needs_root("command::range_holds_the_size_itself", range),
        needs_root("end::interrupt_shows_what_was_seen", interrupted),
        needs_root("user::without_rights_is_an_error", unprivileged),
        needs_root("group::misses_are_those_of_a_real_limit", || {
            real_limits(PAGES);
        }),
        needs_root(
            "group::misses_with_readahead_are_those_of_a_real_limit",
            || {
                real_limits(BLOCKS);
            },
        ),
    ]
}

const PAGE: u64 = 4096;
const FILE_PAGES: u64 = 64 << 8;
const READS: u64 = 100_000;

/// Names the file that this program reads in place of its tests.
const READER: &str = "CACHEWISE_TEST_SIZE_READER";
const GROUP: &str = "CACHEWISE_TEST_SIZE_GROUP";
/// Pages of each read; the kernel reads ahead of reads of several pages.
const BLOCK: &str = "CACHEWISE_TEST_SIZE_BLOCK";

/// Reads of single pages, of which the reader itself knows the fetched ones.
const PAGES: u64 = 1;

/// Reads of several pages, with readahead: `run` counts those that are missed. Those that are read ahead differ by three
/// points from one run of the kernel to the next.
const BLOCKS: u64 = 4;

/// Reads pages at random, low ranks more often, and prints the share that came from the disk.
pub fn be_a_reader() -> Option<ExitCode> {
    let file = std::env::var_os(READER)?;
    let read = || -> std::io::Result<f64> {
        if let Some(group) = std::env::var_os(GROUP) {
            let tasks = Path::new(&group).join("cgroup.procs");
            std::fs::write(tasks, std::process::id().to_string())?;
        }
        let file = File::open(file)?;
        let block = std::env::var(BLOCK)
            .ok()
            .and_then(|pages| pages.parse().ok());
        let block: u64 = block.unwrap_or(1);
        if block == 1 {
            fadvise(&file, 0, None, Advice::Random)?;
        }
        let mut random = fastrand::Rng::with_seed(17);
        let blocks = FILE_PAGES / block;
        let mut order: Vec<u64> = (0..blocks).collect();
        random.shuffle(&mut order);
        let mut buffer = vec![0; (block * PAGE) as usize];
        let before = read_bytes()?;
        for _ in 0..READS / block {
            let rank = random.f64().powi(3) * blocks as f64;
            file.read_exact_at(&mut buffer, order[rank as usize] * block * PAGE)?;
        }
        let fetched = (read_bytes()? - before) / PAGE;
        Ok(fetched as f64 / (READS / block * block) as f64)
    };
    match read() {
        Ok(ratio) => {
            println!("{ratio}");
            Some(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn read_bytes() -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let bytes = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    bytes
        .and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| std::io::Error::other("no read_bytes"))
}

fn reader(file: &Path, block: u64, group: &Group) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command
        .env(READER, file)
        .env(BLOCK, block.to_string())
        .env(GROUP, group.path());
    command
}

/// Runs the reader in a group; returns its missed pages by those that it requests.
fn really_missed(file: &Path, block: u64, group: &Group) -> f64 {
    let mut reader = reader(file, block, group);
    if block == PAGES {
        let ended = Ended::of(&mut reader).expect(0, "it reads");
        return ended.out().trim().parse().expect("it prints a number");
    }
    let mut command = cachewise(["run", "-o", "json", "--"]);
    command.arg(reader.get_program());
    for (name, value) in reader.get_envs() {
        command.env(name, value.expect("it is set"));
    }
    let ended = Ended::of(&mut command).expect(0, "it reads");
    let report: Value = serde_json::from_str(&ended.err()).expect("it is JSON");
    let total = |field: &str| report["totals"][field].as_f64().expect("a number");
    total("read_missed_pages") / total("read_requested_pages")
}

fn size(arguments: &[&str]) -> Command {
    let mut command = cachewise(["size"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn no_room() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 2 << 20);
    let name = file.to_str().expect("an ordinary name");
    let ended = Ended::of(&mut size(&["--memory", "4K", "--", "cat", name])).expect(0, "it reads");
    ended.says(
        "a size of 4.0 KiB is less than that",
        "no page of a file fits",
    );
}

/// Where a few pages decide the row has a range, and its own figure is in it.
fn range() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 << 20);
    let name = file.to_str().expect("an ordinary name");
    evict(&file);
    let out = scratch.path("out.json");
    let target = format!("json={}", out.display());
    let mut command = size(&["--full-sample", "-o", &target, "--", "sh", "-c"]);
    command.args(["for round in 1 2 3; do cat \"$0\" >/dev/null; done", name]);
    Ended::of(&mut command).expect(0, "it reads");
    let text = std::fs::read(out).expect("it was written");
    let document: Value = serde_json::from_slice(&text).expect("it is JSON");
    let rows = document["rows"].as_array().expect("there are rows");
    let mut ranges = 0;
    for row in rows {
        let ratio = |field: &str| row[field].as_f64();
        for kind in ["miss", "fetched"] {
            let [least, it, most] =
                ["least_", "", "most_"].map(|of| ratio(&format!("size_{of}{kind}_ratio")));
            if let (Some(least), Some(it), Some(most)) = (least, it, most) {
                assert!(least <= it && it <= most, "{row}");
                ranges += 1;
            }
        }
    }
    assert!(ranges > 0, "a file that nearly fits has such sizes");
}

/// The thread that simulates is started when the probe is attached.
fn until_it_watches(pid: u32) {
    until("accesses are simulated", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let mut names = threads
            .flatten()
            .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|name| name.trim() == "simulate").then_some(())
    });
}

fn one_thing_to_watch() {
    for (arguments, part) in [
        (&[][..], "nothing to watch"),
        (&["--all", "-p", "1"], "remove one of the two"),
        (&["-d", "1", "--", "true"], "a command runs to its end"),
        (&["--all", "--columns", "pid"], "pid"),
    ] {
        Ended::of(&mut size(arguments))
            .expect(2, "a usage error")
            .says(part, "it names the fix");
    }
}

fn not_found() {
    Ended::of(&mut size(&["--", "/no/such/program"])).expect(127, "as a shell says it");
}

fn keeps_status() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let (json, svg) = (scratch.path("curve.json"), scratch.path("curve.svg"));
    let script = format!("cat '{}' >/dev/null; exit 3", file.display());
    let arguments = [
        "-o",
        text(&json),
        "--svg",
        text(&svg),
        "--",
        "sh",
        "-c",
        &script,
    ];
    Ended::of(&mut size(&arguments)).expect(3, "the command's own status");
    let document = std::fs::read_to_string(&json).expect("it was written");
    let document: Value = serde_json::from_str(&document).expect("it is JSON");
    let rows = document["rows"].as_array().expect("there are rows");
    let requested = rows[0]["size_requested_pages"].as_u64().expect("a number");
    assert!(
        requested >= 256,
        "the file's pages and some of sh and cat: {}",
        rows[0]
    );
    let ratio = rows[0]["size_fetched_ratio"].as_f64().expect("a number");
    assert!(
        ratio > 0.5,
        "all of it is read for the first time: {}",
        rows[0]
    );
    let missed = rows[0]["size_missed_pages"].as_u64().expect("a number");
    assert!(
        (1..=requested).contains(&missed),
        "the first page is not there, and others are read ahead: {}",
        rows[0]
    );
    let svg = std::fs::read_to_string(&svg).expect("it was written");
    assert!(svg.trim_end().ends_with("</svg>"), "the plot is whole");
}

fn policy() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let (json, svg) = (scratch.path("curve.json"), scratch.path("curve.svg"));
    for (policy, curve) in [
        ("lists", "active and inactive lists"),
        ("generations", "generations (MGLRU)"),
        ("generations-6.14", "generations (MGLRU since Linux 6.14)"),
    ] {
        let arguments = ["--policy", policy, "-o", text(&json), "--svg", text(&svg)];
        let mut command = size(&arguments);
        command.args(["--", "cat", text(&file)]);
        Ended::of(&mut command)
            .expect(0, "it reads the file")
            .says("eviction was simulated by", "a note names it");
        let document = std::fs::read_to_string(&json).expect("it was written");
        let document: Value = serde_json::from_str(&document).expect("it is JSON");
        assert_eq!(document["rows"][0]["size_policy"], policy, "{document}");
        let svg = std::fs::read_to_string(&svg).expect("it was written");
        assert!(svg.contains(curve), "the plot names the policy of {policy}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

/// The row of the largest memory of `size -- cat FILE`.
fn largest_of(file: &Path, json: &Path) -> Value {
    let arguments = ["-o", text(json), "--", "cat", text(file)];
    Ended::of(&mut size(&arguments)).expect(0, "it reads the file");
    let document = std::fs::read_to_string(json).expect("it was written");
    let document: Value = serde_json::from_str(&document).expect("it is JSON");
    let rows = document["rows"].as_array().expect("there are rows");
    rows.last().expect("there is one").clone()
}

fn price() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 << 20);
    let json = scratch.path("curve.json");
    // Programs and libraries are resident from here on.
    largest_of(&scratch.file("small", PAGE), &json);
    let resident = largest_of(&file, &json);
    assert_eq!(
        resident["reason_codes"]["size_lost_seconds"], "nothing_fetched",
        "no device was waited for: {resident}"
    );
    assert!(resident["size_lost_seconds"].is_null(), "{resident}");
    evict(&file);
    let fetched = largest_of(&file, &json);
    let lost = fetched["size_lost_seconds"].as_f64().expect("a number");
    assert!(lost > 0.0, "a device was waited for: {fetched}");
}

fn interrupted() {
    let size = Started::of(&mut size(&["--all"]));
    until_it_watches(size.pid());
    size.signal(Signal::INT);
    let ended = size.wait().expect(130, "Ctrl-C ends it");
    let out = ended.out();
    assert!(
        out.contains("memory") || out.contains("no reads"),
        "what was seen: {out}"
    );
}

fn unprivileged() {
    let scratch = Scratch::new();
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["size", "--all", "-d", "1"]);
    Ended::of(&mut command)
        .expect(2, "it needs rights")
        .says("accesses cannot be watched", "it says why")
        .says(
            "this process does not have CAP_BPF and CAP_PERFMON",
            "it names the missing capabilities",
        );
}

/// Memory sizes by which the prediction is judged, in percent of the file.
const PERCENT: [u64; 3] = [25, 50, 75];

/// Margin of the prediction, in points: the bench of crates/curve has more loads, and finer ones.
const MARGIN: f64 = 0.03;

fn real_limits(block: u64) {
    let Some((watched, file)) = Group::new().and_then(|group| {
        group.limit_memory(4 * FILE_PAGES * PAGE)?;
        let scratch = Scratch::new();
        let file = scratch.file("file", FILE_PAGES * PAGE);
        Some((group, (scratch, file)))
    }) else {
        println!("skipped: size: no control group with a memory limit can be made here");
        return;
    };
    let (_scratch, file) = file;
    let sizes = PERCENT.map(|percent| FILE_PAGES * PAGE * percent / 100);
    let sizes = sizes.map(|size| size.to_string());
    evict(&file);
    let mut arguments = vec!["--full-sample", "--cgroup", text(watched.path())];
    arguments.extend(["-o", "json"]);
    for size in &sizes {
        arguments.extend(["--memory", size]);
    }
    let watcher = Started::of(&mut size(&arguments));
    until_it_watches(watcher.pid());
    let whole = Ended::of(&mut reader(&file, block, &watched)).expect(0, "it reads");
    watcher.signal(Signal::TERM);
    let ended = watcher.wait().expect(143, "the signal ends it");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    let rows = document["rows"].as_array().expect("there are rows");
    let predicted = |limit: u64| {
        let of_limit = |row: &&Value| {
            row["size_memory_bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes.abs_diff(limit) <= PAGE)
        };
        let row = rows.iter().find(of_limit);
        let row = row.unwrap_or_else(|| panic!("there is a row of {limit}: {}", ended.out()));
        row["size_miss_ratio"].as_f64().expect("a number")
    };
    let whole: f64 = whole.out().trim().parse().expect("it prints a number");
    let unlimited = predicted(4 * FILE_PAGES * PAGE);
    assert!(
        block != PAGES || (unlimited - whole).abs() < 0.005,
        "what it did: {unlimited} and {whole}"
    );
    for size in &sizes {
        let limit: u64 = size.parse().expect("our own number");
        let group = Group::new().expect("there was one before");
        group.limit_memory(limit).expect("as before");
        let really = undisturbed(|| {
            evict(&file);
            Some(really_missed(&file, block, &group))
        });
        let predicted = predicted(limit);
        writeln!(
            std::io::stdout(),
            "{limit}: {predicted:.4}, really {really:.4}"
        )
        .expect("it is open");
        assert!(
            (predicted - really).abs() < MARGIN,
            "{limit} bytes: {predicted} predicted, {really} measured"
        );
    }
}
