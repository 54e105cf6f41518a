//! `guard` on the machine that runs the tests: memory is kept, and what was changed is put back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_kstat::{CgroupFiles, Hierarchy, Kernel};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("kept::free_memory_is_held", free_memory_is_held),
        needs_root("dry_run::nothing_is_written", nothing_is_written),
        needs_root(
            "dry_run::formats_have_every_event",
            formats_have_every_event,
        ),
        needs_root("restored::after_a_signal", a_limit_is_back_after_a_signal),
        needs_root("restored::after_kill_9", a_limit_is_back_after_kill_9),
        needs_root(
            "restored::by_the_next_start",
            a_limit_is_back_after_the_next_start,
        ),
        needs_root("followed::groups_that_come_and_go", groups_that_come_and_go),
        needs_root(
            "refused::a_limit_of_somebody_else",
            a_limit_of_somebody_else,
        ),
        needs_root("refused::what_cannot_be", what_cannot_be),
    ]
}

const MIB: u64 = 1 << 20;
const FILE: u64 = 1024 * MIB;

/// A group whose members have filled memory with the pages of a file.
struct Filled {
    group: Group,
    scratch: Scratch,
}

impl Filled {
    fn new(bytes: u64) -> Option<Filled> {
        let Some(group) = Group::new() else {
            println!("skipped: guard: no control group can be made here");
            return None;
        };
        let scratch = Scratch::new();
        let file = scratch.file("file", bytes);
        let filled = Filled { group, scratch };
        // Pages that a reclaimer of the machine evicts meanwhile are read again: tests begin with a full group.
        for _ in 0..5 {
            // A page is charged to the group that inserted it.
            evict(&file);
            filled.read(&file);
            if filled.used() > bytes * 9 / 10 {
                break;
            }
        }
        Some(filled)
    }

    /// Has a member of the group read a file.
    fn read(&self, file: &Path) {
        let script = "echo $$ >\"$1\"/cgroup.procs && exec cat \"$2\"";
        let read = Command::new("sh")
            .args(["-c", script, "sh", text(self.group.path()), text(file)])
            .stdout(Stdio::null())
            .status();
        assert!(read.expect("sh runs").success(), "it reads all of it");
    }

    fn used(&self) -> u64 {
        let kernel = Kernel::new();
        let hierarchy = kernel.cgroup_hierarchy().expect("there is one");
        let used = CgroupFiles::once(self.group.path()).memory_used(&hierarchy);
        used.expect("it can be read").expect("it is there").0
    }

    fn state(&self) -> PathBuf {
        self.scratch.directory().join("state")
    }

    fn guard(&self, arguments: &[&str]) -> Command {
        let mut command = cachewise(["guard", "--state", text(&self.state())]);
        command.args(arguments).arg(self.group.path());
        command
    }

    /// The limit that can be lowered here, with what it says.
    fn limit(&self) -> (&'static str, PathBuf, String) {
        let (by, file) = match Kernel::new().cgroup_hierarchy() {
            Ok(Hierarchy::V1Memory { .. }) => ("soft-limit", "memory.soft_limit_in_bytes"),
            _ => ("high", "memory.high"),
        };
        let path = self.group.path().join(file);
        let value = value(&path);
        (by, path, value)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

fn value(path: &Path) -> String {
    fs::read_to_string(path)
        .expect("it can be read")
        .trim()
        .to_owned()
}

fn free() -> u64 {
    Kernel::new().meminfo().expect("it can be read").free.0
}

fn lines(ended: &Ended) -> Vec<Value> {
    let text = String::from_utf8_lossy(&ended.out);
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON in each line"))
        .collect()
}

/// Returns the free memory on lists of single CPUs, which `MemFree` does not count. Linux keeps hundreds of MiB there after
/// much was freed, and returns them slowly.
fn free_on_lists() -> u64 {
    let zones = fs::read_to_string("/proc/zoneinfo").expect("it can be read");
    let counts = zones
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("count:"));
    let pages: u64 = counts
        .filter_map(|count| count.trim().parse::<u64>().ok())
        .sum();
    pages * page_size()
}

/// Free memory of the machine and what a group has, at one time.
struct Memory {
    free: u64,
    on_lists: u64,
    used: u64,
}

impl Memory {
    fn now(filled: &Filled) -> Memory {
        Memory {
            free: free(),
            on_lists: free_on_lists(),
            used: filled.used(),
        }
    }

