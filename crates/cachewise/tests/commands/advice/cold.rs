//! Files and directories that are not resident when a program starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use crate::support::*;

/// A repository with this many files of one MiB, committed and on the disk.
pub fn repository(scratch: &Scratch, files: u32) -> PathBuf {
    let tree = scratch.path("repository");
    fs::create_dir(&tree).expect("a directory");
    for number in 0..files {
        let mut text = String::new();
        while (text.len() as u64) < MIB {
            text += &format!("line {} of file {number}\n", text.len());
        }
        fs::write(tree.join(format!("{number}.txt")), text).expect("a file");
    }
    git(&tree, &["init", "-q"]);
    git(&tree, &["add", "-A"]);
    tree
}

pub fn git(tree: &Path, words: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(tree).args(words).stdin(Stdio::null());
    Ended::of(&mut command).expect(0, "git works");
}

/// Its text files.
pub fn texts(tree: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(tree).expect("a directory").flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect()
}

/// Searches the tree for a word that it has not.
pub fn grep(tree: &Path) -> Report {
    report_of_shell("git -C \"$1\" grep -c needle; true", &[tree])
}

pub fn git_grep() {
    if !has(&["git"], "advice::git_grep") {
        return;
    }
    let scratch = Scratch::new();
    let tree = repository(&scratch, 24);
    let texts = texts(&tree);
    texts.iter().for_each(|file| evict(file));
    let tree_name = tree.to_str().expect("an ordinary name");
    let fault = Fault {
        scenario: "git grep in a cold tree",
        rules: &["cold_start"],
        subject: Subject::In(&tree),
        figure: ("cold_pages", 24 * MIB / page_size()),
        fix: &[&format!("cachewise warm {tree_name} (")],
        amount: Amount::FetchedBelow(&tree),
        factor: 100,
        warm: &[],
    };
    let warm = || {
        let mut warm = cachewise(["warm"]);
        Ended::of(warm.arg(&tree)).expect(0, "the tree is prefetched");
        grep(&tree)
    };
    let finding = fault.check(|| grep(&tree), warm);
    assert!(
        number(&finding["figures"], "cold_files") >= 24,
        "the whole tree: {finding}"
    );
    assert!(
        number(&finding, "cost_bytes") >= 24 * MIB,
        "the cost is that of all cold files: {finding}"
    );
}

/// A program that reads a cold file: it is the cause, and resident it costs nothing.
pub fn cold<'a>(file: &'a Path, warm: &'a [&'a Path], scenario: &'a str) -> Fault<'a> {
    Fault {
        scenario,
        rules: &["cold_start"],
        subject: Subject::File(file),
        figure: ("cold_pages", pages_of(file)),
        fix: &["cachewise warm"],
        amount: Amount::Fetched(file),
        factor: 100,
        warm,
    }
}

fn copy_of_a_cold_file(program: &str, script: &str) {
    if !has(&[program], &format!("advice::copy by {program}")) {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let to = scratch.path("copy");
    let run = || {
        // No earlier copy: rsync would leave it as it is.
        let _ = fs::remove_file(&to);
        let report = report_of_shell(script, &[&file, &to]);
        let status = report.ended.status;
        assert!(status.success(), "{program}: {}", report.ended.err());
        report
    };
    evict(&file);
    let scenario = format!("{program} of a cold file");
    cold(&file, &[&file], &scenario).check(run, run);
}

pub fn cp() {
    copy_of_a_cold_file("cp", "cp --reflink=never \"$1\" \"$2\"");
}

pub fn rsync() {
    copy_of_a_cold_file("rsync", "rsync --whole-file \"$1\" \"$2\"");
}

pub fn tar() {
    copy_of_a_cold_file("tar", "tar -cf \"$2\" -C / \"${1#/}\"");
}

pub fn dd() {
    copy_of_a_cold_file("dd", "dd if=\"$1\" of=\"$2\" bs=64K status=none");
}

/// A tree of many small files on a device of its own, whose inodes are large.
fn cold_tree(scratch: &Scratch) -> Option<Mounted> {
    let mounted = Mounted::ext4(scratch, 128 * MIB, &["-I", "1024", "-N", "16384"])?;
    for directory in 0..40 {
        let directory = mounted.path(&format!("tree/{directory}"));
        fs::create_dir_all(&directory).expect("the image has room");
        for file in 0..200 {
            fs::write(directory.join(file.to_string()), "").expect("the image has room");
        }
    }
    Some(mounted)
}

/// A program that walks a cold tree.
fn cold_walk(program: &str, scenario: &str, script: &str) {
    if !has(&[program], &format!("advice::walk by {program}")) {
        return;
    }
    let scratch = Scratch::new();
    let Some(mounted) = cold_tree(&scratch) else {
        return;
    };
    let tree = mounted.path("tree");
    if program == "git" {
        git(&tree, &["init", "-q"]);
        git(&tree, &["add", "-A"]);
    }
    mounted.make_cold();
    let run = || {
        let report = report_of_shell(script, &[&tree]);
        assert!(report.ended.status.success(), "{}", report.ended.err());
        report
    };
    let fault = Fault {
        scenario,
        rules: &["cold_metadata"],
        subject: Subject::File(mounted.device()),
        figure: ("metadata_pages", 4 * MIB / page_size()),
        fix: &["du -s", "vfs_cache_pressure"],
        amount: Amount::Total("metadata_pages"),
        factor: 100,
        warm: &[],
    };
    let walked = || {
        let mut walk = Command::new("du");
        Ended::of(walk.arg("-s").arg(&tree)).expect(0, "the tree is walked");
        run()
    };
    mounted.make_cold();
    fault.check(run, walked);
}

pub fn find() {
    cold_walk(
        "find",
        "find in a cold tree",
        "find \"$1\" -newer / -type f",
    );
}

pub fn git_status() {
    cold_walk(
        "git",
        "git status of a cold tree",
        "git -C \"$1\" status --short",
    );
}
