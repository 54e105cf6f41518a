//! `record --stacks`, and the reports of such recordings.

use super::*;

/// The tests.
pub(super) fn trials() -> Vec<Trial> {
    vec![
        needs_root("recordings_have_the_lines", recordings_have_the_lines),
        needs_root(
            "a_recording_without_stacks_says_how_to_record_them",
            a_recording_without_stacks_says_how_to_record_them,
        ),
    ]
}

fn recordings_have_the_lines() {
    let scratch = Scratch::new();
    let Some(program) = compiled_c(&scratch) else {
        return;
    };
    let (file, recording) = (cold(&scratch), scratch.path("app.rec"));
    let mut record = cachewise(["record", "--stacks", "--only", "--interval", "100ms"]);
    record.arg(&recording).arg("--").arg(&program);
    Ended::of(record.arg("reads").arg(&file)).expect(0, "it is recorded");
    // Symbols are in the recording.
    std::fs::remove_file(&program).expect("it was there");
    let (json, svg, page) = (
        scratch.path("report.json"),
        scratch.path("flame.svg"),
        scratch.path("page.html"),
    );
    let mut shown = cachewise(["report"]);
    let shown = Ended::of(shown.arg(&recording)).expect(0, "it is shown");
    let place = format!("events.c:{}", line(C, "index"));
    assert!(shown.out().contains(&place), "the table: {}", shown.out());
    let mut target = std::ffi::OsString::from("json=");
    target.push(&json);
    let mut report = cachewise(["report", "--stack-weight", "pages", "--flamegraph"]);
    report.arg(&svg).arg("-o").arg(target);
    let ended = Ended::of(report.arg(&recording)).expect(0, "it is written");
    let report = Report::read(&json, ended);
    for (place, pages) in [
        (("load_index", line(C, "index")), INDEX_PAGES),
        (("load_table", line(C, "table")), TABLE_PAGES),
    ] {
        let found = sum(&report, "read", "pages", Some(place));
        is_mostly(found, pages, place.0, &report);
    }
    let all = number(&report.json["totals"], "read_missed_pages");
    assert_eq!(
        sum(&report, "read", "pages", None) as u64,
        all,
        "every page"
    );
    let svg = std::fs::read_to_string(&svg).expect("it was written");
    assert!(svg.contains("<title>load_index: "), "{svg}");
    let mut html = cachewise(["report", "--html"]);
    Ended::of(html.arg(&page).arg(&recording)).expect(0, "a page");
    let page = std::fs::read_to_string(&page).expect("it was written");
    assert!(
        page.contains("<title>load_index: ") && page.contains(&place),
        "the graph and the table are on the page"
    );
}

fn a_recording_without_stacks_says_how_to_record_them() {
    let scratch = Scratch::new();
    let recording = scratch.path("app.rec");
    let mut record = cachewise(["record", "--only"]);
    Ended::of(record.arg(&recording).args(["--", "true"])).expect(0, "it is recorded");
    let mut report = cachewise(["report", "--flamegraph"]);
    report.arg(scratch.path("flame.svg")).arg(&recording);
    Ended::of(&mut report)
        .expect(2, "there is nothing to draw")
        .says("cachewise record --stacks", "the fix");
    assert!(!scratch.path("flame.svg").exists(), "no empty graph");
}
