//! Where output goes and how it looks: files, full disks, closed pipes, colours, names from outside.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;
use support::*;

fn main() -> ExitCode {
    run(
        "names of files in reports",
        vec![
            plain("target::missing_directory", missing_directory),
            plain("target::directory", directory),
            plain("target::mistyped_format", mistyped_format),
            plain("target::a_file_for_each_format", a_file_for_each_format),
            plain("target::unknown_ending", unknown_ending),
            plain("full::report", full_report),
            plain("full::standard_error", full_standard_error),
            plain("full::rows", full_rows),
            plain("pipe::the_report_has_no_reader", the_report_has_no_reader),
            plain("pipe::interrupted_twice", interrupted_twice),
            plain("width::of_a_terminal", width_of_a_terminal),
            plain("width::of_a_pipe", width_of_a_pipe),
            plain("colour::asked_for", colour_asked_for),
            plain("colour::on_a_terminal", colour_on_a_terminal),
            plain("json::head", json_head),
            plain("names::in_messages", names_in_messages),
            plain("names::of_the_command", name_of_the_command),
            needs_root("names::control_characters", control_characters),
            needs_root("names::not_utf8", not_utf8),
            needs_root("names::spaces_and_line_feeds", spaces_and_line_feeds),
            needs_root("names::deleted_file", deleted_file),
            needs_root("names::in_findings", in_findings),
        ],
    )
}

/// A command that leaves a mark.
fn marking(mark: &Path) -> [String; 3] {
    [
        "sh".into(),
        "-c".into(),
        format!("echo ran > '{}'", mark.display()),
    ]
}

fn missing_directory() {
    let scratch = Scratch::new();
    let target = scratch.path("missing/report.json");
    let mark = scratch.path("mark");
    let mut command = cachewise(["run", "-o"]);
    Ended::of(command.arg(&target).arg("--").args(marking(&mark)))
        .expect(2, "the report could not be kept")
        .says(&target.to_string_lossy(), "the message names the file");
    assert!(!mark.exists(), "nothing is run whose report would be lost");
    Ended::of(cachewise(["stat", "0.01", "1", "-o"]).arg(&target))
        .expect(2, "neither could rows")
        .says(&target.to_string_lossy(), "the message names the file");
}

fn directory() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let target = format!("json={}", scratch.directory().display());
    Ended::of(cachewise(["run", "-o", &target, "--"]).args(marking(&mark)))
        .expect(2, "a directory is no file")
        .says(
            &scratch.directory().to_string_lossy(),
            "the message names it",
        );
    assert!(!mark.exists(), "nothing is run");
}

fn mistyped_format() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let mut command = cachewise(["run", "-o", "jsno", "--"]);
    Ended::of(
        command
            .args(marking(&mark))
            .current_dir(scratch.directory()),
    )
    .expect(2, "that is no format")
    .says("jsno", "the message names it")
    .says("json", "and those that there are");
    assert!(!mark.exists(), "nothing is run");
    assert!(
        !scratch.path("jsno").exists(),
        "and no file of that name is made"
    );
}

fn a_file_for_each_format() {
    let scratch = Scratch::new();
    for (name, begins) in [
        ("a.json", "{"),
        ("a.jsonl", "{"),
        ("a.ndjson", "{"),
        ("a.csv", ""),
        ("a.prom", "# "),
        ("a.om", "# "),
        ("a.openmetrics", "# "),
        ("A.PROM", "# "),
        ("a.txt", "true"),
        ("a.log", "true"),
        ("./a", "true"),
    ] {
        let target = scratch.path(name);
        let ended = Ended::of(cachewise(["run", "-o"]).arg(&target).args(["--", "true"]));
        let ended = ended.expect(0, "true succeeds");
        assert_eq!(ended.err(), "", "{name}: the report is in the file alone");
        let text = fs::read_to_string(&target).expect("the report is there");
        assert!(
            text.starts_with(begins) && text.ends_with('\n'),
            "{name} by its ending: {text}"
        );
        assert!(!text.contains('\x1b'), "{name}: no colour in a file");
        match name.rsplit('.').next() {
            Some("json") => drop(serde_json::from_str::<Value>(&text).expect("it is JSON")),
            Some("jsonl" | "ndjson") => text.lines().for_each(|line| {
                serde_json::from_str::<Value>(line).expect("each line is JSON");
            }),
            Some("prom" | "PROM" | "om" | "openmetrics") => {
                assert!(text.ends_with("# EOF\n"), "{name} has an end: {text}")
            }
            Some("csv") => {
                let mut rows = csv::Reader::from_reader(text.as_bytes());
                let header = rows.headers().expect("it has a header").len();
                assert!(header > 10, "{name} has a column a field: {text}");
                for row in rows.records() {
                    assert_eq!(
                        row.expect("a row is whole").len(),
                        header,
                        "{name}: each cell"
                    );
                }
            }
            _ => {}
        }
    }
}

