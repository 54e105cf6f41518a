//! `bench`: its output, its refusals, and the removal of its files.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("lines::match_cache_bench", lines_of_cache_bench),
        plain("formats::all_hold_the_same_fields", formats),
        plain("columns::option_selects_columns", picked_columns),
        plain("seeds::all_arms_share_one", seeds),
        plain("refused::each_names_the_reason", refused),
        needs_root("refused::a_device_in_use_is_not_written", device_in_use),
        plain("refused::read_only_and_full_disks", no_room),
        plain("signals::sums_and_nothing_left", interrupted),
        plain("signals::typed_ctrl_c_leaves_no_bar", typed_ctrl_c),
        needs_root("rights::other_user_gets_estimates", as_somebody_else),
        needs_root("memory::limit_causes_refaults", limited),
        needs_root("demo::dd_cold_and_warm", demo_dd),
        needs_root("demo::direct_and_cached", demo_direct),
    ]
}

const MIB: u64 = 1 << 20;

fn done(scratch: &Scratch, arguments: &[&str]) -> Ended {
    Ended::of(
        cachewise(["bench"])
            .args(arguments)
            .current_dir(scratch.directory()),
    )
}

/// A directory with a fully cached file of 4 MiB.
fn with_file() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path("data"), vec![7; 4 * MIB as usize]).expect("the disk has room");
    scratch
}

fn names(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir(scratch.directory())
        .expect("it is there")
        .flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A text with each number replaced by `N`.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' | '.' if out.ends_with('N') => {}
            '0'..='9' => out.push('N'),
            other => out.push(other),
        }
    }
    out
}

fn lines_of_cache_bench() {
    let scratch = Scratch::new();
    let written = done(&scratch, &["-w", "2", "-f", "new"]).expect(0, "a file is written");
    assert_eq!(
        written.out(),
        "starting cache-bench\n  file: new\n  file size: 2 MiB\nwriting the file...\nfsync...\nOK\n",
        "as cache-bench does"
    );
    let size = fs::metadata(scratch.path("new"))
        .expect("it is there")
        .len();
    assert_eq!(size, 2 * MIB, "of that size");
    done(&scratch, &["-w", "2", "-f", "new"]).expect(2, "nothing is written over");
    let line = [
        "-f",
        "new",
        "-r",
        "20",
        "-c",
        "32",
        "-m",
        "1",
        "-p",
        "1",
        "-b",
        "1",
        "-l",
        "log",
        "--format",
        "cache-bench",
    ];
    let read = done(&scratch, &line).expect(0, "it is read").out();
    let expected = "\
starting cache-bench
  file: new
  file size: N MiB
  log file: log
  output interval: Ns
  mmap: N, preread: N, bloat: N, chunk: N KiB
prereading (caching) the file...
  preread N MiB (N%) in Ns
reading N MiB from the file...
  read NM in Ns (NM/s); total NM in Ns, avg NM/s
total read N MiB in Ns (avg N MiB/s)
";
    assert_eq!(without_numbers(&read), expected, "line for line: {read}");
    for part in [
        "  file size: 2.0 MiB\n",
        "output interval: 2s",
        "mmap: 1, preread: 1, bloat: 1, chunk: 32 KiB",
    ] {
        assert!(read.contains(part), "{part:?} in {read}");
    }
    let log = fs::read_to_string(scratch.path("log")).expect("there is a log");
    let unstamped: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(_, text)| text)
        .collect();
    assert_eq!(
        unstamped.join("\n") + "\n",
        read,
        "the log has the same lines, with the time"
    );
    let stamp = without_numbers(log.split(": ").next().unwrap_or_default());
    assert_eq!(stamp, "N-N-N N:N:N,N", "as Python's logging writes it");
}

