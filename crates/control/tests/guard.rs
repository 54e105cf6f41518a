//! Decisions of a guard on a made-up machine with control groups of version 2. The files are plain
//! ones, so writing to them has no effect.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cachewise_control::{
    Error, Guard, GuardAction, GuardEvent, GuardOptions, Journal, Kept, Means, Unsure, recover,
};
use cachewise_kstat::{ErrorKind, Kernel};
use cachewise_units::Bytes;

const MIB: u64 = 1 << 20;
static GO_ON: AtomicBool = AtomicBool::new(false);

struct Machine(tempfile::TempDir);

impl Machine {
    /// A machine with 1 GiB of memory and two groups.
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a temporary directory can be made"));
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        machine.write("proc/self/mountinfo", mounts);
        machine.write("sys/fs/cgroup/cgroup.controllers", "memory\n");
        machine.available(50);
        machine.group("small", 30);
        machine.group("large", 400);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory of ours");
        fs::write(path, text).expect("a file of ours");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file of ours")
    }

    fn available(&self, mib: u64) {
        let kib = mib * 1024;
        let text = format!(
            "MemTotal: 1048576 kB\nMemFree: 20480 kB\nMemAvailable: {kib} kB\nBuffers: 0 kB\nCached: 0 kB\n\
             SwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\nSlab: 0 kB\n\
             SwapTotal: 1048576 kB\nSwapFree: 1048576 kB\nCommitted_AS: 0 kB\nVmallocTotal: 0 kB\nVmallocUsed: 0 kB\n\
             VmallocChunk: 0 kB\nPageTables: 0 kB\n"
        );
        self.write("proc/meminfo", &text);
    }

    fn without_swap(&self) {
        let text = self
            .read("proc/meminfo")
            .replace("SwapFree: 1048576", "SwapFree: 0");
        self.write("proc/meminfo", &text);
    }

    fn group(&self, name: &str, mib: u64) {
        let group = format!("sys/fs/cgroup/{name}");
        self.write(
            &format!("{group}/memory.current"),
            &format!("{}\n", mib * MIB),
        );
        self.write(&format!("{group}/memory.reclaim"), "");
        self.write(&format!("{group}/memory.high"), "max\n");
    }

    /// A kernel before 5.19.
    fn without_reclaim(&self) {
        for name in ["small", "large"] {
            let path = self.path(&format!("sys/fs/cgroup/{name}/memory.reclaim"));
            fs::remove_file(path).expect("it is there");
        }
    }

    fn kernel(&self) -> Kernel {
        Kernel::with_roots(self.path("proc"), self.path("sys"))
    }

    fn guard(&self, options: GuardOptions) -> Result<Guard, Error> {
        let kernel = self.kernel();
        let groups = ["small", "large"].map(|name| kernel.resolve_cgroup(name));
        let groups = groups.into_iter().collect::<Result<_, _>>()?;
        let journal = Journal::open(&self.path("state"), "guard")?;
        Guard::new(&kernel, groups, options, journal)
    }
}

fn options() -> GuardOptions {
    GuardOptions {
        kept: Kept::Available,
        mark: Bytes(100 * MIB),
        target: Bytes(120 * MIB),
        step: Bytes(64 * MIB),
        leave: Bytes::ZERO,
        most_stall: 0.2,
        means: None,
        follows: false,
        stall: None,
        dry_run: false,
    }
}

