//! Times of tasks: real programs wait for one thing each, and the parts add up to the time that the tasks existed, which
//! the kernel's own start times give.
//!
//! Needs root; without it each test prints why it does nothing.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

#[path = "../kit/mod.rs"]
mod kit;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{Detail, ErrorKind, Options, Probe, Scope, Snapshot};
use kit::files::{Files, evict};
use kit::group::Group;
use kit::{image, needs, oracle, problem, random};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One script at a time: the others of this program load both CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a script of the shell with these arguments under a probe; `None` where the test cannot run.
fn measure(name: &str, script: &str, arguments: &[&Path]) -> Option<Snapshot> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(reason) = needs::missing() {
        println!("skipped: {name}: {reason}");
        return None;
    }
    let options = Options {
        times: true,
        ..Options::new(Scope::Children, Detail::Rows)
    };
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => probe,
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: {name}: {error}");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(arguments);
    let status = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{script}: {status}");
    Some(probe.snapshot().unwrap())
}

/// Like [`measure`], until the parts add up, or the host of this virtual machine took no CPU time meanwhile: what it takes
/// is in no account of a task.
fn measure_whole(
    name: &str,
    before: impl Fn(),
    script: &str,
    arguments: &[&Path],
) -> Option<Snapshot> {
    const TRIES: usize = 20;
    for _ in 1..TRIES {
        before();
        let stolen = stolen_ticks();
        let snapshot = measure(name, script, arguments)?;
        if stolen_ticks() == stolen || is_whole(&snapshot) {
            return Some(snapshot);
        }
    }
    before();
    measure(name, script, arguments)
}

/// CPU time that the host of a virtual machine took, in ticks (proc_stat(5), "steal").
fn stolen_ticks() -> u64 {
    tick();
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let mut cpu = stat.lines().next().unwrap().split_whitespace();
    cpu.nth(8).unwrap().parse().unwrap()
}

/// Has each CPU come to a tick: there the kernel looks what the host took, and an idle CPU has none.
fn tick() {
    const TWO_TICKS: Duration = Duration::from_millis(20);
    let before = sched_getaffinity(None).unwrap();
    for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < TWO_TICKS {
            std::hint::spin_loop();
        }
    }
    sched_setaffinity(None, &before).unwrap();
}

fn time(snapshot: &Snapshot, of: &[Counter]) -> Duration {
    snapshot.total.time(of).exact().unwrap()
}

/// A time that tasks spent on one file.
fn time_of_file(snapshot: &Snapshot, path: &Path, counter: Counter) -> Duration {
    let inode = fs::metadata(path).unwrap().ino();
    let rows = snapshot.rows.iter();
    rows.filter(|row| row.file.is_some_and(|file| file.inode == inode))
        .map(|row| row.ledger.time(&[counter]).exact().unwrap())
        .sum()
}

/// The share of the time that tasks existed which the parts miss, or have too much: 5 % at most.
///
/// The parts come from the kernel's accounts of CPU and run queue and from the probe's clock at switches; the whole
/// from the kernel's start times.
fn adds_up(name: &str, snapshot: &Snapshot) {
    let (parts, whole) = parts_and_whole(snapshot);
    assert!(
        is_whole(snapshot),
        "{name}: {parts} of {whole} s: {:?}",
        parts_of(snapshot)
    );
}

fn is_whole(snapshot: &Snapshot) -> bool {
    let (parts, whole) = parts_and_whole(snapshot);
    (whole - parts).abs() <= 0.05 * whole
}

/// In seconds.
fn parts_and_whole(snapshot: &Snapshot) -> (f64, f64) {
    let whole = time(snapshot, &[Counter::TaskSeconds]);
    let cpu: Duration = snapshot.processes.iter().map(|one| one.cpu_time).sum();
    let parts = cpu + time(snapshot, &Counter::WAITS);
    (parts.as_secs_f64(), whole.as_secs_f64())
}

fn parts_of(snapshot: &Snapshot) -> Vec<(&'static str, Duration)> {
    let parts = Counter::TIMES.iter();
    parts
        .map(|counter| (counter.id(), time(snapshot, &[*counter])))
        .filter(|(_, time)| !time.is_zero())
        .collect()
}