    /// How much was freed since, or taken, by others than the group.
    fn by_others(&self, since: &Memory) -> i64 {
        let free = |memory: &Memory| (memory.free + memory.on_lists) as i64;
        free(self) - free(since) - (since.used as i64 - self.used as i64)
    }
}

/// Runs a guard, and gives the most memory that others had taken at any moment meanwhile.
fn watched(filled: &Filled, before: &Memory, command: &mut Command) -> (Ended, u64) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            loop {
                let is_last = is_over.load(Ordering::Acquire);
                let others = Memory::now(filled).by_others(before);
                most = most.max(others.min(0).unsigned_abs());
                if is_last {
                    return most;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let ended = Ended::of(command);
        is_over.store(true, Ordering::Release);
        (ended, watcher.join().expect("it only reads"))
    })
}

/// A reclaimer of the machine frees hundreds of MiB at once, every few seconds, and then a guard has nothing to reclaim.
/// The test measures how much it freed, to distinguish such an attempt from a guard that does nothing. A guard cannot
/// keep memory free that other programs take for a moment, for example a virtual machine that starts.
const ATTEMPTS: u32 = 40;
const NOISE: u64 = 32 * MIB;
/// Free memory that is missing when the guard starts: several times the 128 MiB of free pages that a host of a virtual
/// machine takes back at once, every two seconds after much was freed.
const MISSING: u64 = 384 * MIB;

fn free_memory_is_held() {
    for _ in 0..ATTEMPTS {
        let Some(filled) = Filled::new(FILE) else {
            return;
        };
        let before = Memory::now(&filled);
        assert!(
            before.used > FILE * 9 / 10,
            "all of it is charged to the group: {}",
            before.used
        );
        // More than there is now, by less than the group has: only from there it can come.
        let mark = before.free + MISSING;
        let (keep, target) = (mark.to_string(), (mark + 64 * MIB).to_string());
        let arguments = [
            "--of", "free", "--keep", &keep, "--target", &target, "-d", "1", "-o", "jsonl",
        ];
        let (ended, taken) = watched(&filled, &before, &mut filled.guard(&arguments));
        let after = Memory::now(&filled);
        let ended = ended.expect(0, "the time is over");
        let events = lines(&ended);
        assert_eq!(events[0]["event"], "started", "{events:?}");
        let others = after.by_others(&before);
        // At the mark less than that, more memory is free than was before: only the group can have given it.
        if others.unsigned_abs() > NOISE || taken > MISSING / 2 {
            println!(
                "others freed {} MiB meanwhile, and had taken {}: once more",
                others / MIB as i64,
                taken / MIB,
            );
            // Pages that the host of a virtual machine takes back are neither free nor in use for a moment.
            std::thread::sleep(Duration::from_secs(1));
            continue;
        }
        held(&events, mark - taken, before.used - after.used);
        return;
    }
    panic!("the free memory of this machine changed by itself in each of {ATTEMPTS} attempts");
}

/// Asserts the events of a guard that reclaimed `taken` bytes of its group.
fn held(events: &[Value], mark: u64, taken: u64) {
    let last = events.last().expect("it did something");
    let reclaimed: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "reclaimed")
        .collect();
    assert!(
        !reclaimed.is_empty(),
        "memory was taken from the group: {events:?}"
    );
    let sum: u64 = reclaimed
        .iter()
        .filter_map(|event| event["reclaimed_bytes"].as_u64())
        .sum();
    assert!(
        taken > MISSING / 5 * 4 && sum > MISSING / 5 * 4,
        "about as much as was missing: {taken}, said {sum}: {events:?}"
    );
    let reached = events
        .iter()
        .any(|event| event["kept_bytes"].as_u64() >= Some(mark));
    assert!(reached, "and it is free: {last}");
}

