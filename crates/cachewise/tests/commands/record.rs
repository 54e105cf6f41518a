//! `record` and `report`: what is recorded is what happened, whatever becomes of the recorder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("exact::to_the_page", to_the_page),
        needs_root("exact::few_by_name_and_the_same_sum", few_by_name),
        needs_root("command::its_status_is_ours", status),
        needs_root("command::not_found_leaves_nothing", not_found),
        needs_root("ended::by_signals", by_signals),
        needs_root("ended::with_the_process", with_the_process),
        needs_root("killed::and_gone_on_with", killed),
        needs_root("full::what_is_there_stays", full),
        needs_root("full::at_the_limit_of_a_file", limited),
        needs_root("shown::in_every_format", formats),
        needs_root("shown::a_part_of_the_time", part_of_the_time),
        needs_root("shown::sample_by_sample", sample_by_sample),
        plain(
            "redacted::arguments_are_in_no_output",
            redacted_arguments_are_in_no_output,
        ),
        needs_root("unprivileged::estimates", unprivileged),
        plain("refused::what_is_no_recording", refused),
        plain("refused::what_makes_no_sense", nonsense),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

fn json_of(arguments: &[&str]) -> Value {
    let ended = Ended::of(&mut cachewise(arguments)).expect(0, "it is a recording");
    serde_json::from_slice(&ended.out).expect("JSON")
}

/// The rows of a series.
fn rows(file: &Path, of: &str) -> Vec<Value> {
    rows_with(file, of, &[])
}

/// The rows of a recording, of one kind, sample by sample.
pub fn rows_with(file: &Path, of: &str, more: &[&str]) -> Vec<Value> {
    lines(&series(file, of, more).expect(0, "all of it can be read"))
}

/// As many as there are so far: the last may be half written.
fn samples_so_far(file: &Path) -> usize {
    lines(&series(file, "machine", &[])).len()
}

fn series(file: &Path, of: &str, more: &[&str]) -> Ended {
    let series = ["report", text(file), "--series", "-o", "jsonl", "--of", of];
    Ended::of(&mut cachewise(series.iter().chain(more)))
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.out.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("each line is JSON"))
        .collect()
}

fn sum(rows: &[Value], id: &str) -> u64 {
    rows.iter().filter_map(|row| row[id].as_u64()).sum()
}

/// Has a file read twice under a recorder, and gives the recording.
fn recorded(scratch: &Scratch, options: &[&str]) -> (PathBuf, PathBuf) {
    let data = scratch.file("data", 4096 * page_size());
    evict(&data);
    let recording = scratch.path("r");
    let script = "dd if=\"$0\" of=/dev/null bs=64K; dd if=\"$0\" of=/dev/null bs=64K";
    let mut arguments = vec!["record", text(&recording), "-q", "--interval", "100ms"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script, text(&data)]);
    Ended::of(&mut cachewise(arguments)).expect(0, "dd reads a file");
    (recording, data)
}

fn to_the_page() {
    let scratch = Scratch::new();
    let (recording, data) = recorded(&scratch, &["-n", "1000"]);
    let files = rows(&recording, "files");
    let of_data: Vec<Value> = (files.iter())
        .filter(|row| row["path"] == text(&data))
        .cloned()
        .collect();
    let pages = pages_of(&data);
    assert_eq!(
        sum(&of_data, "read_requested_pages"),
        2 * pages,
        "each page was asked for twice"
    );
    let missed = sum(&of_data, "read_missed_pages");
    assert!(missed > 0, "it was cold");
    let machine = rows(&recording, "machine");
    let counters = [
        "read_requested_pages",
        "read_missed_pages",
        "dirtied_pages",
        "fault_requests",
    ];
    for id in counters {
        let whole = sum(&rows_with(&recording, "machine", &["--columns", id]), id);
        for of in ["files", "processes"] {
            let parts = sum(&rows_with(&recording, of, &["--columns", id]), id);
            assert_eq!(parts, whole, "{id}: the {of} add up to the machine");
            assert!(
                id != "read_requested_pages" || whole > 0,
                "{of}: there is something to add up"
            );
        }
    }
    let report = json_of(&["report", text(&recording), "--json"]);
    assert_eq!(
        report["totals"]["read_requested_pages"],
        sum(&machine, "read_requested_pages"),
        "the report adds up what the samples say"
    );
    let summed = (report["files"].as_array().expect("files").iter())
        .find(|row| row["path"] == text(&data))
        .expect("the file was used most");
    assert_eq!(summed["read_requested_pages"], 2 * pages, "by file too");
}

