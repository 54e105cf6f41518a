//! `--stacks`: the function and line of each miss, wait and eviction.
//!
//! # Layout
//! - `elsewhere`: programs in another mount namespace, and deleted ones. `scripts`: functions of interpreted programs.
//! - `recorded`: recordings with stacks.

mod elsewhere;
mod recorded;
mod scripts;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("c_misses_have_their_line", c_misses_have_their_line),
        needs_root("rust_misses_have_their_line", rust_misses_have_their_line),
        needs_root("go_misses_have_their_line", go_misses_have_their_line),
        needs_root("faults_have_their_line", faults_have_their_line),
        needs_root("direct_reads_have_their_line", direct_reads_have_their_line),
        needs_root("syncs_have_their_line", syncs_have_their_line),
        needs_root(
            "follow_and_interrupt_have_the_lines",
            follow_and_interrupt_have_the_lines,
        ),
        needs_root(
            "perf_maps_name_code_in_no_file",
            perf_maps_name_code_in_no_file,
        ),
        needs_root(
            "throttled_writes_have_their_line",
            throttled_writes_have_their_line,
        ),
        needs_root("evictions_have_their_line", evictions_have_their_line),
        needs_root(
            "without_the_option_nothing_is_attached",
            without_the_option_nothing_is_attached,
        ),
        needs_root(
            "files_have_the_stacks_of_the_report",
            files_have_the_stacks_of_the_report,
        ),
        needs_root(
            "a_short_process_is_known_or_marked",
            a_short_process_is_known_or_marked,
        ),
        needs_root("stripped_programs_are_marked", stripped_programs_are_marked),
        needs_root("without_root_it_is_refused", without_root_it_is_refused),
        needs_root(
            "io_uring_reads_have_their_line",
            io_uring_reads_have_their_line,
        ),
    ]
    .into_iter()
    .chain(elsewhere::trials())
    .chain(recorded::trials())
    .chain(scripts::trials())
    .collect()
}

const C: &str = include_str!("programs/events.c");
const RUST: &str = include_str!("programs/reads.rs");
const JIT: &str = include_str!("programs/jit.c");
const URING: &str = include_str!("programs/uring.c");
const GO: &str = include_str!("programs/reads.go");

/// Pages between two reads, and how often the programs read: 64 times one page, 16 times 16.
const STRIDE: u64 = 64;
const READS: u64 = 80;
const INDEX_PAGES: u64 = 64;
const TABLE_PAGES: u64 = 256;

/// The line with this mark in a comment.
fn line(source: &str, mark: &str) -> u64 {
    let ends = [format!("/* {mark} */"), format!("// {mark}")];
    let place = source
        .lines()
        .position(|line| ends.iter().any(|end| line.ends_with(end)));
    place.expect("the program has the mark") as u64 + 1
}

/// Writes a source and compiles it; nothing without the compiler.
fn compiled(scratch: &Scratch, name: &str, source: &str, compiler: &[&str]) -> Option<PathBuf> {
    let (path, program) = (scratch.path(name), scratch.path("program"));
    std::fs::write(&path, source).expect("there is room");
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .arg("-o")
        .arg(&program)
        .arg(&path);
    match command.status() {
        Err(_) => {
            println!("skipped: stacks: {} is not installed", compiler[0]);
            None
        }
        Ok(status) => {
            assert!(status.success(), "{} compiles it", compiler[0]);
            Some(program)
        }
    }
}

fn compiled_c(scratch: &Scratch) -> Option<PathBuf> {
    compiled(scratch, "events.c", C, &["gcc", "-g", "-O2"])
}

/// A file that is not in the cache.
fn cold(scratch: &Scratch) -> PathBuf {
    let file = scratch.file("file", READS * STRIDE * page_size());
    evict(&file);
    file
}

fn report(program: &Path, kind: Option<&str>, file: &Path) -> Report {
    let words = [
        Some(program.as_os_str()),
        kind.map(str::as_ref),
        Some(file.as_os_str()),
    ];
    let report = report_of(&["--stacks"], words.into_iter().flatten());
    assert_eq!(report.ended.code(), 0, "{}", report.ended.err());
    assert_eq!(report.lost("stacks"), 0, "the ring had room");
    report
}

fn stacks(report: &Report) -> &[Value] {
    report.json["stacks"]
        .as_array()
        .expect("they were requested")
}