fn unknown_ending() {
    let scratch = Scratch::new();
    let target = scratch.path("report.foo");
    Ended::of(cachewise(["run", "-o"]).arg(&target).args(["--", "true"]))
        .expect(0, "true succeeds")
        .says("report.foo has the ending of no format", "it is said")
        .says("table", "what it gets")
        .says("json=", "and how another is had");
    let text = fs::read_to_string(&target).expect("the report is there");
    assert!(text.starts_with("true\n"), "which is the table: {text}");
    let mut given = std::ffi::OsString::from("csv=");
    given.push(&target);
    let ended = Ended::of(cachewise(["stat", "0.01", "1", "-o"]).arg(given));
    assert!(
        !ended.err().contains("ending"),
        "a format that was given is no guess: {}",
        ended.err()
    );
}

fn full_report() {
    for format in ["json", "jsonl", "csv", "openmetrics", "table"] {
        let target = format!("{format}=/dev/full");
        Ended::of(&mut cachewise(["run", "-o", &target, "--", "true"]))
            .expect(2, "the command succeeded, we did not")
            .says("/dev/full", "the message names the target")
            .says("No space left", "and says what is wrong");
        Ended::of(&mut cachewise([
            "run", "-o", &target, "--", "sh", "-c", "exit 3",
        ]))
        .expect(3, "the command's own failure is told first")
        .says("/dev/full", "the message names the target");
    }
}

fn full_standard_error() {
    for (own, code) in [("exit 0", 2), ("exit 3", 3)] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>/dev/full", "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args(["run", "--", "sh", "-c", own]);
        let ended = Ended::of(&mut command);
        ended.expect(
            code,
            "there is no place left to say more than by the status",
        );
    }
}

fn full_rows() {
    for format in ["json", "jsonl", "csv", "openmetrics", "table"] {
        let target = format!("{format}=/dev/full");
        Ended::of(&mut cachewise(["stat", "0.01", "3", "-o", &target]))
            .expect(2, "rows are lost")
            .says("/dev/full", "the message names the target");
    }
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$@\" >/dev/full",
        "sh",
        env!("CARGO_BIN_EXE_cachewise"),
    ]);
    Ended::of(command.args(["stat", "0.01", "3"]))
        .expect(2, "rows are lost")
        .says("standard output", "the message names the target");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$@\" >/dev/full",
        "sh",
        env!("CARGO_BIN_EXE_cachewise"),
    ]);
    Ended::of(command.arg("columns")).expect(2, "the list is lost");
}

fn the_report_has_no_reader() {
    for (own, code) in [("exit 0", 0), ("exit 3", 3)] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be had");
        drop(reader);
        let mut command = cachewise(["run", "--", "sh", "-c", own]);
        let status = command
            .stderr(Stdio::from(writer))
            .status()
            .expect("it can be started");
        assert_eq!(
            status.code(),
            Some(code),
            "who does not want the report gets the status"
        );
    }
}

