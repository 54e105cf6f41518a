//! More files than there is room for: what does not fit is summed up on one row and said, and not a
//! page of it is missing from the sums.

use std::ffi::OsString;

use crate::support::*;

/// Files, of 1 to this many pages.
const FILES: u64 = 200;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "rows::thousands_are_all_read_back",
            thousands_are_all_read_back,
        ),
        needs_root("rows::sums_stay_whole", sums_stay_whole),
        needs_root("rows::a_person_is_told", a_person_is_told),
        needs_root("rows::machine_formats_say_it", machine_formats_say_it),
        needs_root("rows::one_is_enough", one_is_enough),
        needs_root(
            "memory::grows_with_the_rows_and_is_shown",
            memory_grows_with_the_rows_and_is_shown,
        ),
        needs_root("rows::of_many_processes", of_many_processes),
        plain("usage::limits", limits),
    ]
}

fn limits() {
    for value in ["0", "-1", "abc", "4194305"] {
        Ended::of(&mut cachewise([
            "run",
            &format!("--max-rows={value}"),
            "--",
            "true",
        ]))
        .expect(2, "there is no such room")
        .says(&format!("'{value}'"), "the message names the value");
    }
}

/// Files of 1, 2, 3, … pages, all in the cache, and how many pages that is.
fn files(scratch: &Scratch) -> u64 {
    for number in 1..=FILES {
        // The last byte of the last page is not there: a page begun counts.
        warm(&scratch.file(format!("file-{number:03}"), number * page_size() - 1));
    }
    FILES * (FILES + 1) / 2
}

fn cat_all(scratch: &Scratch) -> [OsString; 5] {
    [
        "sh".into(),
        "-c".into(),
        "cat \"$1\"/file-* | wc -c".into(),
        "sh".into(),
        scratch.directory().into(),
    ]
}

/// The same program with enough room: what it reads beside the files is its start, which is the same.
fn total_with_room(scratch: &Scratch, pages: u64) -> u64 {
    let report = report_of(&[], cat_all(scratch));
    report.adds_up();
    let ours = scratch.directory().to_str().expect("an ordinary name");
    let listed = report.files().iter().filter(|file| {
        file["path"]
            .as_str()
            .is_some_and(|path| path.starts_with(ours))
    });
    let read: u64 = listed
        .map(|file| number(file, "read_requested_pages"))
        .sum();
    assert_eq!(
        read, pages,
        "with room enough each file has its row and its pages"
    );
    assert_eq!(report.lost("rows"), 0, "and nothing is lost");
    number(&report.json["totals"], "read_requested_pages")
}

fn thousands_are_all_read_back() {
    // Far below the limit, and more than is read back from the kernel at a time.
    const MANY: u64 = 20_000;
    let scratch = Scratch::new();
    for number in 0..MANY {
        std::fs::write(scratch.path(format!("file-{number}")), b"x").expect("the disk has room");
    }
    let script = "cd \"$1\" && cat file-* >/dev/null";
    let words: [OsString; 5] = [
        "sh".into(),
        "-c".into(),
        script.into(),
        "sh".into(),
        scratch.directory().into(),
    ];
    let report = report_of(&[], words);
    let ours = scratch.directory().to_str().expect("an ordinary name");
    let listed = report.files().iter().filter(|file| {
        file["path"]
            .as_str()
            .is_some_and(|path| path.starts_with(ours))
            && file["read_requested_pages"] == 1
    });
    assert_eq!(
        listed.count() as u64,
        MANY,
        "each file is listed, with its page"
    );
    assert_eq!(
        report.json["lost"],
        serde_json::json!([]),
        "and nothing is said to be lost"
    );
    report.adds_up();
    report.ended.expect(0, "the program succeeds");
}

fn sums_stay_whole() {
    let scratch = Scratch::new();
    let pages = files(&scratch);
    let expected = total_with_room(&scratch, pages);
    for rows in ["8", "64"] {
        let report = report_of(&["--max-rows", rows], cat_all(&scratch));
        let totals = &report.json["totals"];
        assert_eq!(
            number(totals, "read_requested_pages"),
            expected,
            "--max-rows {rows}: not a page of {pages} in {FILES} files is lost"
        );
        assert!(
            report.lost("rows") > 0,
            "--max-rows {rows}: what found no room is counted"
        );
        let nameless: Vec<u64> = report
            .files()
            .iter()
            .filter(|file| file["path"].is_null())
            .map(|file| {
                assert!(
                    file["reasons"]["path"].is_string(),
                    "with a reason for the name: {file}"
                );
                number(file, "read_requested_pages")
            })
            .collect();
        assert!(
            nameless.iter().sum::<u64>() > 0,
            "--max-rows {rows}: and has a row of its own"
        );
        assert!(
            report.files().len() <= rows.parse::<usize>().expect("a number") + 1,
            "--max-rows {rows}: there is no more than was asked for: {}",
            report.files().len()
        );
        report.adds_up();
        report.ended.expect(0, "the program does not notice");
    }
}