/// The sum of a weight over stacks of an event; of one function and line, or of all.
fn sum(report: &Report, event: &str, weight: &str, place: Option<(&str, u64)>) -> f64 {
    let is_there = |stack: &&Value| {
        let Some((function, line)) = place else {
            return true;
        };
        let own = stack["own_frame"].as_u64().unwrap_or(u64::MAX) as usize;
        let frame = &stack["frames"][own];
        frame["line"] == line
            && frame["function"]
                .as_str()
                .is_some_and(|name| name == function || name.ends_with(&format!("::{function}")))
    };
    let of_event = stacks(report)
        .iter()
        .filter(|stack| stack["event"] == event);
    of_event
        .filter(is_there)
        .map(|stack| stack[weight].as_f64().expect("a number"))
        .sum()
}

/// At least 95 % of what the program did there.
fn is_mostly(found: f64, expected: u64, what: &str, report: &Report) {
    let expected = expected as f64;
    assert!(
        found >= 0.95 * expected && found <= expected,
        "{what}: {found} of {expected}, in {:#}",
        report.json["stacks"]
    );
}

fn misses_have_their_line(
    program: &Path,
    kind: Option<&str>,
    file: &Path,
    places: [(&str, u64); 2],
) {
    let report = report(program, kind, file);
    let missed = number(report.file(file), "read_missed_pages");
    assert_eq!(
        missed,
        INDEX_PAGES + TABLE_PAGES,
        "every page that it reads"
    );
    let [index, table] = places;
    for (place, pages) in [(index, INDEX_PAGES), (table, TABLE_PAGES)] {
        let found = sum(&report, "read", "pages", Some(place));
        is_mostly(found, pages, place.0, &report);
    }
    // Others are those of the program's own loading.
    let all = number(&report.json["totals"], "read_missed_pages");
    assert_eq!(
        sum(&report, "read", "pages", None) as u64,
        all,
        "stacks have every missed page"
    );
}

fn c_misses_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let places = [
        ("load_index", line(C, "index")),
        ("load_table", line(C, "table")),
    ];
    misses_have_their_line(&program, Some("reads"), &cold(&scratch), places);
}

fn rust_misses_have_their_line() {
    let scratch = Scratch::new();
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = [compiler.as_str(), "-g", "-O", "--edition", "2024"];
    let Some(program) = compiled(&scratch, "reads.rs", RUST, &compiler) else {
        return;
    };
    let places = [
        ("load_index", line(RUST, "index")),
        ("load_table", line(RUST, "table")),
    ];
    misses_have_their_line(&program, None, &cold(&scratch), places);
}

fn go_misses_have_their_line() {
    let scratch = Scratch::new();
    let known = Path::new("/usr/local/go/bin/go");
    let compiler = if known.exists() {
        known
    } else {
        Path::new("go")
    };
    let compiler = [compiler.to_str().expect("plain"), "build"];
    let Some(program) = compiled(&scratch, "reads.go", GO, &compiler) else {
        return;
    };
    let places = [
        ("main.loadIndex", line(GO, "index")),
        ("main.loadTable", line(GO, "table")),
    ];
    misses_have_their_line(&program, None, &cold(&scratch), places);
}

fn faults_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let file = cold(&scratch);
    let report = report(&program, Some("faults"), &file);
    let missed = number(report.file(&file), "fault_miss_pages");
    let found = sum(&report, "fault", "pages", Some(("touch", line(C, "touch"))));
    is_mostly(found, missed, "touch", &report);
    assert_eq!(missed, 64, "a page each");
}

fn direct_reads_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let file = cold(&scratch);
    let report = report(&program, Some("direct"), &file);
    let bytes = number(report.file(&file), "direct_read_bytes");
    assert_eq!(bytes, 32 * 8 * page_size(), "all that it reads");
    let place = ("read_around", line(C, "direct"));
    is_mostly(
        sum(&report, "direct", "bytes", Some(place)),
        bytes,
        "bytes",
        &report,
    );
    let waited = sum(&report, "direct", "waited_seconds", None);
    let there = sum(&report, "direct", "waited_seconds", Some(place));
    assert!(
        there >= 0.95 * waited && waited > 0.0,
        "{there} of {waited} s"
    );
}