fn interrupted_twice() {
    // What is being written hangs, and the second interrupt does not wait for it.
    let scratch = Scratch::new();
    let full = FullPipe::new(&scratch);
    let target = |format| format!("{format}={}", full.path.display());
    let own = std::process::id().to_string();
    for (why, arguments) in [
        (
            "the report of a command",
            &["run", "-o", &target("json"), "--", "true"][..],
        ),
        (
            "the report of a process",
            &["run", "-o", &target("table"), "-p", &own],
        ),
        ("a row", &["stat", "-o", &target("jsonl"), "0.01"]),
        (
            "the totals",
            &["stat", "-o", &target("openmetrics"), "0.01"],
        ),
    ] {
        let started = Started::of(cachewise(arguments).stdin(Stdio::null()));
        let ended = started.interrupt_until_ended();
        ended.expect(130, &format!("{why} cannot be written, and need not be"));
    }
}

/// What a terminal of so many columns is shown, without notes, which are sentences.
fn on_terminal(columns: usize, arguments: &str) -> Option<Vec<String>> {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: width of a terminal: `script` of util-linux is not installed");
        return None;
    }
    let binary = env!("CARGO_BIN_EXE_cachewise");
    let line = format!("stty cols {columns}; exec '{binary}' {arguments}");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("COLUMNS")
        .env("NO_COLOR", "1");
    let shown = Ended::of(&mut command)
        .expect(0, "it succeeds on a terminal")
        .out();
    let lines = shown.lines().map(|line| line.trim_end().to_owned());
    Some(
        lines
            .filter(|line| !line.starts_with("cachewise: note: "))
            .collect(),
    )
}

fn width_of_a_terminal() {
    for columns in [40, 60, 80, 120] {
        let Some(lines) = on_terminal(columns, "stat 0.01 3") else {
            return;
        };
        for line in &lines {
            assert!(
                line.chars().count() <= columns,
                "stat: no row is wrapped at {columns} columns: {line:?}"
            );
        }
        let all = lines.join("\n");
        assert_eq!(
            all.matches("no room for").count(),
            usize::from(columns < 120),
            "stat: what is left out at {columns} columns is said once: {all}"
        );
        assert!(
            all.contains("MISSES") && all.contains("HIT%"),
            "stat: what it is about stays: {all}"
        );

        let lines = on_terminal(columns, "run -- true").expect("it was there before");
        let tables = lines
            .iter()
            .take_while(|line| !line.starts_with("findings"));
        for line in tables {
            assert!(
                line.chars().count() <= columns,
                "run: no line of a table is wrapped at {columns} columns: {line:?}"
            );
        }
    }
    let asked = "stat --columns time,total,misses,hits,cached,buffers,dirty 0.01 1";
    let lines = on_terminal(40, asked).expect("it was there before");
    assert!(
        lines[0].ends_with("DIRTY"),
        "what is asked for by name is shown, whatever the width: {lines:?}"
    );
    // A terminal that does not know, or whoever knows better.
    let wide = on_terminal(0, "stat 0.01 1").expect("it was there before");
    assert!(
        wide[1].ends_with("DIRTIES"),
        "80 columns where the terminal knows none: {wide:?}"
    );
    let line = format!(
        "stty cols 60; COLUMNS=120 exec '{}' stat 0.01 1",
        env!("CARGO_BIN_EXE_cachewise")
    );
    let mut command = Command::new("script");
    let ended = Ended::of(command.args(["-qec", &line, "/dev/null"]));
    assert!(
        ended.out().contains("CACHED") && !ended.out().contains("no room"),
        "COLUMNS comes first: {}",
        ended.out()
    );
}

fn width_of_a_pipe() {
    let mut command = cachewise(["stat", "0.01", "1"]);
    let ended = Ended::of(command.env("COLUMNS", "40")).expect(0, "a row");
    let header = ended.out().lines().next().map(str::to_owned);
    let header = header.unwrap_or_default();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "TIME TOTAL MISSES HITS HIT% READAHEAD DIRECT DIRTIES EVICTED BUFFERS CACHED",
        "what is no terminal gets everything"
    );
}

