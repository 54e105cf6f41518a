//! `stat`: rows that add up, in every format, for the whole machine or a part of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::intervals", intervals),
        plain(
            "usage::negative_numbers_are_refused",
            negative_as_people_type_it,
        ),
        plain("usage::counts", counts),
        plain("usage::columns", columns),
        plain("usage::filters", filters),
        plain("usage::formats", formats),
        plain("end::closed_pipe", closed_pipe),
        plain("end::interrupt_prints_totals", interrupted),
        plain("end::hung_up_while_ignored", hung_up_while_ignored),
        plain("columns::all_are_listed", columns_are_listed),
        plain("completions::for_bash", completions),
        needs_root("table::header_rows_and_total", table),
        needs_root("format::json", json),
        needs_root("format::jsonl", json_lines),
        needs_root("format::csv", csv),
        needs_root("format::openmetrics", openmetrics),
        needs_root("file::sums_to_the_file", sums_to_the_file),
        needs_root("file::two_files_at_once", two_files),
        needs_root("file::block_device", of_a_block_device),
        needs_root("pid::counts_process_and_children", of_a_process),
        needs_root("pid::ends_with_the_process", ends_with_the_process),
        needs_root("cgroup::counts_only_its_tasks", of_a_cgroup),
        needs_root("copies::two_at_once", two_at_once),
    ]
}