fn few_by_name() {
    let scratch = Scratch::new();
    let (recording, _) = recorded(&scratch, &["--top", "1"]);
    let machine = rows(&recording, "machine");
    for (of, number) in [("files", "inode"), ("processes", "pid")] {
        let parts = rows(&recording, of);
        let of_all_others = |row: &&Value| match of {
            "files" => row["path"].is_null(),
            _ => row["command"] == "(all others)",
        };
        let others = parts.iter().find(of_all_others);
        let others = others.unwrap_or_else(|| panic!("{of}: one row is of all others"));
        assert!(others[number].is_null(), "it has no number: {others}");
        assert_eq!(
            sum(&parts, "read_requested_pages"),
            sum(&machine, "read_requested_pages"),
            "the row of all others has what the named {of} do not"
        );
        assert!(
            parts.len() <= 2 * machine.len(),
            "{} rows of {of}: one by name, one for all others",
            parts.len()
        );
    }
}

fn status() {
    let scratch = Scratch::new();
    for (number, (script, code)) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)]
        .into_iter()
        .enumerate()
    {
        let recording = scratch.path(format!("r{number}"));
        let arguments = ["record", text(&recording), "--", "sh", "-c", script];
        Ended::of(&mut cachewise(arguments))
            .expect(code, "it ends as the command did")
            .says("to read it: cachewise report", "and says what to do next");
        let report = json_of(&["report", text(&recording), "--json"]);
        assert_eq!(
            report["command"],
            serde_json::json!(["sh", "-c", script]),
            "what was run is in it"
        );
    }
}

fn not_found() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    Ended::of(&mut cachewise([
        "record",
        text(&recording),
        "--",
        "/no/such/program",
    ]))
    .expect(127, "as a shell says it")
    .says("/no/such/program", "which");
    assert!(
        !recording.exists(),
        "nothing was recorded, so nothing is left"
    );
}

/// A recorder that has written some samples.
fn recorder(recording: &Path) -> Started {
    let mut arguments = vec!["record", text(recording), "--interval", "100ms"];
    arguments.push("--no-lock");
    let started = Started::of(cachewise(arguments).stdin(Stdio::null()));
    until("some samples are there", || {
        (recording.exists() && samples_so_far(recording) >= 5).then_some(())
    });
    started
}

fn by_signals() {
    let scratch = Scratch::new();
    for (name, signal) in [("int", Signal::INT), ("term", Signal::TERM)] {
        let recording = scratch.path(name);
        let started = recorder(&recording);
        started.signal(signal);
        started
            .wait()
            .expect(0, "it is asked to end, and does")
            .says("samples over", "with a summary");
        let report = json_of(&["report", text(&recording), "--json"]);
        assert_eq!(
            report["problems"],
            serde_json::json!([]),
            "all of it is whole"
        );
    }
}