fn colour_asked_for() {
    for (when, coloured) in [("always", true), ("never", false), ("auto", false)] {
        let ended = Ended::of(&mut cachewise(["run", "--color", when, "--", "true"]));
        assert_eq!(
            ended.err().contains('\x1b'),
            coloured,
            "--color {when} into a pipe: {:?}",
            ended.err()
        );
        ended.expect(0, "true succeeds");
    }
    let mut command = cachewise(["run", "--color", "always", "--", "true"]);
    let ended = Ended::of(command.env("NO_COLOR", "1")).expect(0, "true succeeds");
    assert!(
        ended.err().contains('\x1b'),
        "what is asked for on the command line comes first"
    );
    for format in ["json", "csv", "openmetrics"] {
        let ended = Ended::of(&mut cachewise([
            "stat", "0.01", "1", "--color", "always", "-o", format,
        ]));
        assert!(
            !ended.out().contains('\x1b'),
            "no colour in {format}, whatever is asked for"
        );
    }
    Ended::of(&mut cachewise([
        "run",
        "--color",
        "sometimes",
        "--",
        "true",
    ]))
    .expect(2, "there is no such time")
    .says("sometimes", "the message names it");
}

fn colour_on_a_terminal() {
    // `script` gives its command a terminal, and copies what it shows.
    let shown = |variables: &[(&str, &str)], arguments: &str| {
        let line = format!("'{}' {arguments}", env!("CARGO_BIN_EXE_cachewise"));
        let mut command = Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        let ended = Ended::of(command.envs(variables.iter().copied()));
        let ended = ended.expect(0, "it succeeds on a terminal");
        // The terminal's own line ends.
        ended.out().replace("\r\n", "\n")
    };
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: colour on a terminal: `script` of util-linux is not installed");
        return;
    }
    for line in ["run -- true", "stat 0.01 2"] {
        assert!(
            !shown(&[("NO_COLOR", "1")], line).contains('\x1b'),
            "{line}: NO_COLOR is heeded"
        );
    }
    for line in ["run --color never -- true", "stat --color never 0.01 2"] {
        assert!(
            !shown(&[], line).contains('\x1b'),
            "{line}: no colour, as it says"
        );
    }
    assert!(
        shown(&[], "run -- true").contains('\x1b'),
        "a person's terminal gets colours"
    );
    assert!(
        shown(&[("NO_COLOR", "")], "run -- true").contains('\x1b'),
        "an empty NO_COLOR is none (no-color.org)"
    );
}

fn json_head() {
    let ended = Ended::of(&mut cachewise(["run", "--json", "--", "true"])).expect(0, "it succeeds");
    let document: Value = serde_json::from_slice(&ended.err).expect("--json is one document");
    let members = document.as_object().expect("an object");
    let first: Vec<&str> = members.keys().take(4).map(String::as_str).collect();
    assert_eq!(
        first,
        ["schema_version", "timestamp", "hostname", "page_size_bytes"],
        "every document begins with these"
    );
    assert_eq!(document["schema_version"], 1, "the version of the form");
    assert_eq!(document["page_size_bytes"], page_size(), "what a page is");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel says it");
    assert_eq!(document["hostname"], host.trim_end(), "whose numbers");
    let time = document["timestamp"].as_str().expect("a text");
    assert!(
        time.ends_with('Z') && time.as_bytes()[10] == b'T',
        "RFC 3339: {time}"
    );
    assert_eq!(
        document["command"],
        serde_json::json!(["true"]),
        "what was run"
    );
    assert_eq!(document["exit"]["code"], 0, "and how it ended");
}

/// Control characters, an escape sequence among them, and what is not UTF-8.
const ODD: &[u8] = b"red \x1b[31m\x07\xff\nend";

/// Nothing that a terminal would act on, and no bytes that are not text.
#[track_caller]
fn is_tame(shown: &[u8], why: &str) {
    let text = std::str::from_utf8(shown);
    let text = text.unwrap_or_else(|_| {
        panic!(
            "{why}: it is no UTF-8: {:?}",
            String::from_utf8_lossy(shown)
        )
    });
    let wild = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(wild, None, "{why}: {text:?}");
}

