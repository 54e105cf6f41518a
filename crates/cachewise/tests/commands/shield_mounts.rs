//! `shield`: files on FUSE, and on file systems that another one is mounted over.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_sys::cachestat;

use crate::shield::{MIB, Shielded, adds_up, pages, taken_or_held, text};
use crate::shield_metrics::{exposition, value};
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("fuse::its_files_are_never_opened", fuse),
        needs_root("fuse::a_mapped_file_is_never_opened", mapped_on_fuse),
        needs_root(
            "covered::files_are_dropped_once_there_is_a_way_to_them",
            covered,
        ),
    ]
}

const SIZE: u64 = 16 * MIB;

/// Resident pages of an open file: opening it again could drop them.
fn resident_of(file: &File) -> u64 {
    cachestat(file.as_fd(), None)
        .expect("root may ask")
        .cached
        .0
}

/// A file on FUSE, opened before a shield starts. Its server drops the pages whenever it is opened.
struct OnFuse {
    _mount: Bindfs,
    path: PathBuf,
    file: File,
}

impl OnFuse {
    fn new(scratch: &Scratch) -> Option<OnFuse> {
        let source = scratch.path("source");
        fs::create_dir(&source).expect("it is ours");
        scratch.file("source/data", SIZE);
        let mount = Bindfs::mount(scratch, &source, &[])?;
        let path = mount.directory().join("data");
        let file = File::open(&path).expect("it is there");
        Some(OnFuse {
            _mount: mount,
            path,
            file,
        })
    }
}

/// The shield's result in JSON, and as a table.
fn shielded_python(shielded: &Shielded, program: &str, path: &Path) -> (serde_json::Value, String) {
    let table = shielded.scratch.path("table");
    let target = format!("table={}", text(&table));
    let mut command = shielded.command(&["--writes", "-o", &target, "--"]);
    command.args(["python3", "-c", program]).arg(path);
    Ended::of(&mut command).expect(0, "the program ends well");
    let table = fs::read_to_string(table).expect("it was written");
    (shielded.read(), table)
}

/// All its pages are reported as those of FUSE, and stay: an opening after the program's own would have dropped them.
fn stays_on_fuse(name: &str, program: &str) {
    if Command::new("python3").arg("-V").output().is_err() {
        return println!("skipped: shield: {name}: python3 is not installed");
    }
    let shielded = Shielded::new();
    let Some(on_fuse) = OnFuse::new(&shielded.scratch) else {
        return;
    };
    let all = SIZE / page_size();
    undisturbed(|| {
        let (result, table) = shielded_python(&shielded, program, &on_fuse.path);
        let stays = resident_of(&on_fuse.file);
        adds_up(&result);
        let named = pages(&result, "fuse") + pages(&result, "reclaimed");
        assert!(named >= all, "they are named: {result:#}");
        assert!(
            table.contains("kept: on FUSE, whose files are not opened"),
            "{table}"
        );
        let files = result["files"].as_array().expect("files");
        let is_it = |file: &&serde_json::Value| file["path"] == text(&on_fuse.path);
        assert!(!files.iter().any(|file| is_it(&file)), "{result:#}");
        (stays == all).then_some(())
    });
}

fn fuse() {
    stays_on_fuse(
        "fuse",
        "import sys
with open(sys.argv[1], 'rb', buffering=0) as file:
    while file.read(1 << 17):
        pass
",
    );
}

/// It stays mapped while the shield looks for ways to the files of the program.
fn mapped_on_fuse() {
    stays_on_fuse(
        "mapped on fuse",
        "import mmap, os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
with mmap.mmap(file, 0, prot=mmap.PROT_READ) as view:
    sum(view[place] for place in range(0, len(view), 4096))
    time.sleep(0.7)
",
    );
}

/// A file system mounted over a directory until it is dropped.
struct Cover<'a>(&'a Path);

impl Cover<'_> {
    fn over(directory: &Path) -> Cover<'_> {
        let mut mount = Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "none"]).arg(directory).status();
        assert!(status.is_ok_and(|status| status.success()), "root may");
        Cover(directory)
    }
}

impl Drop for Cover<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// The reader is in the directory, and so still gets to its file, which is smaller than what wakes the shield: `cat` has
/// ended when the shield looks for a way.
fn covered() {
    let shielded = Shielded::new();
    let Some(mounted) = Mounted::ext4(&shielded.scratch, 64 * MIB, &[]) else {
        return;
    };
    let name = mounted.path("data");
    shielded.scratch.file(&name, MIB);
    mounted.make_cold();
    let file = File::open(&name).expect("it is there");
    let script = "cd \"$1\"; echo ready; read -r _; cat data >/dev/null; echo done; read -r _";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(mounted.directory());
    let mut reader = Started::of(command.stdin(Stdio::piped()));
    assert_eq!(reader.line().as_deref(), Some(&b"ready\n"[..]));
    let target = shielded.scratch.path("shield.prom");
    let pid = reader.pid().to_string();
    let metrics = format!("openmetrics={}", text(&target));
    let options = ["-p", &pid, "--interval", "50ms", "-o", &metrics];
    let cover = Cover::over(mounted.directory());
    let mut shield = Started::of(&mut shielded.command(&options));
    shield.until_thread("shield");
    let mut stdin = reader.child.stdin.take().expect("it was asked for");
    writeln!(stdin).expect("the reader listens");
    assert_eq!(reader.line().as_deref(), Some(&b"done\n"[..]));
    let all = MIB / page_size();
    until("the shield has found no way to the file", || {
        let text = exposition(&target)?;
        let inserted = value(&text, "cachewise_shield_pages{fate=\"inserted\"}")?;
        let can_be_dropped = value(&text, "cachewise_shield_resident_pages")?;
        (inserted >= all && can_be_dropped == 0).then_some(())
    });
    drop(cover);
    until("the file is dropped", || {
        (resident_of(&file) == 0).then_some(())
    });
    drop(stdin);
    assert_eq!(reader.wait().code(), 1, "its input has ended");
    shield.wait().expect(0, "the shield ends with it");
    let result = shielded.read();
    adds_up(&result);
    let dropped = pages(&result, "dropped");
    assert!(dropped > 0, "a reclaimer took all of it: {result:#}");
    assert!(dropped + taken_or_held(&result) >= all, "{result:#}");
    drop(file);
}