#[test]
fn each_wait_is_told_by_its_cause() {
    const SLEEP: Duration = Duration::from_millis(300);
    let cases = [
        ("sleep 0.3", Counter::Slept),
        ("sleep 0.3; true", Counter::WaitedChildren),
        // The reader has time to start.
        ("(sleep 0.2; exec sleep 0.3) | cat", Counter::WaitedPeer),
        (
            "exec 9<. && flock 9; sleep 0.3 & exec 9<&- 8<.; flock 8",
            Counter::WaitedLock,
        ),
    ];
    for (script, counter) in cases {
        let Some(snapshot) = measure_whole("each_wait", || {}, script, &[]) else {
            return;
        };
        let parts = parts_of(&snapshot);
        // The one that waits for another begins after it, on a busy machine long after it.
        let least = match counter {
            Counter::Slept => SLEEP,
            _ => Duration::from_nanos(1),
        };
        assert!(time(&snapshot, &[counter]) >= least, "{script}: {parts:?}");
        adds_up(script, &snapshot);
    }
}

#[test]
fn waits_for_a_file_are_told_by_their_cause_and_file() {
    const PYTHON: &str = "exec python3 -c 'import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
view = mmap.mmap(file, 0, prot=mmap.PROT_READ)
view.madvise(mmap.MADV_RANDOM)
sum(view[place] for place in range(0, len(view), 1 << 16))' \"$1\"";
    let files = Files::new();
    let file = files.cold("file", 64 << 20);
    let cases = [
        ("cat \"$1\"", Counter::WaitedMissed),
        (PYTHON, Counter::WaitedFault),
        ("dd if=\"$1\" bs=64k iflag=direct", Counter::WaitedDirect),
        (
            "dd if=/dev/zero of=\"$1\" bs=64k count=64 conv=notrunc,fsync",
            Counter::WaitedSync,
        ),
        (
            "dd if=/dev/zero of=\"$1\" bs=64k count=64 conv=notrunc oflag=dsync",
            Counter::WaitedSync,
        ),
    ];
    for (script, counter) in cases {
        let cold = || evict(&fs::File::open(&file).unwrap());
        let Some(snapshot) = measure_whole("waits_for_a_file", cold, script, &[&file]) else {
            return;
        };
        let parts = parts_of(&snapshot);
        assert!(
            time_of_file(&snapshot, &file, counter) > Duration::ZERO,
            "{script}: {parts:?}"
        );
        adds_up(script, &snapshot);
    }
}

#[test]
fn reads_of_a_resident_file_wait_for_no_page() {
    let files = Files::new();
    let file = files.cold("file", 16 << 20);
    let read = "cat \"$1\"";
    let Some(_) = measure("reads_of_a_resident_file", read, &[&file]) else {
        return;
    };
    // The machine may reclaim its pages between the two, which the misses show.
    let missed = |counted: &Snapshot| counted.total[Counter::ReadMissedPages];
    let again = || measure("reads_of_a_resident_file", read, &[&file]).unwrap();
    let warm = (0..10)
        .map(|_| again())
        .find(|counted| missed(counted) == 0);
    let warm = warm.expect("the file stays resident for a moment");
    for counter in Counter::COLD_WAITS {
        let waited = time_of_file(&warm, &file, counter);
        assert_eq!(waited, Duration::ZERO, "{}", counter.id());
    }
}

#[test]
fn pages_that_were_evicted_before_are_waited_for_apart() {
    const NAME: &str = "pages_that_were_evicted";
    let files = Files::new();
    let file = files.cold("file", 64 << 20);
    let group = match Group::new().unwrap() {
        Ok(group) => group,
        Err(reason) => return println!("skipped: {NAME}: {reason}"),
    };
    group.limit(24 << 20).unwrap();
    let script = "echo $$ >\"$1/cgroup.procs\" && for i in 1 2 3; do dd if=\"$2\" bs=4k; done";
    let arguments: [&Path; 2] = [group.path(), &file];
    let Some(snapshot) = measure_whole(NAME, || {}, script, &arguments) else {
        return;
    };
    let again = time_of_file(&snapshot, &file, Counter::WaitedRefault);
    assert!(again > Duration::ZERO, "{:?}", parts_of(&snapshot));
    adds_up(NAME, &snapshot);
}

#[test]
fn times_that_are_not_asked_for_are_missing() {
    if let Some(reason) = needs::missing() {
        return println!("skipped: times_that_are_not_asked_for: {reason}");
    }
    let options = Options::new(Scope::Children, Detail::Rows);
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => probe,
        Err(error) => return println!("skipped: times_that_are_not_asked_for: {error}"),
    };
    Command::new("true").status().unwrap();
    let snapshot = probe.snapshot().unwrap();
    for counter in Counter::TIMES {
        assert!(!snapshot.total.is_offered(counter), "{}", counter.id());
    }
}

