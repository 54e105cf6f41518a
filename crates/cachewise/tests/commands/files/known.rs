//! Files of known residency.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::stand::*;
use crate::support::*;

const TOTAL: u64 = 700;

/// Pages to load: none, scattered ones, a range, all.
fn patterns() -> [BTreeSet<u64>; 4] {
    [
        BTreeSet::new(),
        (0..TOTAL).filter(|page| page * page % 7 == 2).collect(),
        (301..502).collect(),
        (0..TOTAL).collect(),
    ]
}

/// First and last pages of the ranges.
fn intervals(pages: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut intervals: Vec<(u64, u64)> = Vec::new();
    for &page in pages {
        match intervals.last_mut() {
            Some((_, last)) if *last + 1 == page => *last = page,
            _ => intervals.push((page, page)),
        }
    }
    intervals
}

/// The answers about a file: by counts, and by ranges.
fn asked(path: &Path) -> [Value; 2] {
    [&["--json"][..], &["--map", "--json"]].map(|how| {
        let ended = Ended::of(files([path]).args(how));
        document(&ended.expect(0, "its owner may know"))
    })
}

/// Both say that these pages are resident, and no others.
fn is_right(path: &Path, pages: &BTreeSet<u64>, [counted, mapped]: &[Value; 2]) {
    let row = row_of(counted, path);
    let (expected, size) = (pages.len() as u64, TOTAL * page_size());
    assert_eq!(row["resident_pages"], expected, "so many of them: {row}");
    assert_eq!(row["file_pages"], TOTAL, "of {TOTAL} pages: {row}");
    assert_eq!(row["file_size_bytes"], size, "of {size} bytes: {row}");
    assert_eq!(
        row["resident_ratio"],
        json!(expected as f64 / TOTAL as f64),
        "the ratio is that of the pages: {row}"
    );
    assert_eq!(
        counted["total"]["resident_pages"], row["resident_pages"],
        "the total of one file is that file's"
    );
    let told: Vec<(u64, u64)> = rows_of(mapped, path)
        .iter()
        .map(|row| (number(row, "first_page"), number(row, "last_page")))
        .collect();
    assert_eq!(told, intervals(pages), "and those, of {}", path.display());
}

/// Loads each pattern of pages of a file, and looks at it by a path that leads there.
fn reported_exactly(file: &Path, path: &Path) {
    for pages in patterns() {
        undisturbed(|| {
            load(file, &pages);
            let said = asked(path);
            // Pages go, and none comes back by itself: what is there now was there all the time.
            (resident(file) == pages.len() as u64).then(|| is_right(path, &pages, &said))
        });
    }
}

/// An overlay and its layers in this mount namespace, unmounted when dropped.
struct Overlay(PathBuf);

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

pub fn an_overlay_and_its_layers_count_once() {
    const PAGES: u64 = 16;
    let scratch = Scratch::new();
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(scratch.path(name)).expect("it is ours");
    }
    let below = scratch.file("lower/below", PAGES * page_size());
    scratch.file("lower/changed", PAGES * page_size());
    let options = ["lower", "upper", "work"].map(|name| scratch.path(name).display().to_string());
    let [lower, upper, work] = options;
    let merged = scratch.path("merged");
    let status = Command::new("mount")
        .args(["-t", "overlay", "none", "-o"])
        .arg(format!("lowerdir={lower},upperdir={upper},workdir={work}"))
        .arg(&merged)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("skipped: an overlay and its layers: no overlay can be mounted here");
        return;
    }
    let _overlay = Overlay(merged.clone());
    // Copied up: the file of the lower layer is another one from now on.
    let mut changed = fs::File::options()
        .append(true)
        .open(merged.join("changed"))
        .expect("it can be changed");
    changed.write_all(b"x").expect("there is room");
    changed.sync_all().expect("the disk takes it");
    let _pinned = pin(&below, PAGES);
    for roots in [["merged", "lower", "upper"], ["lower", "upper", "merged"]] {
        let ended = Ended::of(files(["--json"]).args(roots.map(|name| scratch.path(name))));
        let document = document(&ended.expect(0, "root may ask"));
        let total = &document["total"];
        assert_eq!(
            number(total, "file_pages"),
            3 * PAGES + 1,
            "below, and changed in both layers: {roots:?}: {document}"
        );
        let rows = document["rows"].as_array().expect("rows").iter();
        let of_below = rows.filter(|row| {
            let path = row["path"].as_str().unwrap_or_default();
            path.ends_with("/below")
        });
        let resident: Vec<u64> = of_below.map(|row| number(row, "resident_pages")).collect();
        assert_eq!(resident, [PAGES], "{roots:?}: its pages are there once");
    }
}

