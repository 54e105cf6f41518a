//! Files and directories that are not resident when a program starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

fn git(tree: &Path, words: &[&str]) {
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
    let cold = grep(&tree);
    let found = cold.findings("cold_start");
    assert_eq!(found.len(), 1, "{}", cold.json["findings"]);
    let figures = &found[0]["figures"];
    assert!(
        number(figures, "cold_pages") * page_size() >= 24 * MIB
            && number(figures, "cold_files") >= 24,
        "the whole tree: {}",
        found[0]
    );
    assert!(
        number(found[0], "cost_bytes") >= 24 * MIB,
        "the cost is that of all cold files: {}",
        found[0]
    );
    let tree_name = tree.to_str().expect("an ordinary name");
    assert!(
        step(found[0]).contains(&format!("cachewise warm {tree_name} (")),
        "the tree is named: {}",
        found[0]
    );
    // The fix.
    undisturbed(|| {
        let mut warm = cachewise(["warm"]);
        Ended::of(warm.arg(&tree)).expect(0, "the tree is prefetched");
        let second = grep(&tree);
        let left: u64 = texts.iter().map(|file| fetched(&second, file)).sum();
        if left > 0 {
            return None;
        }
        assert_eq!(second.findings("cold_start").len(), 0, "it is gone");
        Some(())
    });
}

/// Programs that copy a cold file: it is the cause, and warm it costs nothing.
pub fn copies() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let to = scratch.path("copy");
    for (program, script) in [
        ("cp", "cp --reflink=never \"$1\" \"$2\""),
        ("rsync", "rsync --whole-file \"$1\" \"$2\""),
        ("tar", "tar -cf \"$2\" -C / \"${1#/}\""),
        ("dd", "dd if=\"$1\" of=\"$2\" bs=64K status=none"),
    ] {
        if !has(&[program], &format!("advice::copies with {program}")) {
            continue;
        }
        let run = || {
            // No earlier copy: rsync would leave it as it is.
            let _ = fs::remove_file(&to);
            let report = report_of_shell(script, &[&file, &to]);
            assert!(
                report.ended.status.success(),
                "{program}: {}",
                report.ended.err()
            );
            report
        };
        evict(&file);
        let cold = run();
        let finding = the_one(&cold, "cold_start", &file);
        assert_eq!(
            number(&finding["figures"], "cold_pages"),
            pages_of(&file),
            "{program}: {finding}"
        );
        undisturbed(|| {
            warm(&file);
            let second = run();
            let is_warm = fetched(&second, &file) == 0;
            is_warm.then(|| assert_eq!(second.findings("cold_start").len(), 0, "{program}"))
        });
    }
}