fn formats() {
    let scratch = with_file();
    let line = [
        "-f",
        "data",
        "-r",
        "8",
        "--engine",
        "nowait,mmap-copy",
        "-c",
        "4,64",
    ];
    let with = |more: &[&str]| {
        let line = [&line[..], more].concat();
        done(&scratch, &line).expect(0, "it is measured").out()
    };
    let table = with(&[]);
    for word in [
        "HIT-OPS%",
        "AMP",
        "MISS-P99.9",
        "mmap-copy",
        "64.0 KiB",
        "100.00 %",
    ] {
        assert!(table.contains(word), "{word} in {table}");
    }
    let json: Value = serde_json::from_str(&with(&["--json"])).expect("it is JSON");
    let rows = json["rows"].as_array().expect("a list");
    let totals: Vec<&Value> = rows.iter().filter(|row| row["part"] == "total").collect();
    assert_eq!(totals.len(), 4, "two engines by two chunks");
    for total in &totals {
        assert_eq!(total["useful_bytes"], 8 * MIB, "{total}");
        assert_eq!(
            total["hit_operations"], total["operations"],
            "everything is cached: {total}"
        );
        assert_eq!(total["device_read_bytes"], 0, "no device read: {total}");
        assert!(total["latency_p99_seconds"].as_f64() > Some(0.0), "{total}");
        assert!(
            total["miss_p50_seconds"].is_null(),
            "a missing operation has no latency: {total}"
        );
        assert!(
            total["reasons"]["miss_p50_seconds"].is_string(),
            "and a reason: {total}"
        );
    }
    let estimated = totals[3]["estimated"].to_string();
    assert!(
        estimated.contains("hit_operations"),
        "estimates are marked: {estimated}"
    );
    let lines = with(&["-o", "jsonl"]);
    assert_eq!(lines.lines().count(), rows.len(), "a line a row");
    let csv = with(&["-o", "csv"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().expect("a header").clone();
    assert!(
        header.iter().any(|id| id == "amplification_factor"),
        "ids: {header:?}"
    );
    assert_eq!(reader.records().count(), rows.len(), "a record a row");
    let metrics = with(&["-o", "openmetrics"]);
    assert!(
        metrics.contains("cachewise_useful_bytes_total 8388608"),
        "{metrics}"
    );
    let bare = with(&["--no-latency", "--json"]);
    assert!(
        bare.contains("latencies were not recorded"),
        "the reason: {bare}"
    );
}

fn picked_columns() {
    let scratch = with_file();
    let line = [
        "-f",
        "data",
        "-r",
        "4",
        "--columns",
        "amp,useful_bytes",
        "-o",
        "csv",
    ];
    let csv = done(&scratch, &line).expect(0, "it is measured").out();
    assert!(
        csv.starts_with("amplification_factor,useful_bytes,"),
        "in their order: {csv}"
    );
    let line = ["-f", "data", "-r", "4", "--columns", "ampp"];
    let err = done(&scratch, &line).expect(2, "a slip").err();
    assert!(err.contains("did you mean `amp`"), "{err}");
}

fn seeds() {
    let scratch = with_file();
    let line = [
        "-f",
        "data",
        "-r",
        "1",
        "--engine",
        "pread,nowait",
        "--repeat",
        "2",
        "--seed",
        "7",
        "-o",
        "jsonl",
    ];
    let out = done(&scratch, &line).expect(0, "it is measured").out();
    let rows = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let totals = rows.filter(|row| row["part"] == "total");
    let seeds: Vec<(String, u64)> = totals
        .map(|row| {
            (
                row["engine"].to_string(),
                row["seed"].as_u64().unwrap_or_default(),
            )
        })
        .collect();
    let of = |engine: &str, seed| (format!("{engine:?}"), seed);
    let expected = [
        of("pread", 7),
        of("nowait", 7),
        of("pread", 8),
        of("nowait", 8),
    ];
    assert_eq!(
        seeds, expected,
        "shared by arms, another one for each repeat"
    );
}

/// A device in use, by a mount or as swap, is not written, even with --overwrite.
fn device_in_use() {
    let scratch = Scratch::new();
    let image = scratch.path("image");
    std::fs::write(&image, vec![7; 8 << 20]).expect("an image");
    let device = LoopDevice::over(&image);
    let exclusive = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL;
    let held = rustix::fs::open(&device.path, exclusive, rustix::fs::Mode::empty())
        .expect("it can be held");
    let write = || {
        let mut command = cachewise(["bench", "-r", "1", "--engine", "write", "--overwrite", "-f"]);
        Ended::of(command.arg(&device.path))
    };
    write()
        .expect(2, "it is in use")
        .says("in use", "the reason and what to do");
    let content = std::fs::read(&device.path).expect("the device");
    assert!(
        content.iter().all(|byte| *byte == 7),
        "not a byte is written"
    );
    drop(held);
    write().expect(0, "a free device is written when --overwrite says so");
}

fn refused() {
    let scratch = with_file();
    fs::write(scratch.path("empty"), "").expect("the disk has room");
    let before = names(&scratch);
    for (line, why) in [
        (&["-f", "data"][..], "no amount to read"),
        (&["-f", "none", "-r", "1"], "--size"),
        (&["-f", "empty", "-r", "1"], "nothing to read"),
        (
            &["-f", "data", "-r", "1", "-c", "8192"],
            "less than one chunk",
        ),
        (&["-f", ".", "-r", "1"], "only files and block devices"),
        (&["-f", "data", "-r", "0"], "not above 0"),
        (&["-f", "data", "-r", "-5"], "not above 0"),
        (&["-f", "data", "-r", "inf"], "more than any disk"),
        (&["-f", "data", "-r", "nan"], "not a number"),
        (&["-f", "data", "-r", "1", "-c", "0"], "invalid size 0"),
        (&["-f", "data", "-r", "1", "-c", "-4"], "-4"),
        (&["-f", "data", "-r", "1", "-i", "0"], "0"),
        (&["-f", "data", "-d", "0"], "0"),
        (&["-f", "data", "-r", "1", "-m", "2"], "0, 1"),
        (&["-f", "data", "-r", "1", "--engine", "mmap"], "mmap-copy"),
        (&["-f", "data", "-r", "1", "--access", "zipf"], "zipf:THETA"),
        (&["-f", "data", "-r", "1", "--threads", "0"], "threads"),
        (&["-f", "data", "-r", "1", "--bloat", "64KB"], "64KiB"),
        (
            &["-f", "data", "-r", "1", "--swap-max", "1M"],
            "--memory-max",
        ),
        (
            &["-f", "data", "-r", "1", "--engine", "write"],
            "--overwrite",
        ),
        (&["-f", "data", "-r", "1", "--size", "1M"], "there already"),
        (&["-f", "new", "-r", "1", "--size", "1E"], "free"),
        (&["-f", "no/new", "-w", "1"], "make that first"),
        (&["-f", "data", "-w", "1"], "not overwritten"),
        (
            &["-f", "data", "-r", "1", "--memory-max", "4K"],
            "the measurement itself needs",
        ),
        (&["-f", "data", "-d", "1", "-b", "1"], "limit it with"),
        (
            &[
                "-f",
                "data",
                "-r",
                "1",
                "-c",
                "4M",
                "--engine",
                "io-uring",
                "--depth",
                "32768",
                "--threads",
                "256",
            ],
            "smaller chunks",
        ),
        (
            &["-f", "data", "-r", "1", "-l", "no/log"],
            "cannot open the log",
        ),
        (&["-w", "1", "-r", "1"], "cannot be used with"),
        (&["-f", "data", "-r", "1", "--keep"], "--size"),
        (
            &["demo", "direct", "-d", "data", "-s", "1000", "-n", "1"],
            "multiple of 4K",
        ),
        (&["demo", "direct", "-d", "none", "-n", "1"], "none"),
        (&["demo", "dd", "-f", "none"], "none"),
        (&["demo", "dd", "-s", "0"], "invalid size 0"),
    ] {
        let ended = done(&scratch, line).expect(2, "it cannot be done");
        assert!(
            ended.err().contains(why),
            "{line:?} names the reason: {}",
            ended.err()
        );
        // cache-bench prints the start of a write before it checks.
        let is_written = line.contains(&"-w");
        assert!(ended.out().is_empty() || is_written, "{line:?}: no output");
    }
    assert_eq!(names(&scratch), before, "nothing was made");
}

fn no_room() {
    let scratch = with_file();
    // A limit on the size of files ends a write in the middle, like a full disk.
    let mut shell = Command::new("bash");
    let line = format!(
        "ulimit -f 1024; exec {} bench -f new -w 8",
        env!("CARGO_BIN_EXE_cachewise")
    );
    let ended = Ended::of(shell.args(["-c", &line]).current_dir(scratch.directory()));
    assert_eq!(ended.code(), 2, "an error, and no signal: {}", ended.err());
    assert!(
        ended.err().contains("write new"),
        "the failed operation: {}",
        ended.err()
    );
    assert_eq!(
        names(&scratch),
        ["data"],
        "the part that was written is gone"
    );
    let err = done(&scratch, &["-f", "/proc/new", "-w", "1"])
        .expect(2, "no place for files")
        .err();
    assert!(err.contains("/proc"), "{err}");
}

fn interrupted() {
    let scratch = Scratch::new();
    let line = [
        "bench",
        "-f",
        "made",
        "--size",
        "4M",
        "-d",
        "600",
        "-i",
        "0.05",
        "--columns",
        "ops",
    ];
    let mut command = cachewise(line);
    let mut started = Started::of(command.current_dir(scratch.directory()));
    for what in ["the header", "a row"] {
        assert!(started.line().is_some(), "{what} is printed as it comes");
    }
    started.signal(Signal::INT);
    let ended = started.wait();
    assert_eq!(ended.code(), 130, "as shells have it: {}", ended.err());
    assert!(
        ended.out().contains("ENGINE"),
        "the sums are printed: {}",
        ended.out()
    );
    assert!(
        ended.err().contains("interrupted"),
        "and it is reported: {}",
        ended.err()
    );
    assert_eq!(names(&scratch), Vec::<String>::new(), "the file is gone");
}

/// The terminal's own ^C must not start a line on which the bar would stay.
fn typed_ctrl_c() {
    let scratch = with_file();
    let data = scratch.path("data");
    let data = data.to_str().expect("a name of ours");
    let line = ["bench", "-f", data, "-d", "600", "-c", "4", "-i", "600"];
    let mut terminal = OnTerminal::of(&line, "xterm-256color");
    terminal.until_shown(" left");
    terminal.press("\u{3}");
    assert_eq!(terminal.ended(), 130, "as shells have it");
    terminal.until_shown("interrupted");
    let text = terminal.text();
    assert!(
        text.contains("ENGINE") && !text.contains("measuring") && !text.contains("^C"),
        "the bar is gone: {text}"
    );
}

/// A user who may only read the file.
fn as_somebody_else() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = with_file();
    let open = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    open(scratch.directory(), 0o755);
    open(&scratch.path("data"), 0o644);
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["bench", "-f", "data", "-r", "4", "--json"]);
    let ended = Ended::of(command.current_dir(scratch.directory())).expect(0, "reading is allowed");
    let json: Value = serde_json::from_str(&ended.out()).expect("it is JSON");
    let total = json["rows"]
        .as_array()
        .and_then(|rows| rows.last())
        .expect("a row");
    assert_eq!(total["useful_bytes"], 4 * MIB, "it was read: {total}");
    assert!(
        total["resident_before_pages"].is_null(),
        "residency is unknown: {total}"
    );
    for (more, why) in [
        (&["-r", "1", "--memory-max", "64M"][..], "--memory-max"),
        (&["-r", "1", "--fill", "cold"], "data"),
        (
            &["-r", "1", "--engine", "write", "--overwrite"],
            "Permission denied",
        ),
        (&["-w", "1", "-f", "new"], "Permission denied"),
        (
            &["-r", "1", "--bloat", "1M", "--bloat-oom-score-adj", "-500"],
            "root",
        ),
    ] {
        let mut command = cachewise_as_nobody(&scratch);
        // A second -f would be refused.
        if !more.contains(&"-f") {
            command.args(["bench", "-f", "data"]);
        } else {
            command.arg("bench");
        }
        let ended = Ended::of(command.args(more).current_dir(scratch.directory()));
        let err = ended.expect(2, "that is not allowed").err();
        assert!(err.contains(why), "{more:?} names the reason: {err}");
    }
    assert_eq!(names(&scratch), ["cachewise", "data"], "nothing was made");
}

