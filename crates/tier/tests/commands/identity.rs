//! Origins whose times do not tell states of a file apart: refused, or named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mounted::{Mounted, bytes_of, has_fuse, origin};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("identity::images_at_one_path_give_their_own_bytes", images),
        needs_root(
            "identity::an_image_below_the_origin_is_refused",
            image_below,
        ),
        needs_root("identity::overlays_of_an_image_are_refused", overlays),
        plain("identity::fuse_without_a_name_is_refused", fuse),
        plain("identity::empty_name_is_refused", empty_name),
    ]
}

/// A command on a file of an origin, with blocks on a disk.
fn tier(command: &str, disk: &Path, more: &[&str], origin: &Path, name: &str) -> Ended {
    let mut line = cachewise([command]);
    line.arg("--disk").arg(disk).args(["--disk-size", "64M"]);
    line.args(more).arg(origin).arg(name);
    Ended::of(&mut line)
}

/// An image of squashfs with one file `data`, all of whose times are fixed.
fn image(scratch: &Scratch, number: usize) -> Option<PathBuf> {
    let files = scratch.directory().join(format!("files{number}"));
    fs::create_dir(&files).expect("made");
    fs::write(files.join("data"), bytes_of(number, 200_000)).expect("written");
    let image = scratch.directory().join(format!("image{number}"));
    let made = Command::new("mksquashfs")
        .args([&files, &image])
        .args([
            "-noappend",
            "-no-progress",
            "-all-root",
            "-all-time",
            "0",
            "-mkfs-time",
            "0",
        ])
        .output();
    made.is_ok_and(|output| output.status.success())
        .then_some(image)
}

/// An image that is mounted; unmounted when this is dropped.
struct OfImage<'a>(&'a Path);

impl<'a> OfImage<'a> {
    fn new(image: &Path, at: &'a Path) -> Option<Self> {
        fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount")
            .args(["-t", "squashfs", "-o", "loop,ro"])
            .args([image, at])
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(at))
    }
}

impl Drop for OfImage<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn images() {
    let scratch = Scratch::new();
    let (Some(one), Some(two)) = (image(&scratch, 1), image(&scratch, 2)) else {
        println!("skipped: images at one path: mksquashfs (squashfs-tools) is not installed");
        return;
    };
    let at = scratch.directory().join("image");
    let disk = scratch.directory().join("disk");
    for (number, image) in [(1, &one), (2, &two)] {
        let Some(_mounted) = OfImage::new(image, &at) else {
            println!("skipped: images at one path: squashfs cannot be mounted");
            return;
        };
        for command in ["get", "warm", "verify"] {
            tier(command, &disk, &[], &at, "data")
                .expect(2, "nothing tells its states apart")
                .says("squashfs does not store the time of last change", "why")
                .says("--identity NAME", "what to do");
        }
        let directory = scratch.directory().join("mnt");
        fs::create_dir_all(&directory).expect("made");
        Ended::of(cachewise(["mount"]).args([&at, &directory]))
            .expect(2, "a mount is refused too")
            .says("--identity NAME", "what to do");
        let name = format!("image {number}");
        for _ in 0..2 {
            let whole = tier("get", &disk, &["--identity", &name], &at, "data");
            let whole = whole.expect(0, "it has a name");
            assert!(
                whole.out == bytes_of(number, 200_000),
                "the bytes of {name}"
            );
        }
        let settings = scratch.directory().join("settings");
        fs::write(&settings, format!("identity = \"{name}\"\n")).expect("written");
        let settings = settings.to_str().expect("ours");
        let whole = tier("get", &disk, &["--settings", settings], &at, "data");
        let whole = whole.expect(0, "a key of a settings file names it as well");
        assert!(
            whole.out == bytes_of(number, 200_000),
            "the bytes of {name}"
        );
    }
}

