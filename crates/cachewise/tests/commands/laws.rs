//! `run -v`: the laws of rows hold for real programs on real file systems.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachewise_units::ByteRange;

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("ext4::laws_hold", || laws_hold("ext4")),
        needs_root("xfs::laws_hold", || laws_hold("xfs")),
        needs_root("btrfs::laws_hold", || laws_hold("btrfs")),
        needs_root(
            "looking::changes_no_residency",
            looking_changes_no_residency,
        ),
        needs_root("text::checks_are_counted", checks_are_counted),
        needs_root(
            "text::unasked_rows_are_not_checked",
            unasked_rows_are_not_checked,
        ),
        needs_root("others::their_pages_are_counted", others_pages_are_counted),
        needs_root("reclaim::laws_hold", laws_hold_under_reclaim),
        needs_root("threads::laws_hold", laws_hold_for_threads),
        needs_root("following::laws_hold", laws_hold_for_a_followed_process),
        needs_root("running::is_not_checked", running_is_not_checked),
    ]
}

/// A file system in an image, unmounted when it goes.
struct Image {
    scratch: Scratch,
}

impl Image {
    fn of(kind: &str) -> Option<Image> {
        let scratch = Scratch::new();
        let image = scratch.path("image");
        // mkfs.xfs refuses less than 300 MB; the file is sparse.
        let size = std::fs::File::create(&image).and_then(|file| file.set_len(320 << 20));
        size.expect("a scratch directory can be filled");
        std::fs::create_dir(scratch.path("mounted")).expect("a scratch directory can be filled");
        let path = std::env::var("PATH").unwrap_or_default();
        let made = Command::new(format!("mkfs.{kind}"))
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .arg("-q")
            // Blocks of a page, which ext4 has on large disks alone unless told.
            .args(if kind == "ext4" {
                &["-b", "4096"][..]
            } else {
                &[]
            })
            .arg(&image)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
        if !made.is_ok_and(|status| status.success()) {
            println!("skipped: laws on {kind}: there is no mkfs.{kind}");
            return None;
        }
        let mounted = Command::new("mount")
            .args(["-t", kind, "-o", "loop"])
            .arg(&image)
            .arg(scratch.path("mounted"))
            .status()
            .expect("mount(8) can be run");
        if !mounted.success() {
            println!("skipped: laws on {kind}: this kernel does not mount it");
            return None;
        }
        Some(Image { scratch })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("mounted").join(name)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg(self.scratch.path("mounted"))
            .status();
    }
}

fn laws_of<'a>(report: &'a Report, id: &str) -> Vec<&'a Value> {
    let laws = report.json["laws"].as_array().expect("a report has laws");
    laws.iter().filter(|law| law["id"] == id).collect()
}

/// The law of residency of a file.
#[track_caller]
fn residency<'a>(report: &'a Report, path: &Path) -> &'a Value {
    let path = path.to_str().expect("an ordinary name");
    laws_of(report, "residency")
        .into_iter()
        .find(|law| law["subject"] == path)
        .unwrap_or_else(|| panic!("{path} has a law: {}", report.json["laws"]))
}

/// Fails if any law is violated, or the law of the file's residency was not checked.
#[track_caller]
fn holds(report: &Report, path: &Path) {
    for law in report.json["laws"].as_array().expect("a report has laws") {
        assert_ne!(law["status"], "violated", "{law}");
    }
    assert_eq!(
        residency(report, path)["status"],
        "ok",
        "{}",
        residency(report, path)
    );
    assert_eq!(
        report.json["backend"]["exactness"], "exact",
        "{}",
        report.json["lost"]
    );
}

fn shell(script: &str, file: &Path) -> Report {
    let file = file.to_str().expect("an ordinary name");
    report_of(&["-v"], ["sh", "-c", script, "sh", file])
}

