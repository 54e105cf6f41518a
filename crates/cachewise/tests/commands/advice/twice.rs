//! Caches of programs beside the page cache.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::fault::note;
use super::kit::*;
use crate::support::*;

/// Keeps all blocks of a file, and evicts it from the page cache if told so, until its input ends.
const BLOCKS: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
blocks = {}
for at in range(0, os.fstat(fd).st_size, 8192):
    blocks[at] = os.pread(fd, 8192, at)
if sys.argv[2] == 'drop':
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
print('ready', flush=True)
sys.stdin.read()
";

/// The findings of this rule about a running process and this file.
pub fn twice(pid: u32, file: &Path) -> Vec<Value> {
    let mut run = cachewise([
        "run",
        "-d",
        "0.5",
        "-p",
        &pid.to_string(),
        "-o",
        "json=/dev/stdout",
    ]);
    let ended = Ended::of(run.stdin(Stdio::null())).expect(0, "it is followed");
    let json: Value = serde_json::from_slice(&ended.out).expect("JSON");
    assert!(
        json["verdict"].is_string(),
        "a note does not replace the verdict: {}",
        json["findings"]
    );
    let all = json["findings"].as_array().cloned().unwrap_or_default();
    let is_one =
        |found: &Value| found["id"] == "cached_twice" && found["subject"].as_str() == file.to_str();
    all.into_iter().filter(is_one).collect()
}

pub fn blocks_in_a_dictionary() {
    if !has(&["python3"], "advice::blocks_in_a_dictionary") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let resident_and_found = |mode: &str| {
        let mut program = Command::new("python3");
        program.args(["-c", BLOCKS]).arg(&file).arg(mode);
        let mut program = Started::of(program.stdin(Stdio::piped()));
        assert_eq!(
            program.line().as_deref(),
            Some(&b"ready\n"[..]),
            "it has all blocks"
        );
        (resident(&file), twice(program.pid(), &file))
    };
    let all = 24 * MIB / page_size();
    let (before, found) = undisturbed(|| {
        let found = resident_and_found("keep");
        (resident(&file) == all).then_some(found)
    });
    assert_eq!(found.len(), 1, "one file is cached twice: {found:?}");
    let figures = &found[0]["figures"];
    assert_eq!(
        number(figures, "cached_twice_bytes"),
        24 * MIB,
        "all of it: {figures}"
    );
    assert_eq!(
        number(figures, "copied_pages"),
        number(figures, "compared_pages"),
        "each compared page: {figures}"
    );
    assert!(
        step(&found[0]).contains("POSIX_FADV_DONTNEED"),
        "{}",
        found[0]
    );
    let (after, found) = resident_and_found("drop");
    assert_eq!(
        found,
        [] as [Value; 0],
        "the program's copy is the only one"
    );
    assert_eq!(
        (before - after) * page_size(),
        24 * MIB,
        "the fix saves what the finding says"
    );
    note(&[
        "fault",
        "python keeps all blocks of a file",
        "cached_twice",
        "cached_twice",
        "resident_pages",
        &format!("{before} -> {after}"),
    ]);
}
