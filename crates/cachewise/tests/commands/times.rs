//! Times of tasks: real programs, with the parts that their time has and the findings that follow from them.

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("parts::add_up", parts_add_up),
        needs_root("verdict::of_a_cold_read", verdict_of_a_cold_read),
        needs_root("verdict::of_a_calculation", verdict_of_a_calculation),
        needs_root("fsync::once_for_many_writes", fsync_once_for_many_writes),
        needs_root(
            "verify::cold_read_runs_again_warm",
            cold_read_runs_again_warm,
        ),
        needs_root(
            "verify::changes_forbid_another_run",
            changes_forbid_another_run,
        ),
    ]
}

const MIB: u64 = 1 << 20;

fn seconds(object: &Value, name: &str) -> f64 {
    object[name].as_f64().expect("a number of seconds")
}

/// CPU time that the host of a virtual machine took, in ticks (proc_stat(5), "steal").
fn stolen_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("it can be read");
    let steal = stat.split_whitespace().nth(8);
    steal.and_then(|ticks| ticks.parse().ok()).expect("a count")
}

/// The parts come from the scheduler's events and the kernel's accounts, the whole from its start times. No account of a
/// task has the time that the host takes from its CPU: a run during which that rose is repeated. Nor has one the time in
/// which a CPU looks for its next task: nothing runs beside this test.
fn parts_add_up() {
    const TRIES: usize = 20;
    let scratch = Scratch::new();
    let file = scratch.file("file", 256 * MIB);
    let name = file.to_str().expect("an ordinary name");
    // Each takes some tenths of a second: ticks of stolen time show then.
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let commands: [&[&str]; 6] = [
        &["cat", name],
        &[
            "dd",
            &format!("if={name}"),
            "of=/dev/null",
            "bs=4k",
            "count=4096",
            "iflag=direct",
        ],
        &["sha256sum", name],
        &["sh", "-c", count],
        &["tar", "cf", "/dev/null", "--", name],
        &["find", "/usr", "-name", "copyright", "-size", "+1M"],
    ];
    for command in commands {
        for attempt in 1..=TRIES {
            evict(&file);
            let stolen = stolen_ticks();
            let report = report_of(&[], command);
            let times = &report.json["times"];
            let (whole, unexplained) = (
                seconds(times, "task_seconds"),
                seconds(times, "unexplained_seconds"),
            );
            if unexplained.abs() <= 0.05 * whole {
                break;
            }
            assert!(
                attempt < TRIES && stolen_ticks() != stolen,
                "{command:?}: {times}"
            );
        }
    }
}

/// Reads pages of a file in another order than that in which they lie.
const SHUFFLED: &str = "
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
places = list(range(os.fstat(file).st_size // 4096))
random.Random(7).shuffle(places)
for place in places:
    os.pread(file, 4096, place * 4096)
";

fn verdict_of_a_cold_read() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 * MIB);
    let name = file.to_str().expect("an ordinary name");
    let read = || report_of(&[], ["python3", "-c", SHUFFLED, name]);
    evict(&file);
    let cold = read();
    let of_file = cold.file(&file);
    assert!(
        seconds(of_file, "waited_missed_seconds") > 0.0,
        "the file is waited for: {of_file}"
    );
    let verdict = cold.json["verdict"].as_str().unwrap_or_default();
    assert!(verdict.contains("warm, this would take about"), "{verdict}");
    // The prediction is that the waits go.
    undisturbed(|| {
        let warm = read();
        let of_file = warm.file(&file);
        if number(of_file, "read_missed_pages") > 0 {
            return None;
        }
        assert_eq!(seconds(of_file, "waited_missed_seconds"), 0.0, "{of_file}");
        Some(())
    });
}

