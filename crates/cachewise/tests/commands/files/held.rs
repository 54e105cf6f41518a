//! The files of processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::MemfdFlags;

use super::stand::*;
use crate::support::*;

/// This process has a file open, one that is deleted, and memory with a descriptor.
pub fn by_this_process() {
    let scratch = Scratch::new();
    let (kept, gone) = (
        scratch.file("kept", 3 * page_size()),
        scratch.file("gone", 5 * page_size()),
    );
    let (_kept, _gone) = (File::open(&kept), File::open(&gone));
    fs::remove_file(&gone).expect("it is ours");
    let memory = rustix::fs::memfd_create(c"held", MemfdFlags::CLOEXEC).expect("memory can be had");
    let mut memory = File::from(memory);
    memory
        .write_all(&vec![1; 2 * page_size() as usize])
        .expect("there is room");
    let pid = std::process::id().to_string();
    let ended = Ended::of(&mut files([
        "-p",
        &pid,
        "-p",
        &pid,
        "--json",
        "--columns",
        "file_pages,note,path",
    ]));
    // Libraries belong to root: other users see that they are mapped, and not their residency.
    let code = match rustix::process::geteuid().is_root() {
        true => 0,
        false => 2,
    };
    let document = document(&ended.expect(code, "a process may ask about itself"));
    for (path, pages, notes) in [
        (&kept as &Path, 3, &["descriptor"][..]),
        (&gone, 5, &["descriptor", "deleted"]),
        (
            Path::new("[memory]/memfd:held"),
            2,
            &["descriptor", "deleted"],
        ),
    ] {
        let row = row_of(&document, path);
        assert_eq!(
            row["file_pages"], pages,
            "once, however often it is held: {row}"
        );
        let note = row["note"].as_str().expect("how it is held");
        for part in notes {
            assert!(note.contains(part), "{part}: {row}");
        }
    }
    let own = std::env::current_exe().expect("a program knows where it is");
    let row = row_of(&document, &own);
    assert!(
        row["note"]
            .as_str()
            .is_some_and(|note| note.starts_with("mapped")),
        "the program itself is mapped: {row}"
    );

    let ended = Ended::of(&mut files(["-p", &pid, "--include", "kept", "--json"]));
    let document = super::stand::document(&ended.expect(0, "one of them matches"));
    assert_eq!(
        document["rows"].as_array().map(Vec::len),
        Some(1),
        "patterns pick from them: {document}"
    );
}

/// A path of its namespace leads nowhere from here, and the file is asked about all the same.
pub fn in_another_mount_namespace() {
    let scratch = Scratch::new();
    let script =
        "mount -t tmpfs none \"$0\"; head -c 20000 /dev/zero >\"$0/file\"; exec 7<\"$0/file\"";
    let elsewhere = Elsewhere::with(&scratch, "elsewhere", script);
    let path = elsewhere.directory().join("file");
    assert!(!path.exists(), "it is not seen from here");
    let pid = elsewhere.pid().to_string();
    let ended = Ended::of(&mut files(["-p", &pid, "--json"])).expect(0, "root may ask");
    let document = document(&ended);
    let pages = 20_000_u64.div_ceil(page_size());
    assert_eq!(
        row_of(&document, &path)["resident_pages"],
        pages,
        "under the path that the process knows"
    );
    let ended = Ended::of(&mut files([
        "-p",
        &pid,
        "--map",
        "--json",
        "--include",
        "elsewhere/file",
    ]));
    let document = super::stand::document(&ended.expect(0, "root may ask"));
    assert_eq!(
        row_of(&document, &path)["last_page"],
        pages - 1,
        "its pages can be mapped, too"
    );
}

pub fn by_none() {
    // Beyond the largest there can be.
    let ended = Ended::of(&mut files(["-p", "4194305"]));
    ended
        .expect(2, "there is no such process")
        .says("process 4194305 does not exist", "it says so");
    let own = std::process::id().to_string();
    let ended = Ended::of(&mut files(["-p", "4194305", "-p", &own]));
    let ended = ended.expect(2, "one of two is missing");
    assert!(
        ended.out().contains("mapped"),
        "the other is shown: {}",
        ended.out()
    );
}

pub fn by_others() {
    let scratch = Scratch::new();
    let mut command = files_as_nobody(&scratch);
    Ended::of(
        command
            .args(["-p", &std::process::id().to_string()])
            .stdin(Stdio::null()),
    )
    .expect(2, "it is root's")
    .says("Permission denied", "why")
    .says("as its owner or as root", "and what to do");
    // Root without the right to look into others, as in a container.
    let mut held = Command::new("sleep");
    let held = Started::of(held.arg("1000"));
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"])
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .args(["files", "-p", &held.pid().to_string()]);
    let ended = Ended::of(command.stdin(Stdio::null())).expect(2, "the kernel refuses");
    assert!(
        !ended.err().contains("as root"),
        "root is not told to be root: {}",
        ended.err()
    );
    ended
        .says(&format!("{} (sleep)", held.pid()), "of which process")
        .says("CAP_SYS_PTRACE", "and what it takes");
    drop(held);
    // The first kernel thread; in a namespace of processes there is none.
    if !std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim_end() == "kthreadd") {
        println!("skipped: what a kernel thread holds: none is seen from here");
        return;
    }
    Ended::of(&mut files(["-p", "2"]))
        .expect(0, "that it holds nothing is an answer")
        .says("has no file open or mapped", "and is said");
}