fn with_the_process() {
    let scratch = Scratch::new();
    let data = scratch.file("data", 64 * page_size());
    warm(&data);
    let mut reader = Reader::of(&data);
    let recording = scratch.path("r");
    let pid = reader.pid().to_string();
    let mut command = cachewise(["record", text(&recording), "-i", "100ms", "-p", &pid]);
    let mut started = Started::of(command.stdin(Stdio::null()));
    started.until_thread("wait");
    reader.read();
    reader.end();
    started.wait().expect(0, "it ends with the process");
    let files = rows(&recording, "files");
    let of_data = files.iter().filter(|row| row["path"] == text(&data));
    let pages: u64 = of_data
        .filter_map(|row| row["read_requested_pages"].as_u64())
        .sum();
    assert_eq!(pages, 64, "what the process had read");
}

fn killed() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let started = recorder(&recording);
    started.signal(Signal::KILL);
    assert_eq!(started.wait().code(), -9, "it was killed");
    let before = samples_so_far(&recording);
    assert!(before >= 5, "what was written is there: {before} samples");
    let arguments = ["record", text(&recording), "-i", "100ms", "-d", "300ms"];
    Ended::of(&mut cachewise(arguments))
        .expect(0, "it is gone on with")
        .says("going on with", "and said");
    let report = json_of(&["report", text(&recording), "--json"]);
    assert_eq!(report["sessions"], 2, "two goes");
    assert!(
        report["samples"].as_u64() > Some(before as u64),
        "all of the first, and more"
    );
    let kinds: Vec<&Value> = (report["gaps"].as_array().expect("gaps").iter())
        .map(|gap| &gap["kind"])
        .collect();
    assert!(
        kinds.contains(&&Value::from("not_recorded")),
        "the time between is marked: {kinds:?}"
    );
}

/// A small file system in memory, gone when dropped.
struct Small(PathBuf);

