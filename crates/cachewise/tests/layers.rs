//! What lies between a program's calls and the pages: a file cut off and written anew, and a file of an
//! overlay, whose pages belong to the file in the layer below.

mod support;

use std::path::Path;
use std::process::{Command, ExitCode};

use support::*;

fn main() -> ExitCode {
    run(
        "layers over the pages",
        vec![
            needs_root("truncated::is_not_evicted", truncated_is_not_evicted),
            needs_root("overlay::by_the_layer_below", overlay),
            needs_root("overlay::stat_by_name", overlay_by_name),
        ],
    )
}

fn truncated_is_not_evicted() {
    let scratch = Scratch::new();
    let file = scratch.path("rewritten");
    let rewrite = "for round in 1 2 3; do dd if=/dev/zero of=\"$1\" bs=65536 count=16; done";
    let report = report_of(
        &[],
        [
            "sh",
            "-c",
            rewrite,
            "sh",
            file.to_str().expect("an ordinary name"),
        ],
    );
    let row = report.file(&file);
    let pages = (16 << 16) / page_size();
    assert_eq!(
        number(row, "write_pages"),
        3 * pages,
        "each round writes the whole file"
    );
    assert_eq!(
        number(row, "write_new_pages"),
        3 * pages,
        "into pages that were cut off before"
    );
    assert_eq!(
        number(row, "refault_pages"),
        0,
        "other data in the place of what was cut off has not come back"
    );
}

/// An overlay over a scratch directory, unmounted when it goes.
struct Overlay<'a> {
    scratch: &'a Scratch,
}

impl Overlay<'_> {
    fn over(scratch: &Scratch) -> Overlay<'_> {
        for directory in ["upper", "work", "merged"] {
            std::fs::create_dir(scratch.path(directory))
                .expect("a scratch directory can be filled");
        }
        let path = |name| scratch.path(name).display().to_string();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            path("lower"),
            path("upper"),
            path("work")
        );
        let status = Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options])
            .arg(scratch.path("merged"))
            .status()
            .expect("mount(8) can be run");
        assert!(status.success(), "root can mount an overlay");
        Overlay { scratch }
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg(self.scratch.path("merged"))
            .status();
    }
}

fn lower_file(scratch: &Scratch) -> std::path::PathBuf {
    std::fs::create_dir(scratch.path("lower")).expect("a scratch directory can be filled");
    scratch.file("lower/data", 4 << 20)
}

fn overlay() {
    let scratch = Scratch::new();
    let below = lower_file(&scratch);
    let _overlay = Overlay::over(&scratch);
    let merged = scratch.path("merged/data");
    let pages = pages_of(&below);
    for block in ["bs=64k", "bs=4k"] {
        let asked = |path: &Path| {
            let input = format!("if={}", path.display());
            report_of(&[], ["dd", &input, "of=/dev/null", block])
        };
        warm(&below);
        let report = asked(&merged);
        let row = report.file(&below);
        assert_eq!(
            number(row, "read_pages"),
            pages,
            "{block}: every page once, of the lower file"
        );
        assert_eq!(
            number(row, "read_bytes"),
            4 << 20,
            "{block}: with the range of the call"
        );
    }
}

fn overlay_by_name() {
    let scratch = Scratch::new();
    lower_file(&scratch);
    let _overlay = Overlay::over(&scratch);
    let merged = scratch.path("merged/data");
    let name = merged.to_str().expect("an ordinary name");
    Ended::of(&mut cachewise(["stat", "--file", name, "0.1", "1"]))
        .expect(2, "its own inode never has a page: 0 would be a lie")
        .says("layer below", "the message says which file to name");
}