fn io_uring_reads_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled(&scratch, "uring.c", URING, &["gcc", "-g", "-O2"]) else {
        return;
    };
    let file = cold(&scratch);
    let report = report(&program, None, &file);
    if report.ended.out().starts_with("skipped") {
        println!("skipped: io_uring: this kernel has none");
        return;
    }
    let missed = number(report.file(&file), "read_missed_pages");
    assert_eq!(missed, 64, "a page each");
    let place = ("submit", line(URING, "submit"));
    let there = sum(&report, "read", "pages", Some(place));
    let marked: f64 = stacks(&report)
        .iter()
        .filter(|stack| stack["unknown_code"] == "io_uring_worker")
        .filter_map(|stack| stack["pages"].as_f64())
        .sum();
    is_mostly(
        there + marked,
        missed,
        "the call that submits, or a worker",
        &report,
    );
    let all = number(&report.json["totals"], "read_missed_pages");
    assert_eq!(
        sum(&report, "read", "pages", None) as u64,
        all,
        "every page"
    );
}

fn syncs_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let report = report(&program, Some("writes"), &cold(&scratch));
    let waited = report.json["totals"]["waited_sync_seconds"].as_f64();
    let waited = waited.expect("it is measured");
    let found = sum(
        &report,
        "sync",
        "waited_seconds",
        Some(("flush_log", line(C, "flush"))),
    );
    assert!(
        found >= 0.95 * waited && found <= waited * 1.000_001 && waited > 0.0,
        "{found} of {waited} s"
    );
}

fn throttled_writes_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let Some(_limits) = DirtyLimits::lowered(4 << 20, 8 << 20) else {
        println!("skipped: throttled writes: the limits of dirty memory cannot be set");
        return;
    };
    let report = report(&program, Some("much"), &cold(&scratch));
    let waited = report.json["totals"]["waited_throttle_seconds"].as_f64();
    let waited = waited.expect("it is measured");
    assert!(waited > 0.0, "256 MiB are beyond 8 MiB of dirty memory");
    let found = sum(
        &report,
        "throttle",
        "waited_seconds",
        Some(("fill", line(C, "fill"))),
    );
    assert!(found >= 0.95 * waited, "{found} of {waited} s");
}

fn follow_and_interrupt_have_the_lines() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let (file, target) = (cold(&scratch), scratch.path("report.json"));
    let mut reads = Command::new(&program);
    reads.arg("reads").arg(&file).arg("waits");
    let mut program = reads.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = program.stdin.take().expect("it was asked for");
    let mut follow = cachewise(["run", "--stacks", "-o"]);
    follow.arg(&target).args(["-p", &program.id().to_string()]);
    let mut following = Started::of(&mut follow);
    following.until_thread("stacks");
    input.write_all(b"b").expect("it reads its input");
    until("the last page that it reads is resident", || {
        (resident(&file) >= INDEX_PAGES + TABLE_PAGES).then_some(())
    });
    following.until_thread("signals");
    following.signal(Signal::INT);
    let ended = following.wait();
    assert_eq!(
        ended.code(),
        0,
        "an interrupt ends the measurement: {}",
        ended.err()
    );
    drop(input);
    assert!(program.wait().expect("a child").success(), "it went on");
    let report = Report::read(&target, ended);
    for (place, pages) in [
        (("load_index", line(C, "index")), INDEX_PAGES),
        (("load_table", line(C, "table")), TABLE_PAGES),
    ] {
        let found = sum(&report, "read", "pages", Some(place));
        is_mostly(found, pages, place.0, &report);
    }
}

fn perf_maps_name_code_in_no_file() {
    let scratch = Scratch::new();
    let compiler = ["gcc", "-g", "-O2", "-fno-omit-frame-pointer"];
    let Some(program) = compiled(&scratch, "jit.c", JIT, &compiler) else {
        return;
    };
    let file = cold(&scratch);
    let report = report(&program, None, &file);
    let map = report.ended.out();
    std::fs::remove_file(map.trim_end()).expect("it was written");
    let named = stacks(&report).iter().filter(|stack| {
        let frames = stack["frames"].as_array().expect("a list");
        let mut user = frames.iter().filter(|frame| frame["kernel"] == false);
        let inner = user
            .next()
            .is_some_and(|frame| frame["function"] == "app::read at");
        inner && user.any(|frame| frame["function"] == "main")
    });
    let pages: u64 = named.filter_map(|stack| stack["pages"].as_u64()).sum();
    is_mostly(
        pages as f64,
        64,
        "the function of the map, and its caller",
        &report,
    );
}

fn evictions_have_their_line() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let file = cold(&scratch);
    let report = report(&program, Some("evictions"), &file);
    for (function, mark, pages) in [
        ("drop_index", "drop index", 32 * 8),
        ("drop_table", "drop table", 32 * 16),
    ] {
        let found = sum(
            &report,
            "eviction",
            "pages",
            Some((function, line(C, mark))),
        );
        is_mostly(found, pages, function, &report);
    }
    let evicted = number(report.file(&file), "evicted_pages");
    assert_eq!(
        sum(&report, "eviction", "pages", None) as u64,
        evicted,
        "every evicted page"
    );
}