impl Small {
    fn new(scratch: &Scratch, size: u64) -> Small {
        let place = scratch.path("small");
        fs::create_dir(&place).expect("the scratch directory is ours");
        let size = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none", text(&place)])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "root can mount a tmpfs"
        );
        Small(place)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Size of a recording with two samples: it depends on the control groups of the machine.
fn size_of_two(scratch: &Scratch) -> u64 {
    let two = scratch.path("two");
    let arguments = ["record", text(&two), "-i", "100ms", "-d", "150ms", "-q"];
    Ended::of(&mut cachewise(arguments)).expect(0, "there is room");
    let size = fs::metadata(&two).expect("it was written").len();
    size.next_multiple_of(page_size())
}

/// Programs that come and go: a sample has a row for each, and a recording need not be waited for to grow.
fn comings_and_goings() -> Started {
    Started::of(Command::new("sh").args(["-c", "while :; do /bin/true; done"]))
}

fn full() {
    let scratch = Scratch::new();
    let _busy = comings_and_goings();
    let two = size_of_two(&scratch);
    let small = Small::new(&scratch, two + (48 << 10));
    let recording = small.0.join("r");
    let ended = Ended::of(&mut cachewise(["record", text(&recording), "-i", "100ms"]))
        .expect(2, "it cannot go on")
        .says("no space left", "why")
        .says("samples over", "what there is");
    let report = json_of(&["report", text(&recording), "--json"]);
    assert!(report["samples"].as_u64() >= Some(2), "{}", ended.err());
    assert_eq!(report["problems"], serde_json::json!([]), "no half sample");

    // Nor is there room for a report: the old one stays.
    let old = small.0.join("old");
    fs::remove_file(&recording).expect("it is ours");
    let (other, _) = recorded(&scratch, &[]);
    let room = two + (40 << 10);
    fs::write(small.0.join("fill"), vec![7; room as usize]).expect("there is room");
    fs::write(&old, "old").expect("and for this");
    for option in ["--html", "--output"] {
        let name = match option {
            "--html" => text(&old).to_owned(),
            _ => format!("json={}", text(&old)),
        };
        Ended::of(&mut cachewise(["report", text(&other), option, &name]))
            .expect(2, "it cannot be written")
            .says("No space left", "why");
        assert_eq!(
            fs::read(&old).expect("it is there"),
            b"old",
            "{option}: what was there stays"
        );
    }
}

/// A limit on the size of files ends what writes beyond it with a signal, unless it takes care.
fn limited() {
    let scratch = Scratch::new();
    let _busy = comings_and_goings();
    let recording = scratch.path("r");
    let mut command = Command::new("sh");
    // In blocks of 512 bytes.
    let blocks = (size_of_two(&scratch) + (8 << 10)) / 512;
    let limit = format!("ulimit -f {blocks}; exec \"$0\" record \"$1\" -i 100ms");
    command.args(["-c", &limit]);
    command.arg(env!("CARGO_BIN_EXE_cachewise")).arg(&recording);
    Ended::of(&mut command)
        .expect(2, "it cannot go on")
        .says("no space left", "why")
        .says("samples over", "what there is");
    let report = json_of(&["report", text(&recording), "--json"]);
    assert!(report["samples"].as_u64() >= Some(2), "{report}");
    assert_eq!(report["problems"], serde_json::json!([]), "no half sample");
}

fn sample_by_sample() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let arguments = ["record", text(&recording), "-i", "100ms", "-d", "3", "-q"];
    Ended::of(&mut cachewise(arguments)).expect(0, "three seconds of the machine");
    let recording = text(&recording);
    let step = |more: &[&str]| {
        let arguments: Vec<&str> = ["report", recording, "--tui"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        OnTerminal::of(&arguments, "xterm")
    };
    let all = rows(Path::new(recording), "machine").len();
    let mut desk = step(&[]);
    desk.until_shown(&format!("sample 1 of {all}, stands"));
    desk.press(".");
    desk.until_shown(&format!("sample 2 of {all}, stands"));
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it has been seen");

    let part = json_of(&[
        "report", recording, "--json", "--from", "+0.7", "--to", "+2.5",
    ]);
    let samples = part["samples"].as_u64().expect("a number");
    assert!(0 < samples && samples < all as u64, "{samples} of {all}");
    let mut desk = step(&["--from", "+0.7", "--to", "+2.5"]);
    desk.until_shown(&format!("sample 1 of {samples}, stands"));
    let first = &rows_with(Path::new(recording), "machine", &["--from", "+0.7"])[0];
    let time = first["time"].as_str().expect("it has a time");
    let second = &time["2026-01-02T".len().."2026-01-02T03:04:05".len()];
    desk.until_shown(second);
    desk.press("\x1b[F");
    desk.until_shown(&format!("sample {samples} of {samples}"));
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it has been seen");

    let mut desk = step(&["--from", "2001-01-01", "--to", "2001-01-02"]);
    assert_eq!(desk.ended(), 2, "nothing is from then");
    desk.until_shown("choose a time from");
    let mut desk = OnTerminal::of(&["report", recording, "--tui"], "dumb");
    assert_eq!(desk.ended(), 2, "there is no screen");
    desk.until_shown("use --series");
    Ended::of(&mut cachewise(["report", recording, "--tui"]))
        .expect(2, "nor on a pipe")
        .says("needs a terminal", "why");
}

fn formats() {
    let scratch = Scratch::new();
    let (recording, _) = recorded(&scratch, &[]);
    let recording = text(&recording);
    let out = |arguments: &[&str]| {
        let arguments = ["report", recording]
            .into_iter()
            .chain(arguments.iter().copied());
        Ended::of(&mut cachewise(arguments))
            .expect(0, "it can be shown")
            .out()
    };
    let table = out(&[]);
    for part in [
        "REQUESTED/s",
        "time lost to waiting",
        "processes",
        "files",
        "exact to the page",
    ] {
        assert!(table.contains(part), "people see {part:?}:\n{table}");
    }
    let json: Value = serde_json::from_str(&out(&["-o", "json"])).expect("JSON");
    assert_eq!(json["schema_version"], 1, "which names it has");
    assert!(
        json["hostname"].is_string() && json["timestamp"].is_string(),
        "whose, and when"
    );
    let line: Value = serde_json::from_str(out(&["-o", "jsonl"]).trim_end()).expect("one line");
    assert_eq!(line["samples"], json["samples"], "the same on a line");
    let mut csv = csv::Reader::from_reader(out(&["-o", "csv"]).into_bytes().leak() as &[u8]);
    assert_eq!(
        csv.headers().expect("a header").get(0),
        Some("field"),
        "a row per field"
    );
    assert!(
        csv.records().all(|record| record.is_ok()),
        "all of one length"
    );
    for arguments in [
        &["-o", "openmetrics"][..],
        &["--series", "-o", "openmetrics"],
    ] {
        assert!(
            out(arguments).ends_with("# EOF\n"),
            "{arguments:?}: an exposition"
        );
    }
    for of in ["machine", "processes", "files", "cgroups", "devices"] {
        let text = out(&["--series", "-o", "csv", "--of", of]);
        let mut csv = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<_> = csv.records().collect();
        assert!(
            !rows.is_empty() && rows.iter().all(Result::is_ok),
            "{of}: every row has every column: {text}"
        );
        let json: Value =
            serde_json::from_str(&out(&["--series", "--json", "--of", of])).expect("JSON");
        assert_eq!(
            json["rows"].as_array().map(Vec::len),
            Some(rows.len()),
            "{of}: as many"
        );
    }
    let one = out(&["--columns", "cached,hits", "-o", "csv"]);
    assert_eq!(one.lines().count(), 3, "only what was asked for: {one}");
}

fn part_of_the_time() {
    let scratch = Scratch::new();
    let recording = scratch.path("r");
    let arguments = ["record", text(&recording), "-i", "100ms", "-d", "1", "-q"];
    Ended::of(&mut cachewise(arguments)).expect(0, "a second of the machine");
    let all = rows(&recording, "machine").len() as u64;
    let part = json_of(&["report", text(&recording), "--json", "--from", "+0.5"]);
    let samples = part["samples"].as_u64().expect("a number");
    assert!(0 < samples && samples < all, "{samples} of {all}");
    Ended::of(&mut cachewise([
        "report",
        text(&recording),
        "--from",
        "2001-01-01",
        "--to",
        "2001-01-02",
    ]))
    .expect(2, "nothing is from then")
    .says("choose a time from", "and the range that it has");
    let before = fs::read(&recording).expect("it is there");
    Ended::of(&mut cachewise([
        "report",
        text(&recording),
        "--html",
        text(&recording),
    ]))
    .expect(2, "a page in its place would be the end of it")
    .says("is a recording", "why not");
    assert_eq!(
        fs::read(&recording).expect("it is there"),
        before,
        "as it was"
    );
    Ended::of(&mut cachewise([
        "report",
        text(&recording),
        "--from",
        "noon",
    ]))
    .expect(2, "no time")
    .says("is not a time", "what is");
}

fn unprivileged() {
    let scratch = Scratch::new();
    let copy = copy_for_everyone(scratch.directory());
    let place = scratch.path("place");
    fs::create_dir(&place).expect("it is ours");
    std::os::unix::fs::chown(&place, Some(65_534), Some(65_534)).expect("root may");
    let recording = place.join("r");
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&copy);
    command.args(["record", text(&recording), "-i", "100ms", "-d", "300ms"]);
    Ended::of(&mut command)
        .expect(0, "memory and waiting may be seen by anybody")
        .says("these are estimates", "but not the rest");
    let report = json_of(&["report", text(&recording), "--json"]);
    assert_eq!(report["backend"]["exact"], false, "and it stays known");
    let read = (report["fields"].as_array().expect("fields").iter())
        .find(|field| field["id"] == "read_requested_pages")
        .expect("it is in the table");
    assert_eq!(read["max"], Value::Null, "what cannot be had is not zero");
    assert!(read["reason"].is_string(), "and has its reason");
}