fn image_below() {
    let scratch = Scratch::new();
    let Some(image) = image(&scratch, 1) else {
        println!("skipped: an image below an origin: mksquashfs is not installed");
        return;
    };
    let origin = origin(&scratch, 1, 1_000);
    let below = origin.join("below");
    let disk = scratch.directory().join("disk");
    let Some(_mounted) = OfImage::new(&image, &below) else {
        println!("skipped: an image below an origin: squashfs cannot be mounted");
        return;
    };
    tier("get", &disk, &[], &origin, "f/0").expect(0, "what lies beside it is read");
    tier("get", &disk, &[], &origin, "below/data")
        .expect(2, "nothing tells its states apart")
        .says("below/data: squashfs does not store", "which and why");
    let named = tier("get", &disk, &["--identity", "all"], &origin, "below/data");
    let named = named.expect(0, "the name stands for all of it");
    assert!(named.out == bytes_of(1, 200_000), "its bytes");
}

/// An overlay that is only read; unmounted when this is dropped.
struct Overlay<'a>(&'a Path);

impl<'a> Overlay<'a> {
    fn new(lower: &str, at: &'a Path) -> Option<Self> {
        fs::create_dir_all(at).expect("made");
        let mounted = Command::new("mount")
            .args(["-t", "overlay", "none", "-o", lower])
            .arg(at)
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(at))
    }
}

impl Drop for Overlay<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

fn overlays() {
    let scratch = Scratch::new();
    let Some(image) = image(&scratch, 1) else {
        println!("skipped: an overlay of an image: mksquashfs is not installed");
        return;
    };
    let directory = scratch.directory();
    // A name that is escaped among the options of a mount.
    let (layer, empty) = (directory.join("im:age"), directory.join("empty"));
    fs::create_dir(&empty).expect("made");
    let Some(_image) = OfImage::new(&image, &layer) else {
        println!("skipped: an overlay of an image: squashfs cannot be mounted");
        return;
    };
    let empty = empty.display().to_string();
    let escaped = layer.display().to_string().replace(':', "\\:");
    let (inner, outer) = (directory.join("inner"), directory.join("outer"));
    let Some(_inner) = Overlay::new(&format!("lowerdir={empty}:{escaped}"), &inner) else {
        println!("skipped: an overlay of an image: overlayfs cannot be mounted");
        return;
    };
    let nested = format!("lowerdir={empty}:{}", inner.display());
    let Some(_outer) = Overlay::new(&nested, &outer) else {
        println!("skipped: an overlay of an overlay cannot be mounted");
        return;
    };
    let disk = directory.join("disk");
    for origin in [&inner, &outer] {
        tier("get", &disk, &[], origin, "data")
            .expect(2, "nothing tells its states apart")
            .says("overlay over a file system", "why")
            .says("--identity NAME", "what to do");
    }
}

fn fuse() {
    if !has_fuse("an origin of FUSE") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 200_000);
    let disk = scratch.directory().join("disk");
    let mounted = Mounted::new(&scratch, &origin, &[]);
    tier("get", &disk, &[], &mounted.directory, "f/0")
        .expect(2, "its server may say any times")
        .says("fuse does not store the time of last change", "why")
        .says("--identity NAME", "what to do");
    let named = tier(
        "get",
        &disk,
        &["--identity", "a"],
        &mounted.directory,
        "f/0",
    );
    let named = named.expect(0, "it has a name");
    assert!(named.out == bytes_of(0, 200_000), "its bytes");
}

fn empty_name() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1_000);
    let disk = scratch.directory().join("disk");
    let file = scratch.directory().join("settings.toml");
    fs::write(&file, "identity = \"\"\n").expect("written");
    let file = file.to_str().expect("plain");
    for more in [["--identity", ""], ["--settings", file]] {
        tier("get", &disk, &more, &origin, "f/0")
            .expect(2, "it names nothing")
            .says("identity: empty: name the files", "cause and fix");
    }
}