fn verdict_of_a_calculation() {
    let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    // Proactive reclaim may have evicted the shell.
    undisturbed(|| {
        let report = report_of(&[], ["sh", "-c", count]);
        let verdict = report.json["verdict"].as_str().unwrap_or_default();
        if number(&report.json["totals"], "fetched_bytes") > 0 {
            return None;
        }
        assert!(
            verdict.starts_with("the page cache is not your problem")
                && !verdict.contains("warm, "),
            "{verdict}"
        );
        Some(())
    });
}

/// Writes as many pages as the second argument says, and syncs after each group of as many as the third says.
const JOURNAL: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
writes, group = int(sys.argv[2]), int(sys.argv[3])
for number in range(writes):
    os.write(file, b'x' * 4096)
    if (number + 1) % group == 0:
        os.fsync(file)
";

fn fsync_once_for_many_writes() {
    let scratch = Scratch::new();
    let file = scratch.path("journal");
    let name = file.to_str().expect("an ordinary name");
    let write = |writes: u32, group: u32| {
        let numbers = [writes.to_string(), group.to_string()];
        report_of(
            &[],
            ["python3", "-c", JOURNAL, name, &numbers[0], &numbers[1]],
        )
    };
    // As many as take a tenth of a second: devices differ.
    let found = (0..6).find_map(|doubled| {
        let writes = 1000 << doubled;
        let report = write(writes, 1);
        let finding = report
            .findings("fsync_waits")
            .first()
            .map(|&one| one.clone());
        finding.map(|finding| (writes, finding, report))
    });
    let Some((writes, finding, each)) = found else {
        return println!("skipped: times::fsync: 32,000 calls of fsync take less than 0.1 s here");
    };
    assert_eq!(
        finding["subject"], name,
        "the file that is synced: {finding}"
    );
    let once = write(writes, writes);
    assert_eq!(once.findings("fsync_waits").len(), 0, "the fix");
    let waited = |report: &Report| seconds(&report.json["times"], "waited_sync_seconds");
    assert!(
        waited(&once) < waited(&each),
        "{} and {} s",
        waited(&once),
        waited(&each)
    );
}

fn cold_read_runs_again_warm() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 * MIB);
    let name = file.to_str().expect("an ordinary name");
    undisturbed(|| {
        evict(&file);
        let report = report_of(&["--verify"], ["python3", "-c", SHUFFLED, name]);
        let (cold, warm) = (&report.json["times"], &report.json["verification"]);
        assert_eq!(
            seconds(warm, "predicted_seconds"),
            seconds(cold, "warm_seconds"),
            "the prediction of the first run"
        );
        if number(warm, "missed_pages") > 0 {
            return None;
        }
        let (warm, cold) = (seconds(warm, "cold_seconds"), seconds(cold, "cold_seconds"));
        assert!(warm < cold, "{warm} s after {cold} s");
        Some(())
    });
}

/// The script appends a line to its first argument, so that the lines are the number of runs.
fn changes_forbid_another_run() {
    let scratch = Scratch::new();
    let log = scratch.file("log", 0);
    let name = log.to_str().expect("an ordinary name");
    let append =
        |options: &[&str], script: &str| report_of(options, ["sh", "-c", script, "sh", name]);
    let lines = || std::fs::read(&log).expect("the log").len();
    let write = "echo >>\"$1\"";
    let report = append(&["--verify"], write);
    let refused = report.json["verification"]["refused"].as_str();
    assert!(
        refused.is_some_and(|reason| reason.contains("wrote") && reason.contains("--prepare")),
        "{refused:?}"
    );
    assert_eq!(lines(), 1, "it ran once");
    append(&["--verify", "--yes"], write);
    assert_eq!(lines(), 3, "twice");
    let clear = format!(": >{name}");
    append(&["--verify", "--prepare", &clear], write);
    assert_eq!(lines(), 1, "once more on an empty file");
    let report = append(&["--verify"], "rm -f \"$1.none\"");
    let refused = report.json["verification"]["refused"].as_str();
    assert!(
        refused.is_some_and(|reason| reason.contains("removed files")),
        "{refused:?}"
    );
}