fn a_person_is_told() {
    let scratch = Scratch::new();
    files(&scratch);
    let mut command = cachewise(["run", "--max-rows", "8", "--"]);
    let ended = Ended::of(command.args(cat_all(&scratch))).expect(0, "the program succeeds");
    let err = ended.err();
    let line = err
        .lines()
        .find(|line| line.starts_with("incomplete, rows: "));
    let line = line.unwrap_or_else(|| panic!("it is said that rows are missing: {err}"));
    assert!(
        line.contains("--max-rows"),
        "and what to do about it: {line}"
    );
    assert!(
        !err.contains("not counted"),
        "it is counted, on one row for all: {err}"
    );
    assert!(
        err.lines().any(|line| line.ends_with("  (all others)")),
        "which has a name: {err}"
    );
    assert!(
        !err.contains("DOES NOT ADD UP"),
        "the sums are whole: {err}"
    );
}

fn machine_formats_say_it() {
    let scratch = Scratch::new();
    files(&scratch);
    let run = |format: &str| {
        let mut command = cachewise(["run", "--max-rows", "8", "-o", format, "--"]);
        let ended = Ended::of(command.args(cat_all(&scratch))).expect(0, "the program succeeds");
        ended.err()
    };
    let csv = run("csv");
    assert!(
        csv.lines()
            .skip(1)
            .all(|row| row.contains("incomplete, rows: ")),
        "each row says that there are more: {csv}"
    );
    let metrics = run("openmetrics");
    let lost = metrics
        .lines()
        .find_map(|line| line.strip_prefix("cachewise_lost_events_total "));
    let lost: u64 = lost.and_then(|lost| lost.parse().ok()).expect("a number");
    assert!(lost > 0, "{metrics}");
}

/// Kernel memory of the probe, as the report has it.
fn kernel_memory(options: &[&str]) -> (u64, String) {
    let report = report_of(options, ["true"]);
    let backend = &report.json["backend"];
    assert_eq!(backend["exact"], true, "the probe is loaded: {backend}");
    (number(backend, "kernel_memory_bytes"), report.ended.err())
}

fn memory_grows_with_the_rows_and_is_shown() {
    let (usual, said) = kernel_memory(&[]);
    assert!(!said.contains("kernel memory"), "that is no news: {said}");
    let (few, _) = kernel_memory(&["--max-rows", "1024"]);
    let (many, said) = kernel_memory(&["--max-rows", "262144"]);
    assert!(few < usual && usual < many, "{few} < {usual} < {many}");
    // Each row takes its key, its counters and its part of the table.
    let row = (many - few) / (262_144 - 1024);
    assert!((200..2000).contains(&row), "{row} bytes a row");
    assert!(
        said.contains("--max-rows 262144: the tables take "),
        "so much is reported: {said}"
    );
    let mut command = cachewise(["run", "--", "true"]);
    let shown = Ended::of(&mut command).expect(0, "it succeeds").err();
    let line = shown.lines().find(|line| line.starts_with("probe: "));
    assert!(
        line.is_some_and(|line| line.ends_with(" MiB of kernel memory")),
        "people see it too: {shown}"
    );
}

fn one_is_enough() {
    let scratch = Scratch::new();
    let pages = files(&scratch);
    let expected = total_with_room(&scratch, pages);
    let report = report_of(&["--max-rows", "1"], cat_all(&scratch));
    assert_eq!(
        number(&report.json["totals"], "read_requested_pages"),
        expected,
        "the sum needs no more"
    );
    report.adds_up();
}

fn of_many_processes() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 7 * page_size());
    warm(&file);
    let script = "for n in $(seq 300); do cat \"$1\" >/dev/null; done; true";
    let words = || {
        [
            "sh".into(),
            "-c".into(),
            script.into(),
            "sh".into(),
            file.clone().into_os_string(),
        ]
    };
    let whole = report_of(&[], words());
    let full = report_of(&["--max-rows", "16"], words());
    for report in [&whole, &full] {
        report.adds_up();
        assert!(
            number(&report.json["totals"], "read_requested_pages") >= 300 * 7,
            "each read counts"
        );
    }
    assert_eq!(
        number(&full.json["totals"], "read_requested_pages"),
        number(&whole.json["totals"], "read_requested_pages"),
        "processes that find no room are in the sums"
    );
    assert!(full.lost("rows") > 0, "and it is said that they found none");
}