fn stat(arguments: &[&str]) -> Command {
    let mut command = cachewise(["stat"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn intervals() {
    for value in [
        "0",
        "0.0",
        "0ms",
        "abc",
        "1x",
        "",
        "nan",
        "inf",
        "1e999",
        "99999999999999999999",
    ] {
        Ended::of(&mut stat(&["--", value, "1"]))
            .expect(2, "not an interval")
            .says(&format!("'{value}'"), "the message names the value")
            .says("INTERVAL", "and what it is for");
    }
    for value in ["-1", "-0.5"] {
        let ended = Ended::of(&mut stat(&["--", value])).expect(2, "no interval is negative");
        ended
            .says("negative", "the message says so")
            .says(value, "and names the value");
    }
}

fn negative_as_people_type_it() {
    for value in ["-1", "-0.5"] {
        Ended::of(&mut stat(&[value]))
            .expect(2, "no interval is negative")
            .says(
                &format!("'{value}'"),
                "the message names the value, and not a part of it",
            );
    }
}

fn counts() {
    for value in ["0", "abc", "-1", "1.5", "99999999999999999999"] {
        Ended::of(&mut stat(&["--", "0.01", value]))
            .expect(2, "not a count")
            .says(&format!("'{value}'"), "the message names the value")
            .says("COUNT", "and what it is for");
    }
}

fn columns() {
    for (typed, meant) in [("hitz", "hits"), ("read_mis_pages", "read_missed_pages")] {
        Ended::of(&mut stat(&[
            "--columns",
            &format!("time,{typed}"),
            "0.01",
            "1",
        ]))
        .expect(2, "there is no such column")
        .says(typed, "the message names it")
        .says(
            &format!("did you mean `{meant}`"),
            "and what it could have been",
        );
    }
    Ended::of(&mut stat(&["--columns", "", "0.01", "1"])).expect(2, "no columns, no rows");
    let ended = Ended::of(&mut stat(&["--columns", "foo", "0.01", "1"]))
        .expect(2, "nothing is called so, or nearly so")
        .says(
            "`cachewise columns`",
            "the message says where the names are",
        );
    assert!(
        ended.err().lines().all(|line| line.len() < 200),
        "instead of listing all: {}",
        ended.err()
    );
    for name in ["path", "PID", "cgroup", "exit", "res-before"] {
        Ended::of(&mut stat(&[
            "--columns",
            &format!("time,{name}"),
            "0.01",
            "1",
        ]))
        .expect(2, "the system does not have it")
        .says(&format!("`{name}`"), "the message names it")
        .says("`run`", "and says where it can be seen");
    }
    Ended::of(&mut stat(&["--columns", "Hits,AHEAD", "0.01", "1"]))
        .expect(0, "headings are names too, in any case");
}

fn filters() {
    Ended::of(&mut stat(&["--file", "/nonexistent/file", "0.01", "1"]))
        .expect(2, "there is no such file")
        .says("/nonexistent/file", "the message names it");
    Ended::of(&mut stat(&["--file", "/dev/null", "0.01", "1"]))
        .expect(2, "it has no page cache")
        .says("/dev/null", "the message names it");
    Ended::of(&mut stat(&["--cgroup", "/no/such/group", "0.01", "1"]))
        .expect(2, "there is no such group")
        .says("no/such/group", "the message names it");
    Ended::of(&mut stat(&["-p", "4294967295", "0.01", "1"]))
        .expect(2, "there is no such process")
        .says("4294967295", "the message names it");
}

fn formats() {
    for value in ["xml", "jsn", "json=", ""] {
        Ended::of(&mut stat(&["-o", value, "0.01", "1"])).expect(2, "not a target");
    }
    Ended::of(&mut stat(&["--json", "-o", "csv", "0.01", "1"])).expect(2, "one format at a time");
}

fn closed_pipe() {
    for format in ["table", "jsonl", "csv", "json", "openmetrics"] {
        let mut stat = Started::of(&mut stat(&["-o", format, "0.02"]));
        if format == "openmetrics" {
            // It writes only one exposition at the end: it fails then.
            stat.close_output();
            stat.signal(Signal::INT);
            let ended = stat.wait();
            assert!(
                [0, -2].contains(&ended.code()),
                "{format}: a closed pipe is not a failure (or it was too early to see): {ended:?}"
            );
            continue;
        }
        assert!(stat.line().is_some(), "{format}: there is a first line");
        stat.close_output();
        let ended = stat.wait().expect(0, "`| head -1` is not a failure");
        assert_eq!(
            ended.err().matches("panicked").count(),
            0,
            "{format}: nor a crash"
        );
    }
}

fn interrupted() {
    let mut stat = Started::of(&mut stat(&["0.05"]));
    // The header and a row.
    for _ in 0..2 {
        assert!(
            stat.line().is_some(),
            "rows are written at once, into a pipe too"
        );
    }
    stat.signal(Signal::INT);
    let ended = stat.wait().expect(0, "Ctrl-C is how one ends it");
    let out = ended.out();
    assert!(out.contains("total of "), "the totals come last: {out}");
}

fn hung_up_while_ignored() {
    let mut command = Command::new("env");
    command.args([
        "--ignore-signal=HUP",
        env!("CARGO_BIN_EXE_cachewise"),
        "stat",
        "0.05",
    ]);
    let mut stat = Started::of(&mut command);
    assert!(
        stat.line().is_some() && stat.line().is_some(),
        "a header and a row"
    );
    stat.signal(Signal::HUP);
    for _ in 0..3 {
        assert!(
            stat.line().is_some(),
            "under nohup it continues without the terminal"
        );
    }
    stat.signal(Signal::TERM);
    stat.wait().expect(0, "it ends on request").err();
}

fn columns_are_listed() {
    let ended = Ended::of(&mut cachewise(["columns"])).expect(0, "this needs nothing");
    let listed = ended.out();
    for id in [
        "read_requested_pages",
        "read_missed_pages",
        "reuse_ratio",
        "direct_bytes",
        "cached_bytes",
    ] {
        assert!(listed.contains(id), "{id} is listed: {listed}");
    }
    // Every listed column can be selected.
    let ids: Vec<&str> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.trim_start_matches('*').split_whitespace().next())
        .collect();
    let row = Ended::of(&mut stat(&[
        "--columns",
        &ids.join(","),
        "-o",
        "jsonl",
        "0.02",
        "1",
    ]))
    .expect(0, "all of them at once");
    let row: Value = serde_json::from_slice(&row.out).expect("a row is JSON");
    for id in ids {
        assert!(row.get(id).is_some(), "{id} is in the row: {row}");
        assert!(
            !row[id].is_null() || row["reasons"][id].is_string(),
            "{id} has a value, or a reason why not: {row}"
        );
        assert_ne!(
            row["reasons"][id], "not part of this kind of row",
            "{id} is listed, so rows have it"
        );
    }
    let (_, others) = listed
        .split_once("Only of a file")
        .expect("fields that rows do not have are listed separately");
    // Tables of other kinds have columns of their own, some with the same names.
    let others = others.split("\nOnly in `").next().unwrap_or(others);
    let ids: Vec<&str> = others
        .lines()
        .skip(1)
        .filter(|line| line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(ids.contains(&"path"), "the path of a file: {ids:?}");
    for id in ids {
        Ended::of(&mut stat(&["--columns", id, "0.02", "1"]))
            .expect(2, "a column of nothing but - is refused");
    }
}

fn completions() {
    let script = Ended::of(&mut cachewise(["completions", "bash"])).expect(0, "this needs nothing");
    let ended = Ended::with_input(Command::new("bash").arg("-n"), &script.out);
    ended.expect(0, "bash can read it");
    assert!(script.out().contains("--max-rows"), "it knows the options");
}

fn table() {
    let ended = Ended::of(&mut stat(&["0.2", "3"])).expect(0, "it ends after the third row");
    let out = ended.out();
    let lines: Vec<&str> = out.lines().collect();
    let header: Vec<&str> = lines[0].split_whitespace().collect();
    let expected =
        "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED BUFFERS PAGE-CACHE";
    assert_eq!(
        header.join(" "),
        expected,
        "the columns of the case study, and those it lacked"
    );
    assert_eq!(
        lines.len(),
        1 + 3 + 2,
        "a header, three rows, the totals: {out}"
    );
    assert!(
        lines[4].starts_with("total of 3 rows"),
        "which name their object: {out}"
    );
    for line in lines[1..4].iter().chain([&lines[5]]) {
        // A number and its unit are one cell.
        let cells = line.split("  ").map(str::trim);
        let cells: Vec<&str> = cells.filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells.len(), header.len(), "a cell a column: {line}");
        let count = |name: &str| -> u64 {
            let place = header
                .iter()
                .position(|column| *column == name)
                .expect("it is there");
            cells[place]
                .replace(',', "")
                .parse()
                .unwrap_or_else(|_| panic!("{name} of {line}"))
        };
        assert_eq!(
            count("HITS") + count("MISSED"),
            count("REQUESTED"),
            "each row adds up: {line}"
        );
    }
    assert!(
        !out.contains('\x1b'),
        "no colour and no cursor codes into a pipe: {out:?}"
    );
}

/// The head of every JSON document.
fn has_a_head(document: &Value) {
    assert_eq!(
        document["schema_version"], 1,
        "the version of the form: {document}"
    );
    assert_eq!(
        document["page_size_bytes"],
        page_size(),
        "the page size: {document}"
    );
    let hostname = document["hostname"].as_str().unwrap_or_default();
    assert!(!hostname.is_empty(), "the host: {document}");
    let time = document["timestamp"].as_str().unwrap_or_default();
    assert!(
        time.len() >= 20 && time.as_bytes()[10] == b'T' && time.ends_with('Z'),
        "when: {time}"
    );
}

fn adds_up(row: &Value) {
    let (hits, misses) = (
        number(row, "read_hit_pages"),
        number(row, "read_missed_pages"),
    );
    assert_eq!(
        hits + misses,
        number(row, "read_requested_pages"),
        "each row adds up: {row}"
    );
}

fn json() {
    for arguments in [&["--json"][..], &["-o", "json"]] {
        let ended = Ended::of(stat(arguments).args(["0.1", "3"])).expect(0, "three rows");
        let document: Value = serde_json::from_slice(&ended.out).expect("it is one document");
        has_a_head(&document);
        let rows = document["rows"].as_array().expect("it has rows");
        assert_eq!(rows.len(), 3, "three of them");
        rows.iter().for_each(adds_up);
        let sum: u64 = rows
            .iter()
            .map(|row| number(row, "read_requested_pages"))
            .sum();
        assert_eq!(
            number(&document["total"], "read_requested_pages"),
            sum,
            "the total is their sum"
        );
    }
}

fn json_lines() {
    let ended = Ended::of(&mut stat(&["-o", "jsonl", "0.1", "3"])).expect(0, "three rows");
    let rows: Vec<Value> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line stands alone"))
        .collect();
    assert_eq!(
        rows.len(),
        3,
        "three of them, and no total that would count twice"
    );
    for row in &rows {
        has_a_head(row);
        adds_up(row);
    }
}

fn csv() {
    let ended = Ended::of(&mut stat(&["-o", "csv", "0.1", "3"])).expect(0, "three rows");
    let mut reader = csv::Reader::from_reader(&ended.out[..]);
    let header = reader.headers().expect("it has a header").clone();
    let cell = |row: &csv::StringRecord, id: &str| -> u64 {
        let place = header
            .iter()
            .position(|name| name == id)
            .expect("the ids are the header");
        row[place]
            .parse()
            .unwrap_or_else(|_| panic!("{id} is an integer in {row:?}"))
    };
    let rows: Vec<csv::StringRecord> = reader
        .records()
        .map(|row| row.expect("each row has all cells"))
        .collect();
    assert_eq!(rows.len(), 3, "three of them");
    for row in &rows {
        let sum = cell(row, "read_hit_pages") + cell(row, "read_missed_pages");
        assert_eq!(
            sum,
            cell(row, "read_requested_pages"),
            "each row adds up: {row:?}"
        );
    }
}

fn openmetrics() {
    let ended = Ended::of(&mut stat(&["-o", "openmetrics", "0.1", "2"])).expect(0, "two rows");
    let text = ended.out();
    assert!(
        text.ends_with("# EOF\n"),
        "an exposition has an end: {text}"
    );
    assert_eq!(text.matches("# EOF").count(), 1, "and has one end");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("cachewise_"), "our prefix: {line}");
        assert!(value.parse::<f64>().is_ok(), "with a number: {line}");
        let family = name.split('{').next().expect("a split has a first");
        let family = family.strip_suffix("_total").unwrap_or(family);
        assert!(
            text.contains(&format!("# TYPE {family} ")),
            "its type: {line}"
        );
        assert!(
            text.contains(&format!("# HELP {family} ")),
            "and its help: {line}"
        );
    }
}