fn names_in_messages() {
    let odd = OsStr::from_bytes(ODD);
    let target = Path::new("/nonexistent").join(OsStr::from_bytes(b"a\x1b[31m.json"));
    for (why, ended) in [
        (
            "a command that is not there",
            Ended::of(cachewise(["run", "--"]).arg(odd)),
        ),
        (
            "a file to be watched",
            Ended::of(cachewise(["stat", "0.01", "1", "--file"]).arg(odd)),
        ),
        (
            "a group to be watched",
            Ended::of(cachewise(["stat", "0.01", "1", "--cgroup"]).arg(odd)),
        ),
        (
            "an output file",
            Ended::of(cachewise(["run", "-o"]).arg(&target).args(["--", "true"])),
        ),
        (
            "an unknown column",
            Ended::of(&mut cachewise(["stat", "--columns", "a\x1b[31mb"])),
        ),
    ] {
        assert_ne!(ended.code(), 0, "{why}: it fails");
        is_tame(&ended.err, why);
        assert!(
            ended.err().contains("[31m"),
            "{why}: it is named still: {}",
            ended.err()
        );
    }
}

fn name_of_the_command() {
    let mut command = cachewise(["run", "--", "true"]);
    let ended = Ended::of(command.arg(OsStr::from_bytes(ODD))).expect(0, "true does not mind");
    is_tame(&ended.err, "the command line is shown in the report");
    let mut command = cachewise(["run", "--json", "--", "true"]);
    let ended = Ended::of(command.arg(OsStr::from_bytes(ODD))).expect(0, "true does not mind");
    let document: Value = serde_json::from_slice(&ended.err).expect("it is JSON still");
    assert!(
        document["command"][1].is_string(),
        "the argument is there: {}",
        document["command"]
    );
}

fn table_of(file: &Path) -> Ended {
    Ended::of(
        cachewise(["run", "--", "dd", "of=/dev/null", "bs=64k", "status=none"]).arg({
            let mut input = std::ffi::OsString::from("if=");
            input.push(file);
            input
        }),
    )
    .expect(0, "dd succeeds")
}

fn json_of(file: &Path) -> Report {
    report_of(
        &[],
        [
            OsStr::new("sh"),
            "-c".as_ref(),
            "exec cat <\"$0\" >/dev/null".as_ref(),
            file.as_os_str(),
        ],
    )
}

fn control_characters() {
    let scratch = Scratch::new();
    // Short, and what is looked for at its end: a long path is cut in the middle.
    let name = "\u{9b}2J\t\r\x07\x1b[31m";
    let file = scratch.file(name, 3 * page_size());
    let ended = table_of(&file);
    is_tame(
        &ended.err,
        "a person's report of a file with control characters in its name",
    );
    assert!(
        ended.err().contains(r"\x1b[31m"),
        "they are shown instead: {}",
        ended.err()
    );
    let report = json_of(&file);
    assert_eq!(
        number(report.file(&file), "read_pages"),
        3,
        "JSON has the name as it is"
    );
}

fn not_utf8() {
    let scratch = Scratch::new();
    let file = scratch.file(OsStr::from_bytes(b"l \xe9\xff"), 3 * page_size());
    let ended = table_of(&file);
    is_tame(
        &ended.err,
        "a person's report of a file whose name is not UTF-8",
    );
    assert!(
        ended.err().contains(r"l \xe9\xff"),
        "its bytes are shown: {}",
        ended.err()
    );
    let report = json_of(&file);
    let path = format!(r"{}/l \xe9\xff", scratch.directory().display());
    let row = report.find_file(&path);
    let row = row.unwrap_or_else(|| panic!("JSON has the name escaped: {:?}", report.files()));
    assert_eq!(
        row["escaped"],
        serde_json::json!(["path"]),
        "and says so: {row}"
    );
    assert_eq!(number(row, "read_pages"), 3, "with its numbers");
}

fn spaces_and_line_feeds() {
    let scratch = Scratch::new();
    let file = scratch.file("a b\nc d", 3 * page_size());
    let ended = table_of(&file);
    is_tame(
        &ended.err,
        "a person's report of a file with a line feed in its name",
    );
    let err = ended.err();
    assert!(err.contains(r"a b\nc d"), "a row stays on one line: {err}");
    assert!(!err.contains("\nc d"), "everywhere in it: {err}");
    let report = json_of(&file);
    assert_eq!(
        number(report.file(&file), "read_pages"),
        3,
        "JSON has the name as it is"
    );

    let table = scratch.path("report.csv");
    let mut command = cachewise(["run", "-o"]);
    Ended::of(command.arg(&table).args(["--", "cat"]).arg(&file)).expect(0, "cat succeeds");
    let text = fs::read(&table).expect("the report is there");
    let mut rows = csv::Reader::from_reader(&text[..]);
    let found = rows
        .records()
        .map(|row| row.expect("each row has all cells"))
        .any(|row| row.iter().any(|cell| Path::new(cell) == file));
    assert!(
        found,
        "CSV has the name as it is: {}",
        String::from_utf8_lossy(&text)
    );
}