fn limited() {
    let scratch = Scratch::new();
    let line = [
        "-f",
        "made",
        "--size",
        "128M",
        "-r",
        "256",
        "--memory-max",
        "64M",
        "--fill",
        "cold",
        "--engine",
        "nowait",
        "--json",
    ];
    let ended = done(&scratch, &line);
    if ended.code() == 2 && ended.err().contains("--memory-max") {
        println!("skipped: bench --memory-max: {}", ended.err().trim());
        return;
    }
    let ended = ended.expect(0, "it is measured");
    let json: Value = serde_json::from_str(&ended.out()).expect("it is JSON");
    let total = json["rows"]
        .as_array()
        .and_then(|rows| rows.last())
        .expect("a row");
    assert!(
        total["miss_operations"].as_u64() > Some(0),
        "half of it does not fit: {total}"
    );
    assert!(
        total["file_refault_pages"].as_u64() > Some(0),
        "evicted pages are refaulted: {total}"
    );
    let group = total["cgroup"].as_str().expect("the group is named");
    assert!(group.contains("cachewise-bench"), "it is its own: {group}");
    assert!(!std::path::Path::new(group).exists(), "and gone: {group}");
    assert_eq!(names(&scratch), Vec::<String>::new(), "so is the file");
}

fn demo_dd() {
    let scratch = Scratch::new();
    let ended = done(&scratch, &["demo", "dd", "-s", "16M"]).expect(0, "both readings");
    assert_eq!(
        ended.out().matches("---").count(),
        2,
        "cold and warm: {}",
        ended.out()
    );
    let err = ended.err();
    assert!(
        err.matches("dd").count() >= 2 && err.matches("4,096").count() >= 2,
        "a report of each: {err}"
    );
    assert_eq!(names(&scratch), Vec::<String>::new(), "the file is gone");
}

