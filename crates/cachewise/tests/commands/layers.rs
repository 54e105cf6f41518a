//! Layers between system calls and pages: a file that is truncated and rewritten, a file of an overlay, whose pages
//! belong to the file in the lower layer, metadata of a file system, and subvolumes, each with its own device and the
//! same inode numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("truncated::is_not_evicted", truncated_is_not_evicted),
        needs_root("overlay::by_the_layer_below", overlay),
        needs_root("overlay::stat_by_name", overlay_by_name),
        needs_root("metadata::a_cold_walk_is_named", a_cold_walk_is_named),
        needs_root("device::writes_are_unknown", device_writes),
        needs_root("subvolume::has_its_own_device", subvolume),
        needs_root("subvolume::in_the_place_of_another", another_subvolume),
    ]
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

/// Buffered writes to a block device are no event: unknown, and never 0.
fn device_writes() {
    let scratch = Scratch::new();
    let image = scratch.path("image");
    std::fs::write(&image, vec![0; 4 << 20]).expect("a scratch directory can be filled");
    let device = LoopDevice::over(&image);
    let target = format!("of={}", device.path.display());
    let dd = [
        "dd",
        "if=/dev/zero",
        &target,
        "bs=262144",
        "count=4",
        "conv=notrunc",
    ];
    let report = report_of(&[], dd);
    let row = report.file(&device.path);
    for counter in ["write_requests", "write_bytes", "write_pages"] {
        assert!(row[counter].is_null(), "{counter} is not known: {row}");
    }
    assert_eq!(
        number(row, "write_new_pages"),
        (1 << 20) / page_size(),
        "what came into the cache is"
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
            number(row, "read_requested_pages"),
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

fn a_cold_walk_is_named() {
    const DIRECTORIES: u64 = 2000;
    let scratch = Scratch::new();
    let Some(mounted) = Mounted::ext4(&scratch, 256 << 20, &[]) else {
        return;
    };
    for number in 0..DIRECTORIES {
        let directory = mounted.path(&number.to_string());
        std::fs::create_dir(directory).expect("the image has room");
    }
    mounted.make_cold();
    let walk = || {
        let directory = mounted.directory().to_str().expect("an ordinary name");
        report_of(&[], ["find", directory])
    };
    let cold = walk();
    let findings = cold.findings("cold_metadata");
    assert_eq!(findings.len(), 1, "it is said: {}", cold.json["totals"]);
    let pages = number(&findings[0]["figures"], "metadata_pages");
    assert!(
        pages >= DIRECTORIES,
        "each directory has a block of its own: {pages}"
    );
    assert_eq!(
        findings[0]["subject"],
        mounted.device().to_str().expect("an ordinary name"),
        "of this device"
    );
    // The next walk finds it in memory, unless a reclaimer was there between them.
    let warm = undisturbed(|| {
        let again = walk();
        again.findings("cold_metadata").is_empty().then_some(again)
    });
    cold.adds_up();
    warm.adds_up();
}

/// A btrfs with two subvolumes, `one` and `two`, unmounted when it goes.
struct Subvolumes<'a> {
    scratch: &'a Scratch,
}

impl Subvolumes<'_> {
    fn on(scratch: &Scratch) -> Option<Subvolumes<'_>> {
        let image = scratch.path("image");
        let file = std::fs::File::create(&image).expect("a scratch directory can be filled");
        // mkfs.btrfs refuses less than 109 MiB; the file is sparse.
        file.set_len(128 << 20)
            .expect("a sparse file takes no room");
        std::fs::create_dir(scratch.path("btrfs")).expect("a scratch directory can be filled");
        let script = "mkfs.btrfs -q \"$1\" && mount -t btrfs -o loop \"$1\" \"$2\"";
        if !shell(script, &[&image, &scratch.path("btrfs")]) {
            println!("skipped: subvolumes: there is no mkfs.btrfs, or no btrfs in this kernel");
            return None;
        }
        let subvolumes = Subvolumes { scratch };
        for name in ["one", "two"] {
            let create = "btrfs subvolume create \"$1\"";
            assert!(
                shell(create, &[&subvolumes.path(name)]),
                "a subvolume can be made"
            );
            scratch.file(subvolumes.path(name).join("data"), 1 << 20);
        }
        Some(subvolumes)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("btrfs").join(name)
    }
}

impl Drop for Subvolumes<'_> {
    fn drop(&mut self) {
        shell("umount \"$1\"", &[&self.scratch.path("btrfs")]);
    }
}

fn shell(script: &str, arguments: &[&Path]) -> bool {
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .args(arguments)
        .output()
        .expect("there is a shell");
    output.status.success()
}

fn subvolume() {
    let scratch = Scratch::new();
    let Some(subvolumes) = Subvolumes::on(&scratch) else {
        return;
    };
    let files = ["one", "two"].map(|name| subvolumes.path(name).join("data"));
    let inodes = files.each_ref().map(|file| {
        use std::os::unix::fs::MetadataExt;
        file.metadata().expect("it was made").ino()
    });
    assert_eq!(
        inodes[0], inodes[1],
        "each subvolume counts its inodes by itself"
    );
    let report = report_of(&[], ["cat".as_ref(), files[0].as_path(), &files[1]]);
    for file in &files {
        let row = report.file(file);
        assert_eq!(
            number(row, "read_requested_pages"),
            pages_of(file),
            "each by itself"
        );
        assert!(
            row["resident_after_pages"].is_u64(),
            "the file of that name is the one that was read: {row}"
        );
    }
}

fn another_subvolume() {
    let scratch = Scratch::new();
    let Some(subvolumes) = Subvolumes::on(&scratch) else {
        return;
    };
    let directory = subvolumes.path("");
    let directory = directory.to_str().expect("an ordinary name");
    let change = "cd \"$1\" && cat one/data && mv one old && mv two one";
    let report = report_of(&[], ["sh", "-c", change, "sh", directory]);
    let row = report.file(&subvolumes.path("one").join("data"));
    assert_eq!(
        row["reasons"]["resident_after_pages"], "another file has its name now",
        "the same name and the same inode number on another device: {row}"
    );
}