fn without_the_option_nothing_is_attached() {
    let scratch = Scratch::new();
    let file = cold(&scratch);
    let memory = |options: &[&str]| {
        let report = report_of(options, ["cat".as_ref(), file.as_os_str()]);
        let memory = number(&report.json["backend"], "kernel_memory_bytes");
        (report.json["stacks"].clone(), memory)
    };
    let (stacks, memory_without) = memory(&[]);
    assert_eq!(stacks, Value::Null, "not requested");
    let (stacks, memory_with) = memory(&["--stacks"]);
    assert!(stacks.is_array(), "requested");
    assert!(
        memory_with > memory_without + (15 << 20),
        "the ring of stacks is made when it is wanted: {memory_without}, {memory_with}"
    );
}

fn files_have_the_stacks_of_the_report() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let (file, folded, svg) = (
        cold(&scratch),
        scratch.path("folded"),
        scratch.path("flame.svg"),
    );
    let mut run = cachewise(["run", "--stack-weight", "pages", "--folded"]);
    run.arg(&folded).arg("--flamegraph").arg(&svg).arg("--");
    let ended = Ended::of(run.arg(&program).arg("reads").arg(&file));
    let place = format!("events.c:{}", line(C, "index"));
    let ended = ended.expect(0, "the program's own status");
    assert!(
        ended.err().contains(&place),
        "the table too: {}",
        ended.err()
    );
    let lines = std::fs::read_to_string(&folded).expect("it was written");
    let pages: u64 = lines
        .lines()
        .filter(|line| {
            line.starts_with("read;program;") && line.contains(";main;reads;load_index;")
        })
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|pages| pages.parse::<u64>().ok())
        })
        .sum::<Option<u64>>()
        .expect("each line ends with a number");
    assert!(
        (INDEX_PAGES * 95 / 100..=INDEX_PAGES).contains(&pages),
        "{pages}: {lines}"
    );
    let svg = std::fs::read_to_string(&svg).expect("it was written");
    assert!(
        svg.starts_with("<svg ") && svg.contains("<title>load_index: "),
        "{svg}"
    );
}

fn a_short_process_is_known_or_marked() {
    let scratch = Scratch::new();
    let file = cold(&scratch);
    let report = report(Path::new("cat"), None, &file);
    let missed = number(&report.json["totals"], "read_missed_pages");
    assert_eq!(
        sum(&report, "read", "pages", None) as u64,
        missed,
        "no page is left out"
    );
    for stack in stacks(&report) {
        let frames = stack["frames"].as_array().expect("a list");
        let user = frames
            .iter()
            .filter(|frame| frame["kernel"] == false)
            .count();
        assert!(
            user > 0 || stack["unknown_code"].is_string(),
            "calls, or the reason why there are none: {stack:#}"
        );
    }
}

fn stripped_programs_are_marked() {
    let scratch = Scratch::new();
    let compiler = ["gcc", "-O2", "-s"];
    let Some(program) = compiled(&scratch, "events.c", C, &compiler) else {
        return;
    };
    let report = report(&program, Some("reads"), &cold(&scratch));
    let of_program = stacks(&report)
        .iter()
        .filter(|stack| stack["command"] == "program" && stack["pages"] != 0)
        .flat_map(|stack| stack["frames"].as_array().expect("a list"))
        .find(|frame| {
            frame["module"]
                .as_str()
                .is_some_and(|module| module.ends_with("/program"))
        });
    let frame = of_program.expect("its calls are on the stacks");
    assert_eq!(frame["function"], Value::Null, "no name is made up");
    assert_eq!(frame["unknown_code"], "no_symbol", "and it says why");
    let own = stacks(&report)
        .iter()
        .find(|stack| stack["command"] == "program" && stack["pages"] != 0)
        .expect("its reads missed");
    assert_eq!(
        own["own_frame"],
        Value::Null,
        "the C library's function is not its own"
    );
}

fn without_root_it_is_refused() {
    let scratch = Scratch::new();
    let mut run = cachewise_as_nobody(&scratch);
    let ended = Ended::of(run.args(["run", "--stacks", "--", "true"]));
    ended.expect(2, "it could not be done").says(
        "--stacks needs the probe",
        "no report without what was asked for",
    );
}