fn demo_direct() {
    let scratch = with_file();
    for (more, word) in [(&[][..], "direct"), (&["--cached"], "4 MiB")] {
        let line = [
            &[
                "demo", "direct", "-d", "data", "-s", "1M", "-n", "2", "-i", "10ms",
            ],
            more,
        ]
        .concat();
        let ended = done(&scratch, &line);
        if ended.code() == 2 && ended.err().contains("open with O_DIRECT") {
            println!("skipped: bench demo direct: {}", ended.err().trim());
            return;
        }
        let ended = ended.expect(0, "two rounds");
        let out = ended.out();
        assert!(
            out.starts_with("Reading data from disk data with buffer size 1048576\n"),
            "{out}"
        );
        let rounds = out.matches(" s to read 1048576 bytes\n").count();
        assert_eq!(rounds, 2, "as the case study prints it: {out}");
        let err = ended.err();
        let is_direct =
            err.to_lowercase().contains("o_direct") || err.to_lowercase().contains("direct i/o");
        assert_eq!(is_direct, word == "direct", "findings explain it: {err}");
    }
    let short = [
        "demo",
        "direct",
        "-d",
        "data",
        "-s",
        "1G",
        "-n",
        "1",
        "--cached",
        "--unexplained",
    ];
    let ended = done(&scratch, &short).expect(0, "the end of the file is an end");
    assert!(
        ended.out().contains("to read 4194304 bytes"),
        "{}",
        ended.out()
    );
    assert!(
        ended.err().contains("ends after 4.0 MiB"),
        "{}",
        ended.err()
    );
}