fn refused() {
    let scratch = Scratch::new();
    let diary = scratch.path("diary");
    fs::write(&diary, "dear diary").expect("the disk has room");
    let fifo = scratch.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "a FIFO can be made"
    );
    let empty = scratch.path("empty");
    fs::write(&empty, "").expect("the disk has room");
    for (path, record, report) in [
        (&diary, "not a recording", "not a recording"),
        (&fifo, "is a FIFO", "is a FIFO"),
        (
            &scratch.directory().to_owned(),
            "is a directory",
            "is a directory",
        ),
        (&empty, "", "is empty"),
        (&scratch.path("none"), "", "No such file"),
    ] {
        if !record.is_empty() {
            Ended::of(&mut cachewise(["record", text(path), "-d", "100ms"]))
                .expect(2, "it is not written over")
                .says(record, "why");
        }
        Ended::of(&mut cachewise(["report", text(path)]))
            .expect(2, "there is nothing to read")
            .says(report, "why");
    }
    assert_eq!(
        fs::read(&diary).expect("it is there"),
        b"dear diary",
        "as it was"
    );
}

fn nonsense() {
    for (arguments, told) in [
        (&["record", "r", "-i", "10ms"][..], "100ms"),
        (&["record", "r", "--max-size", "1K"], "at least"),
        (&["record", "r", "--only"], "COMMAND"),
        (&["record"], "FILE"),
        (&["report", "r", "--of", "files"], "--series"),
        (&["report", "r", "--columns", "hitz"], "did you mean"),
        (
            &[
                "report",
                "r",
                "--series",
                "--of",
                "files",
                "--columns",
                "path,hitz",
            ],
            "did you mean `hits`",
        ),
        (
            &[
                "report",
                "r",
                "--series",
                "--of",
                "cgroups",
                "--columns",
                "memoryused",
            ],
            "`cachewise columns` lists all",
        ),
    ] {
        Ended::of(&mut cachewise(arguments))
            .expect(2, "it makes no sense")
            .says(told, "what does");
    }
}

