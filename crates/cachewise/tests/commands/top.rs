//! `top`: rows that add up in every format, refusals, and the real screen.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::invalid_numbers_are_refused", numbers),
        plain("usage::columns_of_other_rows_are_refused", columns),
        plain("usage::invalid_patterns_are_refused", patterns),
        plain("usage::missing_process_is_refused", no_process),
        plain("screen::dumb_terminal_is_refused", dumb),
        plain("documented::keys_match_the_table", keys),
        needs_root("end::closed_pipe", closed_pipe),
        needs_root("rows::jsonl_sums_to_the_file", sums),
        needs_root("rows::csv_json_table_metrics", formats),
        needs_root("rows::every_view", views),
        needs_root("rows::process_is_followed_to_its_end", of_a_process),
        needs_root("rows::interrupt_exits_with_zero", interrupted),
        needs_root("screen::shows_evicts_and_restores_the_terminal", screen),
        needs_root("screen::reports_the_end_of_a_process", ended),
    ]
}

fn top(arguments: &[&str]) -> Command {
    let mut command = cachewise(["top"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn numbers() {
    for (arguments, named) in [
        (&["-b", "0"][..], "INTERVAL"),
        (&["-b", "-1"], "negative"),
        (&["-b", "-d", "abc"], "--delay"),
        (&["-b", "-n", "0"], "--count"),
        (&["-b", "--top", "0"], "--top"),
        (&["-b", "-p", "0"], "process id"),
        (&["-b", "-d", "1", "2"], "cannot be used with"),
        (
            &["-b", "--view", "threads"],
            "process, file, cgroup, device",
        ),
    ] {
        Ended::of(&mut top(arguments))
            .expect(2, "that cannot be understood")
            .says(named, "the message names it");
    }
}

fn columns() {
    Ended::of(&mut top(&["-b", "--columns", "pid,hitz"]))
        .expect(2, "there is no such column")
        .says("did you mean `hits`", "and what it could have been");
    Ended::of(&mut top(&["-b", "--view", "file", "--columns", "pid"]))
        .expect(2, "files have no process id")
        .says("`pid` is not one of files", "the reason")
        .says("read_missed_pages", "with columns that files have");
    Ended::of(&mut top(&["-b", "--view", "cgroup", "--sort", "inode"]))
        .expect(2, "groups have no inode")
        .says("`inode` is not one of cgroups", "it cannot sort them");
    Ended::of(&mut top(&["-b", "--sort", "nonsense"]))
        .expect(2, "there is none")
        .says("`cachewise columns`", "the list of names");
}

fn patterns() {
    Ended::of(&mut top(&["-b", "--filter", "re:("]))
        .expect(2, "not a regular expression")
        .says("re:(", "which one");
}

fn no_process() {
    Ended::of(&mut top(&["-b", "-p", "2147483647"]))
        .expect(2, "there is none")
        .says("2147483647", "which one");
    Ended::of(&mut top(&["-b", "--cgroup", "/not/there"]))
        .expect(2, "nor such a group")
        .says("not/there", "which one");
}

fn keys() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md");
    let text = std::fs::read_to_string(docs).expect("top has a page");
    for table in [
        cachewise_tui::markdown(),
        cachewise_tui::markdown_of_other_programs(),
    ] {
        assert!(
            text.contains(&table),
            "docs/top.md has the current tables of keys:\n{table}"
        );
    }
}

fn closed_pipe() {
    let scratch = Scratch::new();
    let _busy = Busy::with(&scratch.file("data", 1 << 20));
    let mut started = Started::of(&mut top(&["-b", "0.05", "-o", "jsonl"]));
    started.line().expect("there is a row");
    started.close_output();
    started.wait().expect(0, "the pipe is closed");
}

/// `top` watches a cold read over several intervals: the sum over rows is the file.
fn sums() {
    let scratch = Scratch::new();
    let (other, file) = (
        scratch.file("other", 1 << 20),
        scratch.file("data", 8 << 20),
    );
    let pages = pages_of(&file);
    let mut reader = Reader::of(&file);
    let busy = Busy::with(&other);
    let filter = scratch.directory().display().to_string();
    let columns = "time,elapsed_seconds,read_requested_pages,read_missed_pages,readahead_hit_pages,read_hit_pages,path";
    let mut started = Started::of(&mut top(&[
        "-b",
        "0.1",
        "--view",
        "file",
        "--columns",
        columns,
        "--filter",
        &filter,
        "-o",
        "jsonl",
    ]));
    // A row of the other file shows that it counts.
    started.line().expect("it goes on until it is interrupted");
    evict(&file);
    reader.read();
    let (mut read, mut fetched, mut rows) = (0, 0, 0);
    while read < pages {
        let line = started.line().expect("it goes on until it is interrupted");
        let row: Value = serde_json::from_slice(&line).expect("each line is a document");
        assert_eq!(row["schema_version"], 1, "with a version");
        assert!(row["elapsed_seconds"].as_f64() > Some(0.0), "and its time");
        let number = |id: &str| row[id].as_u64().expect("counts are integers");
        assert_eq!(
            number("read_requested_pages"),
            number("read_hit_pages") + number("read_missed_pages"),
            "hits and misses add up in each row"
        );
        if row["path"]
            .as_str()
            .is_some_and(|path| Path::new(path) == file)
        {
            read += number("read_requested_pages");
            fetched += number("read_missed_pages") + number("readahead_hit_pages");
            rows += 1;
        }
    }
    drop(busy);
    started.signal(Signal::INT);
    started.wait().expect(0, "Ctrl-C is an end");
    assert_eq!(read, pages, "every page was requested once, in {rows} rows");
    assert_eq!(fetched, pages, "and all of them came from the disk");
}

fn formats() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let _busy = Busy::with(&file);
    let mut outputs = Vec::new();
    for format in ["csv", "json", "table", "openmetrics"] {
        let ended = Ended::of(&mut top(&["-b", "-d", "0.3", "-n", "3", "-o", format]));
        outputs.push(ended.expect(0, "it has its rows").out());
    }
    let mut csv = csv::Reader::from_reader(outputs[0].as_bytes());
    let heads = csv.headers().expect("it has a head").clone();
    assert!(
        heads.iter().any(|id| id == "elapsed_seconds")
            && heads.iter().any(|id| id == "read_requested_pages"),
        "ids: {heads:?}"
    );
    let command = heads.iter().position(|id| id == "command").expect("names");
    let rows: Vec<csv::StringRecord> = csv.records().map(|row| row.expect("a row")).collect();
    assert!(
        rows.iter().any(|row| &row[command] == "cat"),
        "the reader's cat: {rows:?}"
    );
    let json: Value = serde_json::from_str(&outputs[1]).expect("one document");
    for member in ["schema_version", "timestamp", "hostname", "page_size_bytes"] {
        assert!(!json[member].is_null(), "the document has {member}");
    }
    let rows = json["rows"].as_array().expect("and rows");
    assert!(rows.iter().any(|row| row["command"] == "cat"), "of it");
    assert!(
        outputs[2].starts_with("TIME") && outputs[2].contains("cat"),
        "a table: {}",
        outputs[2]
    );
    assert!(
        outputs[3].contains("cachewise_read_requested_pages_total{command=\"cat\"}")
            && outputs[3].ends_with("# EOF\n")
            && !outputs[3].contains("pid"),
        "metrics by the name of the program: {}",
        outputs[3]
    );
}

fn views() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let _busy = Busy::with(&file);
    for (view, id) in [
        ("process", "pid"),
        ("file", "path"),
        ("cgroup", "cgroup"),
        ("device", "device"),
    ] {
        let ended = Ended::of(&mut top(&[
            "-b", "-d", "0.3", "-n", "3", "--view", view, "-o", "jsonl",
        ]))
        .expect(0, "rows of it");
        let rows: Vec<Value> = ended
            .out()
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is a document"))
            .collect();
        assert!(!rows.is_empty(), "{view}: there are rows: {}", ended.err());
        let all: u64 = rows
            .iter()
            .filter_map(|row| row["read_requested_pages"].as_u64())
            .sum();
        assert!(all >= pages_of(&file), "{view}: with what was read: {all}");
        assert!(
            rows.iter().all(|row| row.get(id).is_some()),
            "{view}: named by {id}"
        );
    }
}