/// More than is ever free: the groups of these tests alone have more pages than that leaves.
fn out_of_reach() -> String {
    let memory = Kernel::new().meminfo().expect("it can be read");
    (memory.total.0 - 32 * MIB).to_string()
}

fn nothing_is_written() {
    let mut left = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(filled) = Filled::new(64 * MIB) else {
            return;
        };
        let before = filled.used();
        let keep = out_of_reach();
        let arguments = ["--of", "free", "--keep", &keep, "-d", "0.2", "--dry-run"];
        let ended = Ended::of(&mut filled.guard(&arguments));
        let after = filled.used();
        let ended = ended.expect(0, "a dry run");
        let said = String::from_utf8_lossy(&ended.out).into_owned();
        assert!(
            said.contains("would reclaim"),
            "it says what it would do: {said}"
        );
        // A guard would take all of it, each time; a reclaimer comes every few seconds.
        left.push((before, after));
        if after > before - 4 * MIB {
            return;
        }
    }
    panic!("and does not: {left:?}");
}

/// A guard that has lowered the limit of its group.
fn formats_have_every_event() {
    let Some(filled) = Filled::new(MIB) else {
        return;
    };
    let keep = out_of_reach();
    let files =
        ["json", "csv", "om", "md"].map(|ending| filled.scratch.path(format!("e.{ending}")));
    let mut guard = filled.guard(&["--of", "free", "--keep", &keep, "-d", "0.2", "--dry-run"]);
    for file in &files {
        guard.arg("-o").arg(file);
    }
    Ended::of(&mut guard).expect(0, "four formats at once");
    let [json, csv, metrics, markdown] =
        files.map(|file| fs::read_to_string(file).expect("it is written"));
    let document: Value = serde_json::from_str(&json).expect("one document");
    let events = document["events"].as_array().expect("a list");
    assert_eq!(events[0]["event"], "started", "{json}");
    assert_eq!(
        csv.lines().count(),
        events.len() + 1,
        "a row an event: {csv}"
    );
    assert!(csv.contains(",would_reclaim,free,"), "{csv}");
    let of_events = format!("event=\"would_reclaim\"}} {}", events.len() - 1);
    assert!(
        metrics.contains(&of_events) && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    assert!(markdown.contains("would reclaim"), "{markdown}");
}

fn lowering(filled: &Filled) -> Started {
    let (by, path, before) = filled.limit();
    let keep = out_of_reach();
    let started = Started::of(&mut filled.guard(&["--of", "free", "--keep", &keep, "--by", by]));
    until("the limit is lowered", || {
        (value(&path) != before).then_some(())
    });
    started
}

fn a_limit_is_back_after_a_signal() {
    let Some(filled) = Filled::new(64 * MIB) else {
        return;
    };
    let (_, path, before) = filled.limit();
    for (which, number) in [(Signal::TERM, 15), (Signal::QUIT, 3)] {
        let started = lowering(&filled);
        signal(started.pid(), which);
        let ended = started.wait();
        assert_eq!(ended.code(), 128 + number, "as shells have it: {ended:?}");
        assert_eq!(value(&path), before, "as before");
        let said = String::from_utf8_lossy(&ended.out).into_owned();
        assert!(said.contains("restored"), "and it says so: {said}");
    }
}

fn a_limit_is_back_after_kill_9() {
    let Some(filled) = Filled::new(64 * MIB) else {
        return;
    };
    let (_, path, before) = filled.limit();
    let started = lowering(&filled);
    signal(started.pid(), Signal::KILL);
    started.wait();
    until("the watchdog has put it back", || {
        (value(&path) == before).then_some(())
    });
    until("no state file is left", || {
        let left = fs::read_dir(filled.state()).expect("it is there").count();
        (left == 0).then_some(())
    });
}

/// The children of a process.
fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .map(|pid| pid.parse().expect("a process id"))
        .collect()
}

