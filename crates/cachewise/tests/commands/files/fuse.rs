//! Files of FUSE: no command that only looks changes what is resident of them.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_sys::cachestat;

use super::stand::*;
use crate::support::*;

/// A program that runs from there, and so has its file mapped; and a descriptor that was open before.
struct Mapped {
    path: PathBuf,
    file: File,
    running: Started,
}

impl Mapped {
    fn run(directory: &Path) -> Mapped {
        let path = directory.join("sleeper");
        let file = File::open(&path).expect("it is there");
        let running = Started::of(Command::new(&path).arg("1000").stdin(Stdio::null()));
        until("it runs its own file and sleeps", || {
            let state = fs::read_to_string(format!("/proc/{}/stat", running.pid())).ok()?;
            state.contains("(sleeper) S ").then_some(())
        });
        Mapped {
            path,
            file,
            running,
        }
    }

    /// Pages that are resident, with those that reclaim took: the kernel remembers these, and forgets
    /// what opening or invalidating drops.
    fn pages(&self) -> (u64, u64) {
        let found = cachestat(self.file.as_fd(), None).expect("root may ask");
        (found.cached.0, found.cached.0 + found.evicted.0)
    }
}

/// In each way in which a server lets the kernel cache.
pub fn looking_drops_no_page() {
    for options in [
        &[][..],
        &["-o", "kernel_cache"],
        &["-o", "auto_cache"],
        &["-o", "direct_io"],
    ] {
        let scratch = Scratch::new();
        let source = scratch.path("source");
        fs::create_dir(&source).expect("it is ours");
        copy_program(Path::new("/bin/sleep"), &source.join("sleeper"));
        let Some(mount) = Bindfs::mount(&scratch, &source, options) else {
            return;
        };
        let mapped = Mapped::run(mount.directory());
        let (cached, before) = mapped.pages();
        assert!(cached > 0, "{options:?}: what runs is resident");
        let pid = mapped.running.pid().to_string();
        let path = mapped.path.to_str().expect("an ordinary name");
        let directory = mount.directory().to_str().expect("an ordinary name");
        let snapshot = scratch.path("snapshot").display().to_string();
        for arguments in [
            &["files", path][..],
            &["files", directory],
            &["files", "--histogram", "--columns=where,inode,path", path],
            &["files", "--map", path],
            &["files", "--tree", directory],
            &["files", "--ncdu", directory],
            &["files", "-p", &pid],
            &["files", "--all", "-n", "0", "--include", path],
            &["snapshot", "save", &snapshot, directory],
            &["order", directory],
            &["order", "--unit", "range", path],
            &["warm", "--dry-run", path],
            &["evict", "--dry-run", directory],
            &["lock", "--dry-run", path],
            &["lock", "--follow", "--dry-run", "--include", path],
            &["compat", "fincore", path],
        ] {
            Ended::of(cachewise(arguments).stdin(Stdio::null()));
            let (_, after) = mapped.pages();
            assert_eq!(after, before, "{options:?}: {arguments:?} drops nothing");
        }
        if options.is_empty() {
            Ended::of(&mut files(["--evicted", "-n", "0", "--include", path]));
            assert_eq!(mapped.pages().1, before, "--evicted drops nothing");
            File::open(&mapped.path).expect("it is there");
            let (_, opened) = mapped.pages();
            assert!(
                opened < before,
                "opening it does, which is what all of this is about"
            );
        }
    }
}

/// The census counts files that are not opened; without it their residency is unknown.
pub fn pages_are_counted_by_the_census() {
    const PAGES: u64 = 37;
    let scratch = Scratch::new();
    let source = scratch.path("source");
    fs::create_dir(&source).expect("it is ours");
    for name in ["file", "other"] {
        scratch.file(Path::new("source").join(name), PAGES * page_size());
    }
    let Some(mount) = Bindfs::mount(&scratch, &source, &[]) else {
        return;
    };
    let path = mount.directory().join("file");
    let _pinned = pin(&path, PAGES);
    for root in [&path, mount.directory()] {
        let document = document(&Ended::of(files(["--json"]).arg(root)).expect(0, "root may ask"));
        let row = row_of(&document, &path);
        assert_eq!(number(row, "resident_pages"), PAGES, "all of it: {row}");
        assert_eq!(number(row, "file_pages"), PAGES, "of as many: {row}");
    }
    let whole = Ended::of(files(["--json"]).arg(mount.directory())).expect(0, "root may ask");
    let whole = document(&whole);
    let other = row_of(&whole, &mount.directory().join("other"));
    assert_eq!(number(other, "resident_pages"), 0, "nothing of the other");
    let ended = Ended::of(cachewise(["evict", "--json"]).arg(&path)).expect(0, "it can be evicted");
    let evicted = document(&ended);
    let row = row_of(&evicted, &path);
    assert_eq!(
        number(row, "resident_before_pages"),
        PAGES,
        "counted before it was opened: {row}"
    );

    let without = Ended::of(
        Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .args([env!("CARGO_BIN_EXE_cachewise"), "files", "--json"])
            .arg(&path)
            .stdin(Stdio::null()),
    )
    .expect(2, "without the census it is not known")
    .says("FUSE files are not opened", "and the reason is given");
    let without = document(&without);
    assert!(
        row_of(&without, &path)["resident_pages"].is_null(),
        "not 0: {without}"
    );
}