fn of_a_process() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let started = Started::of(&mut top(&["-b", "0.05", "-p", &pid, "-o", "jsonl"]));
    until("the probe is there", || {
        (!held_by(started.pid()).is_empty()).then_some(())
    });
    drop(reader);
    // It may have ended before the probe was attached.
    let ended = started.wait();
    assert!(
        ended.code() == 0 || ended.err().contains(&format!("process {pid} has ended")),
        "it ends with the process: {}",
        ended.err()
    );
}

fn interrupted() {
    let mut started = Started::of(&mut top(&["-b", "-d", "60", "-o", "json"]));
    started.until_thread("signals");
    started.signal(Signal::INT);
    let ended = started.wait().expect(0, "Ctrl-C is an end");
    let document: Value = serde_json::from_str(&ended.out()).expect("the document is closed");
    assert!(document["rows"].is_array(), "with the interval begun");
}

fn dumb() {
    for term in ["dumb", ""] {
        let mut desk = OnTerminal::of(&["top"], term);
        assert_eq!(desk.ended(), 2, "{term:?} has no screen");
        desk.until_shown("add -b for rows");
    }
}

fn screen() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let pages = pages_of(&file);
    warm(&file);
    let busy = Busy::with(&file);
    let name = file.display().to_string();
    let mut desk = OnTerminal::of(
        &["top", "0.2", "--view", "file", "--filter", &name],
        "xterm",
    );
    desk.until_shown("every 200ms, exact");
    desk.until_shown("  1 of ");
    // Frozen, so that the row stays.
    desk.press(" ");
    desk.until_shown("[held]");
    drop(busy);
    desk.press("e");
    desk.until_shown("y/N");
    desk.press("y");
    desk.until_shown("evicted");
    // A column is called so as well.
    until("the file has gone", || {
        (resident(&file) < pages).then_some(())
    });
    desk.press("w");
    desk.until_shown("y/N");
    desk.press("y");
    desk.until_shown("read, 1.0 MiB resident now");
    desk.press("\u{3}");
    assert_eq!(desk.ended(), 0, "Ctrl-C is an end");
}

fn ended() {
    let sleeper = Started::of(Command::new("sleep").arg("600"));
    let pid = sleeper.pid().to_string();
    let mut screen = OnTerminal::of(&["top", "-d", "0.1", "-p", &pid], "xterm-256color");
    screen.until_shown(&format!("only process {pid}"));
    sleeper.signal(Signal::KILL);
    sleeper.wait();
    let says = format!("process {pid} has ended");
    screen.until_shown(&says);
    // A key clears the message; the state of having ended remains.
    screen.press("?");
    screen.until_shown("a row down");
    screen.press("\u{1b}");
    screen.until_shown(&says);
    screen.press("q");
    assert_eq!(screen.ended(), 0, "it can be left as ever");
}