fn redacted_arguments_are_in_no_output() {
    const SECRET: &str = "password=hunter2";
    let scratch = Scratch::new();
    let has_secret = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(SECRET);
    let command = ["--", "sh", "-c", ":", SECRET];
    let left = "[3 arguments redacted]";

    for format in ["json", "table"] {
        let target = scratch.path("report");
        let output = format!("{format}={}", text(&target));
        let mut run = cachewise(["run", "--redact-args", "-o", &output]);
        Ended::of(run.args(command)).expect(0, "sh succeeds");
        let report = fs::read(&target).expect("it was written");
        assert!(!has_secret(&report), "{format} has none of them");
        assert!(
            String::from_utf8_lossy(&report).contains(left),
            "{format} says that there were some"
        );
    }

    let recording = scratch.path("redacted");
    let mut record = cachewise(["record", "-q", "--redact-args", text(&recording)]);
    Ended::of(record.args(command)).expect(0, "sh succeeds");
    let bytes = fs::read(&recording).expect("it was written");
    assert!(!has_secret(&bytes), "the file has none of them");
    let json = json_of(&["report", text(&recording), "-o", "json"]);
    assert_eq!(json["command"], serde_json::json!(["sh", left]));

    // A recording that has them can be shown without.
    let whole = scratch.path("whole");
    let mut record = cachewise(["record", "-q", text(&whole)]);
    Ended::of(record.args(command)).expect(0, "sh succeeds");
    assert!(
        has_secret(&fs::read(&whole).expect("it was written")),
        "without the option all of the command line is recorded"
    );
    for shown in [&[][..], &["-o", "json"], &["--html", "-"]] {
        let mut report = cachewise(["report", text(&whole), "--redact-args"]);
        let ended = Ended::of(report.args(shown)).expect(0, "it is a recording");
        assert!(!has_secret(&ended.out), "{shown:?}: {}", ended.out());
    }
}