/// A `stat` that counts; its rows are summed up.
struct Rows(Started);

impl Rows {
    fn of(arguments: &[&str]) -> Rows {
        let mut stat = Started::of(stat(&["-o", "jsonl", "0.1"]).args(arguments));
        if stat.line().is_none() {
            let ended = stat.wait();
            panic!(
                "there is a first row once it counts: {}: {}",
                ended.line,
                ended.err()
            );
        }
        Rows(stat)
    }

    /// Ends it, and returns its rows.
    fn end(self) -> Vec<Value> {
        self.0.signal(Signal::INT);
        self.rows()
    }

    /// Its rows up to its end.
    fn rows(self) -> Vec<Value> {
        let ended = self.0.wait().expect(0, "it ends when it is interrupted");
        let rows: Vec<Value> = ended
            .out()
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line stands alone"))
            .collect();
        rows.iter().for_each(adds_up);
        rows
    }
}

fn sum(rows: &[Value], id: &str) -> u64 {
    rows.iter().map(|row| number(row, id)).sum()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

fn dd(file: &Path) {
    let mut command = Command::new("dd");
    command
        .arg(format!("if={}", text(file)))
        .args(["of=/dev/null", "bs=1M"]);
    Ended::of(&mut command).expect(0, "dd succeeds");
}

fn cold_file(scratch: &Scratch, name: &str) -> PathBuf {
    let file = scratch.file(name, 24 << 20);
    evict(&file);
    file
}

fn sums_to_the_file() {
    let scratch = Scratch::new();
    let file = cold_file(&scratch, "file");
    let rows = Rows::of(&["--file", text(&file)]);
    dd(&file);
    let rows = rows.end();
    let pages = pages_of(&file);
    assert_eq!(
        sum(&rows, "read_requested_pages"),
        pages,
        "over all rows, exactly the file's pages"
    );
    assert!(sum(&rows, "read_missed_pages") > 0, "it was cold");
    assert_eq!(
        sum(&rows, "readahead_hit_pages"),
        sum(&rows, "read_hit_pages"),
        "so hits were readahead hits"
    );
    // Only the file: dd's own libraries are excluded.
    assert!(
        rows.iter().all(|row| row["cached_bytes"].is_number()),
        "the machine's state stays"
    );
}

fn two_files() {
    let scratch = Scratch::new();
    let (one, two) = (cold_file(&scratch, "one"), cold_file(&scratch, "two"));
    let other = cold_file(&scratch, "other");
    let rows = Rows::of(&["--file", text(&one), "--file", text(&two)]);
    dd(&one);
    dd(&other);
    dd(&two);
    dd(&one);
    let pages = 2 * pages_of(&one) + pages_of(&two);
    assert_eq!(
        sum(&rows.end(), "read_requested_pages"),
        pages,
        "one twice, two once, the other not"
    );
}

fn of_a_block_device() {
    let scratch = Scratch::new();
    let image = scratch.file("image", 8 << 20);
    let device = LoopDevice::over(&image);
    evict(&device.path);
    let rows = Rows::of(&["--file", text(&device.path)]);
    dd(&device.path);
    let pages = (8 << 20) / page_size();
    assert_eq!(
        sum(&rows.end(), "read_requested_pages"),
        pages,
        "a device's own pages, exactly"
    );
}

fn of_a_process() {
    let scratch = Scratch::new();
    let file = cold_file(&scratch, "file");
    let mut reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let both = Rows::of(&["-p", &pid, "--file", text(&file)]);
    let process = Rows::of(&["-p", &pid]);
    reader.read();
    // Not its read.
    dd(&file);
    let (both, process) = (both.end(), process.end());
    assert_eq!(
        sum(&both, "read_requested_pages"),
        pages_of(&file),
        "only its child's read"
    );
    let all = sum(&process, "read_requested_pages");
    let (least, most) = (pages_of(&file), pages_of(&file) + 1000);
    assert!(
        (least..most).contains(&all),
        "without a file, also the reads that start cat: {all}"
    );
    reader.end();
}

fn ends_with_the_process() {
    let scratch = Scratch::new();
    let reader = Reader::of(&cold_file(&scratch, "file"));
    let rows = Rows::of(&["-p", &reader.pid().to_string()]);
    reader.end();
    assert!(
        !rows.rows().is_empty(),
        "it ends by itself, with the counts so far"
    );
}

fn of_a_cgroup() {
    let Some(group) = Group::new() else {
        println!("skipped: stat --cgroup: no control group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let file = cold_file(&scratch, "file");
    {
        let mut inside = Reader::of_group(&file, group.path());
        let inner = group.inner();
        let below = Reader::of_group(&file, inner.path());
        let rows = Rows::of(&["--cgroup", text(group.path()), "--file", text(&file)]);
        let all = Rows::of(&["--cgroup", text(group.path())]);
        let mut below = below;
        inside.read();
        below.read();
        // From outside.
        dd(&file);
        let (rows, all) = (rows.end(), all.end());
        let pages = 2 * pages_of(&file);
        assert_eq!(
            sum(&rows, "read_requested_pages"),
            pages,
            "its tasks and those of groups below it"
        );
        let read = sum(&all, "read_requested_pages");
        assert!(
            (pages..pages + 1000).contains(&read),
            "and the reads that start cat: {read}"
        );
        inside.end();
        below.end();
    }
}

fn two_at_once() {
    let scratch = Scratch::new();
    let file = cold_file(&scratch, "file");
    let one = Rows::of(&["--file", text(&file)]);
    let two = Rows::of(&["--file", text(&file)]);
    dd(&file);
    let report = report_of(&[], ["cat", text(&file)]);
    let (one, two) = (one.end(), two.end());
    let pages = pages_of(&file);
    assert_eq!(
        sum(&one, "read_requested_pages"),
        2 * pages,
        "the first counts both reads"
    );
    for id in [
        "read_requested_pages",
        "read_missed_pages",
        "read_hit_pages",
        "readahead_hit_pages",
    ] {
        assert_eq!(sum(&two, id), sum(&one, id), "the second the same: {id}");
    }
    assert_eq!(
        number(report.file(&file), "read_requested_pages"),
        pages,
        "and a third its own part"
    );
    report.adds_up();
}