fn laws_hold(kind: &str) {
    let Some(image) = Image::of(kind) else {
        return;
    };
    let file = image
        .scratch
        .file(Path::new("mounted").join("data"), 4 << 20);
    let page = page_size();

    evict(&file);
    let report = report_of(&["-v"], ["cat".as_ref(), file.as_path()]);
    holds(&report, &file);
    let law = residency(&report, &file);
    assert_eq!(
        law["left"][1]["value"],
        1024 * 4096 / page,
        "all of it came in: {law}"
    );
    let least = laws_of(&report, "device_bytes_least");
    assert!(
        least
            .iter()
            .any(|law| law["status"] == "ok" && law["left"][0]["value"].as_u64() >= Some(4 << 20)),
        "the device read the file: {least:?}"
    );
    assert_eq!(least[0]["scope"], "process");
    assert_eq!(least[0]["unit"], "bytes");

    // Again, with all of it there: nothing comes in.
    let report = report_of(&["-v"], ["cat".as_ref(), file.as_path()]);
    holds(&report, &file);

    evict(&file);
    let direct = "dd if=\"$1\" of=/dev/null bs=65536 iflag=direct status=none";
    let report = shell(direct, &file);
    holds(&report, &file);
    let row = report.file(&file);
    // btrfs reads through the cache where the memory to read into is not there so far.
    let (direct, through) = (number(row, "direct_read_bytes"), number(row, "read_bytes"));
    assert_eq!(direct + through, 4 << 20, "{kind}: {row}");
    assert!(direct > 0, "{kind}: {row}");

    let new = image.path("new");
    let write = "dd if=/dev/zero of=\"$1\" bs=65536 count=16 status=none";
    let report = shell(write, &new);
    holds(&report, &new);
    let report = shell(
        "dd if=/dev/zero of=\"$1\" bs=1000 seek=3 count=9 conv=notrunc status=none",
        &new,
    );
    holds(&report, &new);

    let report = shell("cat \"$1\"; truncate -s 100000 \"$1\"; cat \"$1\"", &new);
    holds(&report, &new);
    assert!(number(report.file(&new), "evicted_other_pages") > 0);

    let drop = "cat \"$1\"; sync \"$1\"; dd if=\"$1\" iflag=nocache count=0 status=none; dd if=\"$1\" of=/dev/null bs=4096 count=3 skip=20 status=none";
    let report = shell(drop, &file);
    holds(&report, &file);
    assert!(number(report.file(&file), "evicted_other_pages") > 0);

    // Only a part of it is read, in an odd order.
    evict(&file);
    let odd = "for at in 900 3 500 500 77; do dd if=\"$1\" of=/dev/null bs=4096 count=2 skip=$at status=none; done";
    let report = shell(odd, &file);
    holds(&report, &file);

    let deleted = image.path("deleted");
    let report = shell("cat /etc/passwd > \"$1\"; cat \"$1\"; rm \"$1\"", &deleted);
    let law = residency(&report, &deleted);
    assert_eq!(law["status"], "not_checked");
    assert_eq!(law["reason"], "the file is gone", "{law}");
    assert_eq!(law["reason_code"], "unknown", "{law}");
}

fn checks_are_counted() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    evict(&file);
    let mut run = cachewise(["run", "-v", "--", "cat"]);
    let ended = Ended::of(run.arg(&file)).expect(0, "cat succeeds");
    let err = ended.err();
    assert!(err.contains(" checked, 0 violated"), "{err}");
    let line = format!("adds up: {}:", file.display());
    assert!(err.contains(&line), "{line}: {err}");
    assert!(err.contains("exact to the page"), "{err}");
    assert!(!err.contains("DOES NOT ADD UP"), "{err}");
}

fn unasked_rows_are_not_checked() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let report = report_of(&[], ["cat".as_ref(), file.as_path()]);
    for id in ["residency", "device_bytes_least", "device_bytes_most"] {
        assert!(laws_of(&report, id).is_empty(), "{id} needs -v");
    }
}