pub fn here() {
    let scratch = Scratch::new();
    let path = scratch.file("file", TOTAL * page_size());
    reported_exactly(&path, &path);

    // Half of it in the first half, nothing in the second.
    let pages: BTreeSet<u64> = (0..TOTAL / 2).collect();
    undisturbed(|| {
        load(&path, &pages);
        let ended = Ended::of(files([&path]).args(["--histogram", "--json"]));
        let document = document(&ended.expect(0, "its owner may know"));
        (resident(&path) == TOTAL / 2).then(|| {
            let strip = row_of(&document, &path)["histogram"]
                .as_str()
                .expect("a strip")
                .to_owned();
            assert_eq!(
                strip,
                format!("{}{}", "█".repeat(16), " ".repeat(16)),
                "the strip shows which half"
            );
        })
    });
}

pub fn on(kind: &str) {
    let scratch = Scratch::new();
    let elsewhere = match Elsewhere::mount(&scratch, kind) {
        Ok(elsewhere) => elsewhere,
        Err(reason) => return println!("skipped: known residency on {kind}: {reason}"),
    };
    let path = elsewhere.reached().join("file");
    if kind == "tmpfs" {
        for pages in patterns() {
            with_holes(&path, TOTAL, &pages);
            // Pages of tmpfs stay in memory.
            is_right(&path, &pages, &asked(&path));
        }
        return;
    }
    fs::copy(scratch.file("content", TOTAL * page_size()), &path).expect("there is room");
    reported_exactly(&path, &path);
}

/// cachestat(2) sees nothing there; the binary does.
pub fn through_overlayfs() {
    let scratch = Scratch::new();
    for name in ["lower", "upper", "work"] {
        fs::create_dir(scratch.path(name)).expect("a directory can be made");
    }
    scratch.file("lower/file", TOTAL * page_size());
    let script = "cd \"$0/..\"; mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work \"$0\"";
    let elsewhere = Elsewhere::with(&scratch, "merged", script);
    let (path, below) = (elsewhere.reached().join("file"), scratch.path("lower/file"));
    reported_exactly(&below, &path);
    let document = document(&Ended::of(files([&path]).arg("--json")).expect(0, "root may know"));
    let row = row_of(&document, &path);
    assert!(
        row["resident_dirty_pages"].is_null() && row["reasons"]["resident_dirty_pages"].is_string(),
        "what nobody tells there has a reason, and is not 0: {row}"
    );
}

/// mincore(2) calls every page of such a file resident.
pub fn unknown_to_others() {
    let scratch = Scratch::new();
    let path = scratch.file("roots", TOTAL * page_size());
    evict(&path);
    let asked = |arguments: &[&str]| {
        let mut command = files_as_nobody(&scratch);
        let ended = Ended::of(command.args(arguments).arg(&path));
        ended.expect(2, "something is not known")
    };
    let ended = asked(&["--json"]).says("users who own", "and why");
    let document = document(&ended);
    for row in [row_of(&document, &path), &document["total"]] {
        for id in ["resident_pages", "resident_ratio", "shadow_pages"] {
            assert_eq!(row[id], Value::Null, "{id} is not known: {row}");
            assert!(row["reasons"][id].is_string(), "for a reason: {row}");
        }
        assert_eq!(
            row["file_size_bytes"],
            TOTAL * page_size(),
            "its size is no secret: {row}"
        );
    }
    for arguments in [
        &[][..],
        &["--histogram"],
        &["--map"],
        &["--tree"],
        &["--fail-below", "0.1"],
        &["-o", "csv"],
    ] {
        let ended = asked(arguments);
        let out = ended.out();
        assert!(
            !out.contains("100.00%") && !out.contains(&format!(",{TOTAL},")),
            "{arguments:?}: unknown is not everything: {out}"
        );
    }
    let directory = scratch.path("tree");
    fs::create_dir(&directory).expect("a directory can be made");
    fs::write(directory.join("empty"), "").expect("an empty file can be made");
    fs::write(directory.join("some"), "some").expect("a file can be made");
    let mut command = files_as_nobody(&scratch);
    let ended = Ended::of(command.arg(&directory)).expect(2, "one of two is not known");
    assert!(
        !ended.out().contains('%') || !ended.out().contains("100.00%"),
        "a sum of what is known alone is no part of all: {}",
        ended.out()
    );
    ended.says("unknown of 1 of 2 files", "it says of how many");
}

pub fn sparse() {
    let scratch = Scratch::new();
    let path = scratch.path("sparse");
    let file = fs::File::create(&path).expect("a file can be made");
    let size = 1_u64 << 40;
    if let Err(error) = file.set_len(size) {
        return println!("skipped: a sparse file of 1 TiB: {error}");
    }
    for arguments in [&[][..], &["--histogram"], &["--map"]] {
        let ended = Ended::of(files([&path]).args(arguments).arg("--json"));
        let document = document(&ended.expect(0, "it is a file like others"));
        let total = &document["total"];
        assert_eq!(total["resident_pages"], 0, "nothing of it was ever read");
        if arguments.is_empty() {
            assert_eq!(total["file_pages"], size / page_size(), "of so many pages");
        }
    }
}