#[test]
fn snapshot_settles_a_process_that_is_alive() {
    const NAME: &str = "snapshot_settles_a_process_that_is_alive";
    // One process ends before the snapshot, and one waits for its standard input.
    const SCRIPT: &str = "true; count=0
while [ $count -lt 50000 ]; do count=$((count + 1)); done
echo counted; read line";
    if let Some(reason) = needs::missing() {
        return println!("skipped: {NAME}: {reason}");
    }
    let options = Options::new(Scope::Children, Detail::Rows);
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => probe,
        Err(error) => return println!("skipped: {NAME}: {error}"),
    };
    let mut child = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let snapshot = probe.snapshot();
    drop(child.stdin.take());
    child.wait().unwrap();

    let processes = snapshot.unwrap().processes;
    let process = processes.iter().find(|process| process.pid == child.id());
    let process = process.unwrap_or_else(|| panic!("{processes:?}"));
    assert!(process.cpu_time > Duration::ZERO, "{process:?}");
    assert_eq!(process.exit_status, None);
}

#[test]
fn cpu_time_of_cold_reads_beyond_that_of_warm_ones_is_fetch_cpu_time() {
    const NAME: &str = "cpu_time_of_cold_reads";
    const READS: &str = "exec python3 -c 'import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
places = list(range(os.fstat(file).st_size // 4096))
random.Random(7).shuffle(places)
for place in places:
    os.pread(file, 4096, place * 4096)' \"$1\"";
    let files = Files::new();
    let file = files.cold("file", 32 << 20);
    // CPU time outside of fetches: other programs on the machine make it longer, none makes it shorter.
    let rest = || {
        let snapshot = measure(NAME, READS, &[&file])?;
        let cpu: Duration = snapshot.processes.iter().map(|one| one.cpu_time).sum();
        Some(cpu.saturating_sub(time(&snapshot, &[Counter::FetchCpu])))
    };
    let (mut cold, mut warm) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        evict(&fs::File::open(&file).unwrap());
        let (Some(first), Some(second)) = (rest(), rest()) else {
            return;
        };
        (cold, warm) = (cold.min(first), warm.min(second));
    }
    assert!(cold <= warm * 3 / 2, "{cold:?} cold, {warm:?} warm");
}

#[test]
fn waits_for_a_journal_are_no_metadata() {
    const NAME: &str = "waits_for_a_journal";
    // The first file has the metadata read that the others need. Two programs sync new files; the third truncates and
    // removes resident ones.
    const SCRIPT: &str = "exec unshare --mount sh -ec '
cd \"$1\"
truncate -s 256M image
mkfs.ext4 -q -F -J size=4 -E lazy_itable_init=0,lazy_journal_init=0 image
mkdir mounted
mount -o loop image mounted
cd mounted
dd if=/dev/zero of=first bs=64k count=4
unlink first
for busy in 1 2; do
    while [ ! -e end ]; do dd if=/dev/zero of=busy$busy bs=64k count=4 conv=fsync; done &
done
for round in 1 2 3 4 5 6 7 8; do
    for file in 1 2 3 4 5 6 7 8 9 10; do
        head -c 200000 /dev/zero >file$file
        : >file$file
        rm file$file
    done
done
: >end
wait
' sh \"$1\"";
    const TRIES: usize = 5;
    for _ in 0..TRIES {
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(snapshot) = measure(NAME, SCRIPT, &[scratch.path()]) else {
            return;
        };
        // Mounting reads metadata; the shell and rm truncate and remove.
        let changes = ledger_of(&snapshot, &["sh", "rm"]);
        if changes[Counter::MetadataPages] > 0 {
            // Directories of programs were cold: they waited for these pages, too.
            continue;
        }
        let metadata = changes.time(&[Counter::WaitedMetadata]).exact().unwrap();
        let file_system = time(&snapshot, &[Counter::WaitedFilesystem]);
        assert!(
            metadata * 5 <= file_system,
            "{metadata:?}: {:?}",
            parts_of(&snapshot)
        );
        return;
    }
    panic!("the shell and rm read metadata in each of {TRIES} runs");
}

/// Counts of the processes of these programs.
fn ledger_of(snapshot: &Snapshot, programs: &[&str]) -> Ledger {
    let is_of = |row: &&cachewise_probe::Row| {
        snapshot.processes.iter().any(|process| {
            Some(process.id) == row.process && programs.contains(&process.command.as_str())
        })
    };
    let rows = snapshot.rows.iter().filter(is_of);
    rows.map(|row| row.ledger.clone()).sum()
}
