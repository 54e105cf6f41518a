//! Lists of paths (`--files-from`): one command, one total, one exit status, whatever the names are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "files_of_a_list_have_one_total",
            files_of_a_list_have_one_total,
        ),
        plain("acts_do_what_a_list_names", acts_do_what_a_list_names),
        plain("missing_paths_are_named", missing_paths_are_named),
        plain("bad_lists_change_nothing", bad_lists_change_nothing),
        plain("ctrl_c_ends_the_wait", ctrl_c_ends_the_wait),
    ]
}

/// More files than one command line of xargs has, with names of all kinds.
const FILES: usize = 700;

/// The files, two pages each, and their list, each ended with a zero byte.
fn many(scratch: &Scratch) -> (Vec<PathBuf>, Vec<u8>) {
    let name = |number: usize| match number {
        0 => OsStr::from_bytes(b"new\nline").to_owned(),
        1 => OsStr::from_bytes(b"\xff\xfe").to_owned(),
        2 => " - ".into(),
        _ => format!("{number}").into(),
    };
    let paths: Vec<PathBuf> = (0..FILES)
        .map(|number| scratch.file(name(number), 2 * page_size()))
        .collect();
    let list = paths
        .iter()
        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
        .collect();
    (paths, list)
}

fn listed(arguments: &[&str], list: &[u8]) -> Ended {
    Ended::with_input(&mut cachewise(arguments), list)
}

fn files_of_a_list_have_one_total() {
    let scratch = Scratch::new();
    let (paths, list) = many(&scratch);
    let ended = listed(&["files", "-0", "--files-from", "-", "-o", "json"], &list)
        .expect(0, "all of them are ours");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    assert_eq!(
        document["rows"].as_array().map(Vec::len),
        Some(paths.len()),
        "a row for each"
    );
    let total = &document["total"];
    assert_eq!(number(total, "file_pages"), 2 * paths.len() as u64);
    // A file, one path a line, and a path of the command line besides.
    let lines = scratch.path("lines");
    let named: Vec<String> = paths[3..]
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    fs::write(&lines, named.join("\n")).expect("it is ours");
    let mut command = cachewise(["files", "-o", "json", "--files-from"]);
    let ended = Ended::of(command.arg(&lines).arg(&paths[0])).expect(0, "a list of lines");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    assert_eq!(
        number(&document["total"], "file_pages"),
        2 * (paths.len() as u64 - 2),
        "the list and the argument"
    );
}

fn acts_do_what_a_list_names() {
    let scratch = Scratch::new();
    let (paths, list) = many(&scratch);
    let all = || -> u64 { paths.iter().map(|path| resident(path)).sum() };
    listed(&["evict", "--sync", "-0", "--files-from", "-"], &list).expect(0, "they are evicted");
    assert_eq!(all(), 0, "none is resident");
    let ended = listed(&["order", "-0", "--files-from", "-"], &list).expect(0, "an order");
    let mut ordered: Vec<&[u8]> = ended.out.split(|byte| *byte == 0).collect();
    let mut given: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
    ordered.sort_unstable();
    given.sort_unstable();
    assert!(ordered == given, "each path once, byte for byte");
    let saved = scratch.path("saved.snap");
    let saved = saved.to_str().expect("a name of ours");
    let save = ["snapshot", "save", saved, "-0", "--files-from", "-"];
    let ended = undisturbed(|| {
        listed(&["warm", "-0", "--files-from", "-"], &list).expect(0, "they are read");
        let ended = listed(&save, &list).expect(0, "they are saved");
        (all() == 2 * FILES as u64).then_some(ended)
    });
    ended.says(&format!("of {FILES} files"), "all of them");
    listed(&["lock", "--dry-run", "-0", "--files-from", "-"], &list)
        .expect(0, "they would be locked");
}

fn missing_paths_are_named() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let list = format!("{}\n/nowhere/at/all\n", file.display());
    for command in ["files", "warm", "evict", "order"] {
        let ended = listed(&[command, "--files-from", "-"], list.as_bytes());
        assert_eq!(ended.code(), 2, "{command}: one could not be done");
        ended.says("/nowhere/at/all", "which one");
    }
}

fn bad_lists_change_nothing() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    warm(&file);
    let name = file.as_os_str().as_bytes();
    for (list, part) in [
        (&b""[..], "has no path"),
        (&[name, b"\0"].concat()[..], "add -0"),
    ] {
        listed(&["evict", "--files-from", "-"], list)
            .expect(2, "it is refused")
            .says(part, "why");
    }
    listed(&["evict", "--files-from", "/nowhere/list"], b"")
        .expect(2, "there is no such list")
        .says("/nowhere/list", "which list");
    listed(&["evict", "-0", "file"], b"").expect(2, "-0 without a list means nothing");
    listed(&["files", "--all", "--files-from", "-"], b"").expect(2, "two sources of files");
    assert_eq!(resident(&file), 1, "the file is as it was");
}

fn ctrl_c_ends_the_wait() {
    let mut command = cachewise(["warm", "--files-from", "-"]);
    let started = Started::of(command.stdin(Stdio::piped()));
    let reads = format!("/proc/{}/wchan", started.pid());
    until("it waits for the list", || {
        fs::read_to_string(&reads)
            .ok()?
            .contains("pipe")
            .then_some(())
    });
    started.signal(Signal::INT);
    let ended = started.wait();
    assert_eq!(
        ended.status.signal(),
        Some(Signal::INT.as_raw()),
        "the signal ends it: nothing was begun"
    );
}