fn deleted_file() {
    let scratch = Scratch::new();
    let file = scratch.file("short lived", 5 * page_size());
    let script = "exec 3<\"$0\"; rm \"$0\"; cat <&3 >/dev/null";
    let report = report_of(
        &[],
        [
            OsStr::new("sh"),
            "-c".as_ref(),
            script.as_ref(),
            file.as_os_str(),
        ],
    );
    let row = report.file(&file);
    assert_eq!(
        row["deleted"], true,
        "its name is gone, and it is said: {row}"
    );
    assert_eq!(number(row, "read_pages"), 5, "what was read of it counts");
    assert!(
        row["resident_after_pages"].is_null(),
        "nobody can look at it any more: {row}"
    );
    assert!(
        row["reasons"]["resident_after_pages"].is_string(),
        "which is a reason: {row}"
    );
    report.adds_up();

    let file = scratch.file("again", 5 * page_size());
    let mut command = cachewise(["run", "--", "sh", "-c", script]);
    let ended = Ended::of(command.arg(&file)).expect(0, "it succeeds");
    let shown = ended.err();
    let line = shown.lines().find(|line| line.ends_with("(deleted)"));
    let line = line.unwrap_or_else(|| panic!("the table marks it: {shown}"));
    assert!(
        line.contains("/again "),
        "with the name that it had: {line}"
    );

    // A name that another file has now is not the file that was read.
    let file = scratch.file("replaced", 5 * page_size());
    let script =
        "cat \"$0\" >/dev/null; head -c 100000 /dev/zero >\"$0.new\"; mv \"$0.new\" \"$0\"";
    let report = report_of(
        &[],
        [
            OsStr::new("sh"),
            "-c".as_ref(),
            script.as_ref(),
            file.as_os_str(),
        ],
    );
    let rows: Vec<&Value> = report
        .files()
        .iter()
        .filter(|row| row["read_pages"] == 5 && row["path"] == text(&file))
        .collect();
    assert_eq!(
        rows.len(),
        1,
        "the one that was read is listed: {:?}",
        report.files()
    );
    assert_eq!(
        rows[0]["file_size_bytes"],
        5 * page_size(),
        "with its own size: {}",
        rows[0]
    );
    report.adds_up();
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

fn in_findings() {
    // A finding's next step may be pasted into a shell: an evil name must not act there either.
    let scratch = Scratch::new();
    let file = scratch.file(
        "$(touch owned) `touch owned`; touch owned\n'\x1b[31m",
        24 << 20,
    );
    evict(&file);
    let ended = table_of(&file);
    is_tame(&ended.err, "a finding about a file with an evil name");
    assert!(
        ended.err().contains("cold start"),
        "there is a finding: {}",
        ended.err()
    );
    let report = {
        evict(&file);
        json_of(&file)
    };
    let findings = report.findings("cold_start");
    let step = findings[0]["next_step"]
        .as_str()
        .expect("it has a next step");
    // `; to read it in beforehand: cachewise warm PATH, or cat PATH >/dev/null`
    let from = step
        .find("cat ")
        .unwrap_or_else(|| panic!("it names a command: {step}"));
    let command = step[from..]
        .split(" >/dev/null")
        .next()
        .expect("a split has a first");
    let mut bash = Command::new("bash");
    bash.args(["-c", command]).current_dir(scratch.directory());
    let ended = Ended::of(&mut bash).expect(0, "the command can be pasted");
    assert!(
        ended.out == fs::read(&file).expect("it is there"),
        "and reads that very file"
    );
    assert!(!scratch.path("owned").exists(), "and does nothing else");
}
