//! The whole machine, watched by `doctor` while a program works.

use std::fs;
use std::process::{Command, Stdio};

use super::fault::note;
use super::kit::*;
use crate::support::*;

/// Reads 512 files of 64 KiB round after round until its input ends, and evicts each if there is a file `evict`: no file is
/// large enough for a finding of its own.
const ROUNDS: &str = "
import os, select, sys, time
os.chdir(sys.argv[1])
for name in range(512):
    with open(f'{name}.data', 'wb') as file:
        file.write(os.urandom(65536))
        os.fsync(file.fileno())
print('ready', flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    for name in range(512):
        fd = os.open(f'{name}.data', os.O_RDONLY)
        os.pread(fd, 65536, 0)
        if os.path.exists('evict'):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
";

/// A process that mostly misses is found among all others; the command of its finding shows why.
pub fn process_that_misses() {
    if !has(&["python3"], "advice::process_that_misses") {
        return;
    }
    let scratch = Scratch::new();
    let evict = scratch.file("evict", 0);
    let mut reader = Command::new("python3");
    reader.args(["-c", ROUNDS]).arg(scratch.directory());
    let mut reader = Started::of(reader.stdin(Stdio::piped()));
    assert_eq!(
        reader.line().as_deref(),
        Some(&b"ready\n"[..]),
        "the reader begins"
    );
    let pid = reader.pid();
    let found = || {
        let mut doctor = cachewise(["doctor", "--seconds", "2", "--json"]);
        let ended = Ended::of(doctor.stdin(Stdio::null())).expect(0, "it watches");
        let json: serde_json::Value = serde_json::from_slice(&ended.out).expect("JSON");
        let all = json["findings"].as_array().cloned().unwrap_or_default();
        let own = all.into_iter().filter(|found| found["pid"] == pid);
        own.collect::<Vec<_>>()
    };
    let before = found();
    assert_eq!(before.len(), 1, "the process is found");
    assert_eq!(before[0]["id"], "who_misses", "{}", before[0]);
    let fetched = number(&before[0]["figures"], "fetched_pages");
    assert!(fetched >= 16 * MIB / page_size(), "{}", before[0]);
    let command = format!("cachewise run -p {pid} -d ");
    assert!(step(&before[0]).contains(&command), "{}", before[0]);
    let run = || {
        let json = scratch.path("report.json");
        let mut run = cachewise(["run", "-d", "1", "-p", &pid.to_string(), "-o"]);
        let ended = Ended::of(run.arg(format!("json={}", json.display())));
        Report::read(&json, ended)
    };
    let evicting = run();
    let evictions = evicting.json["evictions"].as_array().expect("a list");
    let by_itself = |eviction: &&serde_json::Value| {
        eviction["cause"] == "advice" && eviction["culprit"]["pid"] == pid
    };
    assert!(
        evictions.iter().filter(by_itself).count() >= 100,
        "it evicts its files itself: {evictions:?}"
    );
    // The fix.
    fs::remove_file(&evict).expect("it is ours");
    let misses = |report: &Report| number(&report.json["totals"], "fetched_bytes");
    let after = undisturbed(|| {
        let (found, report) = (found(), run());
        // The first round after the fix may still read.
        (misses(&report) == 0).then(|| assert_eq!(found.len(), 0, "it is gone: {found:?}"))?;
        Some(misses(&report))
    });
    note(&[
        "fault",
        "python evicts each of 512 files after it has read it",
        "who_misses",
        "who_misses of the process",
        "fetched_bytes",
        &format!("{} -> {after}", misses(&evicting)),
    ]);
    drop(reader.child.stdin.take());
    reader.wait().expect(0, "the reader ends by itself");
}