/// Pages that a process outside of the run brings into the file's cache are no contradiction.
fn others_pages_are_counted() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    evict(&file);
    let pipe = scratch.path("pipe");
    let back = scratch.path("back");
    for pipe in [&pipe, &back] {
        let made = Command::new("mkfifo").arg(pipe).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "mkfifo can make a pipe"
        );
    }
    let line = |path: &Path| path.to_str().expect("an ordinary name").to_owned();
    let (file_name, pipe_name, back_name) = (line(&file), line(&pipe), line(&back));
    // Opening a pipe waits for its other end: the run reads a page, the other the rest, and the run again.
    let reader = Started::of(
        Command::new("sh")
            .args(["-c", ": < \"$2\"; cat \"$1\" > /dev/null; : > \"$3\"", "sh"])
            .args([&file_name, &pipe_name, &back_name]),
    );
    let script =
        "dd if=\"$1\" of=/dev/null bs=4096 count=1 status=none; : > \"$2\"; : < \"$3\"; cat \"$1\"";
    let report = report_of(
        &["-v"],
        ["sh", "-c", script, "sh", &file_name, &pipe_name, &back_name],
    );
    reader.wait().expect(0, "the other reads the file");
    holds(&report, &file);
    let law = residency(&report, &file);
    let others = law["left"].as_array().and_then(|left| left.get(2));
    let others = others.expect("the other inserted pages");
    assert_eq!(others["name"], "inserted by others");
    assert!(others["value"].as_u64() > Some(0), "{law}");
}

/// The file of a process that goes on is not settled.
fn running_is_not_checked() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let pids = scratch.path("pid");
    let script = "{ cat \"$1\" > /dev/null; exec sleep 1000; } < /dev/null > /dev/null 2>&1 & echo $! > \"$2\"; \
        n=0; until [ \"$(cat /proc/$!/comm)\" = sleep ] || [ $n = 10000 ]; do n=$((n+1)); done";
    let report = report_of(
        &["-v"],
        [
            "sh",
            "-c",
            script,
            "sh",
            file.to_str().expect("an ordinary name"),
            pids.to_str().expect("an ordinary name"),
        ],
    );
    let pid = std::fs::read_to_string(&pids).expect("the script wrote it");
    let pid = pid.trim().parse().expect("it is a number");
    let sleeping = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    signal(pid, rustix::process::Signal::KILL);
    assert_eq!(sleeping.expect("it sleeps").trim(), "sleep");
    for law in report.json["laws"].as_array().expect("a report has laws") {
        assert_ne!(law["status"], "violated", "{law}");
    }
    let codes: Vec<&Value> = laws_of(&report, "residency")
        .into_iter()
        .map(|law| &law["reason_code"])
        .collect();
    assert!(
        codes.iter().any(|code| *code == "still_running"),
        "{codes:?}"
    );
}

/// Pages that reclaim takes while they are read and written, in a group with less memory than the files.
fn laws_hold_under_reclaim() {
    let scratch = Scratch::new();
    let Some(group) = Group::new().filter(|group| group.limit_memory(32 << 20).is_some()) else {
        println!("skipped: laws under reclaim: no control group with a limit can be made");
        return;
    };
    let file = scratch.file("data", 64 << 20);
    let new = scratch.path("new");
    evict(&file);
    let name = |path: &Path| path.to_str().expect("an ordinary name").to_owned();
    let procs = group.path().join("cgroup.procs");
    let script = "echo $$ > \"$3\"; cat \"$1\" \"$1\" > /dev/null; \
        dd if=/dev/zero of=\"$2\" bs=1M count=48 status=none; cat \"$1\" > /dev/null";
    let report = report_of(
        &["-v"],
        [
            "sh",
            "-c",
            script,
            "sh",
            &name(&file),
            &name(&new),
            &name(&procs),
        ],
    );
    holds(&report, &file);
    holds(&report, &new);
    let evicted = number(report.file(&file), "evicted_reclaim_pages");
    assert!(evicted > 0, "{}", report.file(&file));
}

/// Threads and processes that read, map, prefetch and evict the same cold files at once.
fn laws_hold_for_threads() {
    let scratch = Scratch::new();
    let files = ["one", "two"].map(|name| scratch.file(name, 8 << 20));
    for file in &files {
        evict(file);
    }
    let directory = scratch.directory().to_str().expect("an ordinary name");
    let script = "cd \"$1\"; for reader in 1 2 3 4; do cat one two > /dev/null & \
        dd if=two of=/dev/null bs=4096 iflag=nocache status=none & done; wait";
    let report = report_of(&["-v"], ["sh", "-c", script, "sh", directory]);
    for law in report.json["laws"].as_array().expect("a report has laws") {
        assert_ne!(law["status"], "violated", "{law}");
    }
    assert_eq!(report.json["backend"]["exactness"], "exact");
    for file in &files {
        // Several at once can have made the first use.
        let law = residency(&report, file);
        let is_checked = law["status"] == "ok";
        assert!(
            is_checked || law["reason_code"] == "concurrent_first_use",
            "{law}"
        );
    }
}

