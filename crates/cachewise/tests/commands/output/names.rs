//! Names from outside.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::*;

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

pub fn names_in_messages() {
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

pub fn name_of_the_command() {
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

pub fn control_characters() {
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
        number(report.file(&file), "read_requested_pages"),
        3,
        "JSON has the name as it is"
    );
}

pub fn not_utf8() {
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
    assert_eq!(number(row, "read_requested_pages"), 3, "with its numbers");
}

pub fn spaces_and_line_feeds() {
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
        number(report.file(&file), "read_requested_pages"),
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

/// Files that are gone when the report asks for their names again: their inodes wait to be freed, or are freed.
pub fn many_deleted_files_keep_their_names() {
    const FILES: usize = 400;
    let scratch = Scratch::new();
    let files: Vec<_> = (0..FILES)
        .map(|number| scratch.file(format!("gone {number}"), page_size()))
        .collect();
    let script = "for file; do exec 3<\"$file\"; rm \"$file\"; cat <&3; exec 3<&-; done >/dev/null";
    let mut words = vec![
        OsStr::new("sh"),
        "-c".as_ref(),
        script.as_ref(),
        "sh".as_ref(),
    ];
    words.extend(files.iter().map(|file| file.as_os_str()));
    let report = report_of(&[], words);
    let named = |row: &&Value| files.iter().any(|file| row["path"] == text(file));
    let deleted = report.files().iter().filter(|row| row["deleted"] == true);
    let (right, wrong): (Vec<&Value>, Vec<&Value>) = deleted.partition(named);
    assert_eq!(wrong, Vec::<&Value>::new(), "no other file was deleted");
    assert_eq!(right.len(), FILES, "each has its name");
}

pub fn deleted_file() {
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
    assert_eq!(
        number(row, "read_requested_pages"),
        5,
        "what was read of it counts"
    );
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
        .filter(|row| row["read_requested_pages"] == 5 && row["path"] == text(&file))
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

pub fn in_findings() {
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
    // `; to prefetch it: cachewise warm PATH, or cat PATH >/dev/null`
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