fn a_limit_is_back_after_the_next_start() {
    let Some(filled) = Filled::new(64 * MIB) else {
        return;
    };
    let (_, path, before) = filled.limit();
    let started = lowering(&filled);
    // As the end of a whole service kills: the watchdog too.
    signal(started.pid(), Signal::STOP);
    for child in children(started.pid()) {
        signal(child, Signal::KILL);
    }
    signal(started.pid(), Signal::KILL);
    started.wait();
    assert_ne!(value(&path), before, "nobody has put it back");
    // The mark is reached already: this guard has nothing else to do.
    let ended = Ended::of(&mut filled.guard(&["--keep", "1M", "-d", "0.1"]));
    let ended = ended.expect(0, "the next start");
    assert_eq!(value(&path), before, "as before");
    let said = String::from_utf8_lossy(&ended.err).into_owned();
    assert!(
        said.contains("was killed") && said.contains(text(&path)),
        "what happened: {said}"
    );
    let left = fs::read_dir(filled.state()).expect("it is there").count();
    assert_eq!(left, 0, "no state file is left");
}

fn groups_that_come_and_go() {
    let Some(group) = Group::new() else {
        println!("skipped: guard: no control group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let name = group.path().file_name().expect("a name of ours");
    let glob = format!("/{}/batch-*", text(Path::new(name)));
    let mut guard = cachewise(["guard", "--keep", "1M", "-o", "jsonl", "--state"]);
    let mut started = Started::of(guard.arg(scratch.path("state")).arg(&glob));
    let mut next = |event: &str| {
        let line = started.line().expect("it goes on");
        let document: Value = serde_json::from_slice(&line).expect("a line of JSON");
        assert_eq!(document["event"], event, "{document}");
        document
    };
    assert_eq!(next("started")["cgroups"], serde_json::json!([]));
    for _ in 0..2 {
        // One that does not match is not watched.
        let (other, inner) = (group.inner_named("other"), group.inner_named("batch-1"));
        let joined = next("joined");
        let cgroup = joined["cgroup"].as_str().expect("a name");
        assert!(cgroup.ends_with("/batch-1"), "{joined}");
        drop(inner);
        assert_eq!(next("gone")["cgroup"], joined["cgroup"]);
        drop(other);
    }
    signal(started.pid(), Signal::TERM);
    assert_eq!(started.wait().code(), 128 + 15, "by the signal alone");
}

fn a_limit_of_somebody_else() {
    let Some(filled) = Filled::new(MIB) else {
        return;
    };
    let (by, path, _) = filled.limit();
    fs::write(&path, (512 * MIB).to_string()).expect("root may limit its own group");
    let keep = out_of_reach();
    let ended = Ended::of(&mut filled.guard(&["--of", "free", "--keep", &keep, "--by", by]));
    let ended = ended.expect(2, "it is refused");
    let said = String::from_utf8_lossy(&ended.err).into_owned();
    assert!(
        said.contains(text(&path)) && said.contains("not overwritten"),
        "why: {said}"
    );
    assert_eq!(value(&path), (512 * MIB).to_string(), "untouched");
}

fn what_cannot_be() {
    let Some(filled) = Filled::new(MIB) else {
        return;
    };
    for (arguments, why) in [
        (&["--keep", "100%"][..], "the machine has"),
        (&["--keep", "5%", "--target", "4%"], "below the mark"),
        (&["--keep", "0"], "never act"),
        (&["--keep", "lots"], "is not a size"),
        (&["--most-stall", "0"], "is not from 1 to 100"),
        (&["/no/such/group"], "no control group"),
        (&["/"], "root"),
    ] {
        let ended = Ended::of(&mut filled.guard(&[arguments, &["-d", "0.1"]].concat()));
        let ended = ended.expect(2, why);
        let said = String::from_utf8_lossy(&ended.err).into_owned();
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
    let nobody = Ended::of(cachewise_as_nobody(&filled.scratch).args([
        "guard",
        "--state",
        "/tmp/cachewise-guard-of-nobody",
        "--keep",
        "1M",
        "-d",
        "0.1",
        text(filled.group.path()),
    ]));
    let _ = fs::remove_dir(Path::new("/tmp/cachewise-guard-of-nobody"));
    let nobody = nobody.expect(2, "it takes root");
    let said = String::from_utf8_lossy(&nobody.err).into_owned();
    assert!(said.contains("it takes root"), "what next: {said}");
}