/// A process that ran before has no upper bound, and its file, which it still has, is not settled.
fn laws_hold_for_a_followed_process() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 20);
    let script = "while :; do cat \"$1\"; dd if=\"$1\" iflag=nocache count=0 status=none; echo; done > /dev/null";
    let reader = Started::of(
        Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&file)
            .stdin(std::process::Stdio::null()),
    );
    let out = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let mut target = std::ffi::OsString::from("json=");
    target.push(out.path());
    let pid = reader.pid().to_string();
    let mut run = cachewise(["run", "-v", "-d", "2", "-p", &pid, "-o"]);
    let ended = Ended::of(run.arg(target)).expect(0, "it follows");
    reader.signal(rustix::process::Signal::KILL);
    let report = Report::read(out.path(), ended);
    for law in report.json["laws"].as_array().expect("a report has laws") {
        assert_ne!(law["status"], "violated", "{law}");
    }
    let most = laws_of(&report, "device_bytes_most");
    assert!(!most.is_empty(), "the reader reads its device");
    let codes: Vec<&Value> = most.iter().map(|law| &law["reason_code"]).collect();
    assert!(
        codes
            .iter()
            .all(|code| *code == "followed" || *code == "still_running"),
        "{codes:?}"
    );
}

/// A page of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Resident,
    /// Memory reclaim, which leaves an entry in its place, has evicted it.
    Reclaimed,
    Absent,
}

/// The pages of a file, each by a cachestat(2) of its own.
fn pages(path: &Path) -> Vec<Page> {
    let file = std::fs::File::open(path).expect("it can be opened");
    let page = page_size();
    let look = |number: u64| {
        let range = Some(ByteRange {
            start: number * page,
            len: page,
        });
        let found = cachewise_sys::cachestat(file.as_fd(), range).expect("root may ask");
        match (found.cached.0, found.evicted.0) {
            (0, 0) => Page::Absent,
            (0, _) => Page::Reclaimed,
            _ => Page::Resident,
        }
    };
    (0..pages_of(path)).map(look).collect()
}

/// A file of which every third page is resident, without readahead.
fn partly_read(file: &Path) {
    evict(file);
    let opened = std::fs::File::open(file).expect("it can be opened");
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::Random).expect("the advice is taken");
    for page in (0..pages_of(file)).step_by(3) {
        let read = opened.read_at(&mut [0; 8], page * page_size());
        assert_eq!(read.expect("it can be read"), 8);
    }
}

/// The run reads a page that is resident. All else is as it was: of the file, and of one that it does not use.
fn looking_changes_no_residency() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(image) = Image::of(kind) else {
            continue;
        };
        let files = ["used", "unused"].map(|name| {
            let file = image.scratch.file(Path::new("mounted").join(name), 1 << 20);
            partly_read(&file);
            file
        });
        let before = files.each_ref().map(|file| pages(file));
        let is_resident = |page: &&Page| **page == Page::Resident;
        let resident = before[0].iter().filter(is_resident).count();
        assert!(
            resident > 0 && resident < before[0].len(),
            "{kind}: a part of it: {resident}"
        );
        let report = shell(
            "dd if=\"$1\" of=/dev/null bs=4096 count=1 status=none",
            &files[0],
        );
        let after = files.each_ref().map(|file| pages(file));
        assert_eq!(report.file(&files[0])["read_hit_pages"], 1, "{kind}");
        for (file, (before, after)) in files.iter().zip(before.iter().zip(&after)) {
            for (number, (before, after)) in before.iter().zip(after).enumerate() {
                // Memory that others need is reclaimed whenever they need it.
                let is_reclaimed = (*before, *after) == (Page::Resident, Page::Reclaimed);
                assert!(
                    before == after || is_reclaimed,
                    "{kind}: page {number} of {}: {before:?} became {after:?}",
                    file.display()
                );
            }
        }
    }
}