fn reasons(events: &[GuardEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match &event.action {
            GuardAction::BackedOff { reason, .. } => Some(reason.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn step_above_the_mark_does_nothing() {
    let machine = Machine::new();
    machine.available(101);
    let mut guard = machine.guard(options()).unwrap();
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "there is enough");
    assert_eq!(
        machine.read("sys/fs/cgroup/large/memory.reclaim"),
        "",
        "untouched"
    );
}

#[test]
fn step_without_swap_drops_no_cache() {
    let machine = Machine::new();
    machine.without_swap();
    let mut guard = machine.guard(options()).unwrap();
    let events = guard.step(&GO_ON).unwrap();
    assert!(
        reasons(&events)[0].contains("no free swap"),
        "it says why: {events:?}"
    );
    assert_eq!(
        machine.read("sys/fs/cgroup/large/memory.reclaim"),
        "",
        "and reclaims from no group"
    );
    let free = GuardOptions {
        kept: Kept::Free,
        ..options()
    };
    machine.guard(free).unwrap().step(&GO_ON).unwrap();
    assert_ne!(
        machine.read("sys/fs/cgroup/large/memory.reclaim"),
        "",
        "to be free it has to be dropped"
    );
}

#[test]
fn step_reclaims_the_shortage_from_the_largest_group() {
    let machine = Machine::new();
    let mut guard = machine.guard(options()).unwrap();
    assert!(
        guard
            .watched()
            .iter()
            .all(|one| one.means == Means::Reclaim),
        "the best there is"
    );
    let events = guard.step(&GO_ON).unwrap();
    let asked = machine.read("sys/fs/cgroup/large/memory.reclaim");
    assert_eq!(
        asked,
        (64 * MIB).to_string(),
        "no more than a step of the 70 MiB"
    );
    assert_eq!(
        machine.read("sys/fs/cgroup/small/memory.reclaim"),
        "",
        "of the one that has most"
    );
    let GuardAction::Reclaimed {
        cgroup,
        wanted_bytes,
        ..
    } = &events[0].action
    else {
        panic!("it says what it did: {events:?}");
    };
    assert_eq!(
        (&**cgroup, *wanted_bytes),
        ("/large", 64 * MIB),
        "{events:?}"
    );

    // The reclaim gained nothing here, and repeating it would not help.
    let reasons = reasons(&events);
    assert!(
        reasons[0].contains("could be reclaimed"),
        "it says why it waits: {events:?}"
    );
    machine.write("sys/fs/cgroup/large/memory.reclaim", "");
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "it waits");
    assert_eq!(
        machine.read("sys/fs/cgroup/large/memory.reclaim"),
        "",
        "and reclaims from no group"
    );
}

#[test]
fn lowered_high_limit_is_restored() {
    let machine = Machine::new();
    machine.without_reclaim();
    let mut guard = machine.guard(options()).unwrap();
    guard.step(&GO_ON).unwrap();
    let high = || {
        machine
            .read("sys/fs/cgroup/large/memory.high")
            .trim()
            .to_owned()
    };
    assert_eq!(high(), (336 * MIB).to_string(), "its memory, less a step");
    let events = guard.end().unwrap();
    assert_eq!(high(), "max", "as it was");
    assert!(
        matches!(&events[0].action, GuardAction::Released { value, .. } if value == "max"),
        "and says so: {events:?}"
    );
    assert_eq!(
        fs::read_dir(machine.path("state")).unwrap().count(),
        0,
        "no work is left"
    );

    // A guard that panics, and one whose limit an administrator changes.
    let mut guard = machine.guard(options()).unwrap();
    guard.step(&GO_ON).unwrap();
    drop(guard);
    assert_eq!(high(), "max", "dropped, as a panic does it");
    let mut guard = machine.guard(options()).unwrap();
    guard.step(&GO_ON).unwrap();
    machine.write("sys/fs/cgroup/large/memory.high", "5242880\n");
    let events = guard.end().unwrap();
    assert_eq!(high(), "5242880", "the administrator's");
    assert!(
        matches!(events[0].action, GuardAction::Left { .. }),
        "said: {events:?}"
    );
    assert!(
        recover(&machine.path("state"), Unsure::Leave)
            .unwrap()
            .is_empty(),
        "and done with"
    );
}

#[test]
fn guard_refuses_to_overwrite_an_existing_limit() {
    let machine = Machine::new();
    machine.write("sys/fs/cgroup/large/memory.high", "1073741824\n");
    machine.guard(options()).unwrap();
    machine.without_reclaim();
    let error = machine.guard(options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let text = error.to_string();
    assert!(
        text.contains("/large") && text.contains("1073741824"),
        "the group, and its limit: {text}"
    );
    assert_eq!(
        machine.read("sys/fs/cgroup/large/memory.high"),
        "1073741824\n",
        "untouched"
    );
}

#[test]
fn limit_changed_meanwhile_is_left_alone() {
    let machine = Machine::new();
    machine.without_reclaim();
    let path = "sys/fs/cgroup/large/memory.high";
    let mut guard = machine.guard(options()).unwrap();
    guard.step(&GO_ON).unwrap();
    assert_ne!(machine.read(path).trim(), "max", "it holds");
    machine.write(path, "5242880\n");
    let mut events = Vec::new();
    for _ in 0..200 {
        // It may back off, as the first step gained nothing.
        events = guard.step(&GO_ON).unwrap();
        if !events.is_empty() {
            break;
        }
        std::thread::sleep(guard.pause().unwrap());
    }
    assert!(
        matches!(&events[0].action, GuardAction::Left { value, .. } if value == "5242880"),
        "said: {events:?}"
    );
    assert_eq!(
        guard.watched().len(),
        1,
        "from now on it reclaims from the other one"
    );
    guard.step(&GO_ON).unwrap();
    guard.end().unwrap();
    assert_eq!(machine.read(path), "5242880\n", "the administrator's");
}

#[test]
fn dry_run_reports_and_writes_nothing() {
    let machine = Machine::new();
    machine.without_reclaim();
    let dry = GuardOptions {
        dry_run: true,
        ..options()
    };
    let events = machine.guard(dry).unwrap().step(&GO_ON).unwrap();
    assert!(
        matches!(
            events[0].action,
            GuardAction::WouldReclaim {
                means: Means::High,
                ..
            }
        ),
        "{events:?}"
    );
    assert_eq!(
        machine.read("sys/fs/cgroup/large/memory.high"),
        "max\n",
        "untouched"
    );
}

#[test]
fn leave_keeps_that_much_in_the_group() {
    let machine = Machine::new();
    let some = GuardOptions {
        leave: Bytes(390 * MIB),
        ..options()
    };
    machine.guard(some).unwrap().step(&GO_ON).unwrap();
    let asked = machine.read("sys/fs/cgroup/large/memory.reclaim");
    assert_eq!(asked, (10 * MIB).to_string(), "only the excess");
    let all = GuardOptions {
        leave: Bytes(1024 * MIB),
        ..options()
    };
    let events = machine.guard(all).unwrap().step(&GO_ON).unwrap();
    assert!(
        reasons(&events)[0].contains("no group has more"),
        "{events:?}"
    );
}

#[test]
fn vanished_group_is_skipped_and_the_last_is_an_error() {
    let machine = Machine::new();
    let mut guard = machine.guard(options()).unwrap();
    fs::remove_dir_all(machine.path("sys/fs/cgroup/large")).unwrap();
    let events = guard.step(&GO_ON).unwrap();
    assert!(
        matches!(&events[0].action, GuardAction::Gone { cgroup } if cgroup == "/large"),
        "{events:?}"
    );
    fs::remove_dir_all(machine.path("sys/fs/cgroup/small")).unwrap();
    machine.available(1);
    let mut last = machine.guard(options());
    assert!(
        last.is_err(),
        "no such groups: {:?}",
        last.as_mut().map(|guard| guard.watched().len())
    );
}

#[test]
fn new_refuses_impossible_marks() {
    let machine = Machine::new();
    let means = Some(Means::SoftLimit);
    let error = machine
        .guard(GuardOptions { means, ..options() })
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no memory.soft_limit_in_bytes"),
        "of version 1: {error}"
    );
    let means = Some(Means::High);
    let guard = machine.guard(GuardOptions { means, ..options() }).unwrap();
    assert_eq!(guard.watched()[0].means, Means::High, "as requested");
    for (wrong, why) in [
        (
            GuardOptions {
                target: Bytes(99 * MIB),
                ..options()
            },
            "below the mark",
        ),
        (
            GuardOptions {
                target: Bytes(1024 * MIB),
                ..options()
            },
            "in all",
        ),
        (
            GuardOptions {
                step: Bytes::ZERO,
                ..options()
            },
            "never act",
        ),
        (
            GuardOptions {
                mark: Bytes::ZERO,
                ..options()
            },
            "never act",
        ),
    ] {
        let error = machine.guard(wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
    fs::remove_file(machine.path("sys/fs/cgroup/small/memory.current")).unwrap();
    let error = machine.guard(options()).unwrap_err().to_string();
    assert!(
        error.contains("root group"),
        "its memory is unknown: {error}"
    );
}

#[test]
fn groups_that_follow_are_joined_once_and_left_above_the_mark() {
    let machine = Machine::new();
    let kernel = machine.kernel();
    let large = || kernel.resolve_cgroup("large").unwrap();
    let follows = GuardOptions {
        follows: true,
        ..options()
    };
    machine.available(500);
    let journal = Journal::open(&machine.path("state"), "guard").unwrap();
    let mut guard = Guard::new(&kernel, Vec::new(), follows, journal).unwrap();
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "nothing to do");
    let events = guard.follow(vec![large()]).unwrap();
    assert!(
        matches!(&events[..], [GuardEvent { action: GuardAction::Joined { cgroup, .. }, .. }] if cgroup == "/large"),
        "{events:?}"
    );
    assert!(guard.follow(vec![large()]).unwrap().is_empty(), "once");
    fs::remove_dir_all(machine.path("sys/fs/cgroup/large")).unwrap();
    let events = guard.step(&GO_ON).unwrap();
    assert!(
        matches!(&events[..], [GuardEvent { action: GuardAction::Gone { cgroup }, .. }] if cgroup == "/large"),
        "{events:?}"
    );
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "and it goes on");
    // A group whose memory is not accounted is reported once.
    fs::create_dir(machine.path("sys/fs/cgroup/odd")).unwrap();
    let odd = || vec![kernel.resolve_cgroup("odd").unwrap()];
    let events = guard.follow(odd()).unwrap();
    assert!(
        matches!(&events[0].action, GuardAction::Refused { cgroup, .. } if cgroup == "/odd"),
        "{events:?}"
    );
    assert!(guard.follow(odd()).unwrap().is_empty(), "once");
}

#[test]
fn tasks_that_wait_start_reclaim_above_the_mark() {
    let machine = Machine::new();
    machine.available(500);
    let waited = |micros: u64| {
        let line = |kind| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={micros}\n");
        machine.write(
            "proc/pressure/memory",
            &[line("some"), line("full")].concat(),
        );
    };
    let stalls = GuardOptions {
        stall: Some(0.1),
        ..options()
    };
    assert!(machine.guard(stalls).is_err(), "without such a file");
    waited(1000);
    let mut guard = machine.guard(stalls).unwrap();
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "the first look");
    std::thread::sleep(std::time::Duration::from_millis(110));
    assert!(guard.step(&GO_ON).unwrap().is_empty(), "nobody waits");
    std::thread::sleep(std::time::Duration::from_millis(110));
    waited(60_000_000);
    let events = guard.step(&GO_ON).unwrap();
    assert!(
        matches!(events[0].action, GuardAction::Stalled { .. }),
        "{events:?}"
    );
    let asked = machine.read("sys/fs/cgroup/large/memory.reclaim");
    assert_eq!(asked, (64 * MIB).to_string(), "a step of the largest group");
}
