//! `bench matrix`: settings times workloads, and the settings put back in every case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("a_a::no_significance", an_arm_beside_itself),
        needs_root(
            "restored::after_kill_9_and_it_goes_on",
            killed_in_the_middle,
        ),
        needs_root(
            "restored::after_kill_9_in_another_pid_namespace",
            killed_in_a_container,
        ),
        needs_root("restored::after_a_signal", interrupted),
        needs_root("dry_run::touches_nothing", dry_run),
        needs_root("refused::what_cannot_be", what_cannot_be),
    ]
}

/// A setting without effect on other programs within seconds: readahead of swap.
const SETTING: &str = "/proc/sys/vm/page-cluster";

/// Where a matrix lies, with its results and state files.
struct MatrixDirectory(Scratch);

impl MatrixDirectory {
    fn path(&self, name: &str) -> PathBuf {
        self.0.directory().join(name)
    }

    fn matrix(&self, text: &str) -> Command {
        fs::write(self.path("m.toml"), text).expect("the disk has room");
        let mut command = cachewise(["bench", "matrix", "--state"]);
        command.arg(self.path("state")).arg(self.path("m.toml"));
        command
    }

    /// Two arms, of which the second changes the setting.
    fn changing(&self, other: u64) -> String {
        format!(
            "repeats = 5\n[[arm]]\nname = \"changed\"\nsettings = {{ \"vm.page-cluster\" = {other} }}\n\n\
             [workload.read]\nfile = \"{}\"\nsize = \"4M\"\ntime = 0.3\nfill = \"cold\"\n",
            self.path("data").display()
        )
    }

    fn results(&self) -> usize {
        let text = fs::read_to_string(self.path("m.results.jsonl")).unwrap_or_default();
        // The first line says whose they are.
        text.lines().count().saturating_sub(1)
    }
}

fn setting() -> String {
    fs::read_to_string(SETTING)
        .expect("every kernel has it")
        .trim()
        .to_owned()
}

/// The present value of the setting, and another value.
fn values() -> (String, u64) {
    let before = setting();
    let number: u64 = before.parse().expect("a number");
    (before, number + 1)
}

fn an_arm_beside_itself() {
    let place = MatrixDirectory(Scratch::new());
    let text = format!(
        "seed = 3\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n\n[workload.read]\nfile = \"{}\"\nsize = \"8M\"\n\
         bytes = \"8M\"\nchunk = \"64K\"\nfill = \"cold\"\n",
        place.path("data").display()
    );
    let html = place.path("m.html");
    let mut command = place.matrix(&text);
    command.args([
        "--html",
        html.to_str().expect("an ordinary name"),
        "-o",
        "json",
    ]);
    let ended = Ended::of(&mut command).expect(0, "an A/A matrix");
    let report: Value = serde_json::from_slice(&ended.out).expect("one document");
    assert_eq!(
        (&report["done"], &report["planned"]),
        (&10.into(), &10.into()),
        "all of it: {report}"
    );
    let comparisons = report["comparisons"].as_array().expect("a list");
    assert_eq!(
        comparisons[0]["measure"], "device_bytes_per_useful_byte",
        "it leads"
    );
    assert_eq!(
        comparisons[0]["is_significant"], false,
        "the same is the same: {report}"
    );
    let verdict = comparisons[0]["verdict"].as_str().expect("words");
    assert!(verdict.contains("no significance"), "in words: {verdict}");
    let html = fs::read_to_string(html).expect("it was written");
    assert!(
        html.contains("<svg") && html.contains("no significance"),
        "with plots and words"
    );
    assert!(
        !html.contains("http://") && !html.contains("https://"),
        "it needs nothing else"
    );

    assert!(
        !place.path("data").exists(),
        "the file that was made is gone"
    );
    let again = Ended::of(&mut place.matrix(&text)).expect(0, "all is done already");
    assert!(
        again.out().contains("no significance"),
        "said again: {}",
        again.out()
    );
    assert_eq!(place.results(), 10, "and nothing is run again");
    let other = text.replace("seed = 3", "seed = 4");
    let ended = Ended::of(&mut place.matrix(&other)).expect(2, "another matrix");
    ended.says("another matrix", "results are not mixed");
}

/// A matrix while the arm that changes the setting runs.
fn started(place: &MatrixDirectory, other: u64, before: &str) -> Started {
    let started = Started::of(&mut place.matrix(&place.changing(other)));
    until("a run is done and the setting changed", || {
        (place.results() > 0 && setting() != before).then_some(())
    });
    started
}

/// Processes of a container have ids that mean nothing outside: the lock on the state file says that one has ended.
fn killed_in_a_container() {
    let (before, other) = values();
    let place = MatrixDirectory(Scratch::new());
    let matrix = place.matrix(&place.changing(other));
    let mut inside = Command::new("unshare");
    inside
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(matrix.get_program())
        .args(matrix.get_args());
    let started = Started::of(&mut inside);
    let mut restore = cachewise(["bench", "restore", "--state"]);
    restore.arg(place.path("state"));
    // Between two runs nothing is changed, and nothing to be restored.
    let meanwhile = until("a setting is changed while it runs", || {
        let ended = Ended::of(&mut restore);
        ended.err().contains("still runs").then_some(ended)
    });
    let said = meanwhile.expect(0, "it runs").err();
    assert!(!said.contains("no settings to restore"), "{said}");
    signal(started.pid(), Signal::KILL);
    started.wait();
    let restored = until("the process inside has ended", || {
        let ended = Ended::of(&mut restore);
        (!ended.err().contains("still runs")).then_some(ended)
    });
    assert_eq!(setting(), before, "{}", restored.err());
    assert!(is_empty(&place.path("state")), "no state file is left");
}

fn killed_in_the_middle() {
    let (before, other) = values();
    let place = MatrixDirectory(Scratch::new());
    let started = started(&place, other, &before);
    signal(started.pid(), Signal::KILL);
    started.wait();
    let left = setting();
    let mut restore = cachewise(["bench", "restore", "--state"]);
    let restored = Ended::of(restore.arg(place.path("state")));
    assert_eq!(
        setting(),
        before,
        "as before the matrix: {}",
        restored.err()
    );
    if left != before {
        restored
            .expect(0, "all is put back")
            .says(SETTING, "what it did");
    }
    assert!(is_empty(&place.path("state")), "no state file is left");

    // Killed again, and this time the next start of the matrix itself puts it back; it goes on where it was.
    let started = self::started(&place, other, &before);
    signal(started.pid(), Signal::KILL);
    started.wait();
    let done = place.results();
    assert!((1..10).contains(&done), "in the middle: {done}");
    let ended = Ended::of(&mut place.matrix(&place.changing(other))).expect(0, "it goes on");
    assert!(
        ended.out().contains("10 of 10 runs"),
        "to its end: {}",
        ended.out()
    );
    assert_eq!(place.results(), 10, "each once");
    assert_eq!(setting(), before, "as before the matrix");
    assert!(is_empty(&place.path("state")), "no state file is left");
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| entries.count() == 0)
}

fn interrupted() {
    for (which, number) in [(Signal::TERM, 15), (Signal::QUIT, 3)] {
        let (before, other) = values();
        let place = MatrixDirectory(Scratch::new());
        let started = started(&place, other, &before);
        signal(started.pid(), which);
        let ended = started.wait();
        assert_eq!(
            ended.code(),
            128 + number,
            "as shells have it: {}",
            ended.err()
        );
        assert_eq!(setting(), before, "as before");
        assert!(
            ended.out().contains("start it again to go on"),
            "what is known so far: {}",
            ended.out()
        );
    }
}

fn dry_run() {
    let (before, other) = values();
    let place = MatrixDirectory(Scratch::new());
    let text = place.changing(other).replace(
        "[workload",
        "[[arm]]\nname = \"new\"\nsettings = { \"lru_gen.enabled\" = \"y\" }\n[workload",
    );
    let ended = Ended::of(place.matrix(&text).arg("--dry-run")).expect(0, "a plan");
    let out = ended.out();
    assert!(
        out.contains("vm.page-cluster = ") && out.contains("run 10:"),
        "the plan: {out}"
    );
    if !Path::new("/sys/kernel/mm/lru_gen").exists() {
        assert!(
            out.contains("arm new: skipped: lru_gen.enabled") && out.contains("CONFIG_LRU_GEN"),
            "why: {out}"
        );
    }
    assert_eq!(setting(), before, "untouched");
    for name in ["data", "state", "m.results.jsonl"] {
        assert!(!place.path(name).exists(), "{name} is not made");
    }
}

fn what_cannot_be() {
    let (before, other) = values();
    let place = MatrixDirectory(Scratch::new());
    let good = place.changing(other);
    for (text, why) in [
        (good.replace("fill", "fil"), "unknown field `fil`"),
        (good.replace("repeats", "repeat"), "line 1"),
        (good.replace(&format!("= {other}"), "= 99"), "from 0 to 31"),
        (
            good.replace("page-cluster", "page-clusters"),
            "did you mean vm.page-cluster?",
        ),
        (String::new(), "no workload"),
    ] {
        let ended = Ended::of(&mut place.matrix(&text)).expect(2, why);
        ended.says(why, "what is wrong").says("m.toml", "where");
    }
    // All that is known before the first run is said before it, and nothing is left.
    let file = place.path("data").display().to_string();
    for (text, more, why) in [
        (
            good.replace(&file, "/no/data")
                .replace("size = \"4M\"\n", ""),
            &[][..],
            "workload \"read\": open /no/data",
        ),
        (good.replace("0.3", "inf"), &[], "inf is not a time"),
        (good.replace("\"4M\"", "inf"), &[], "inf is not a size"),
        (good.replace("0.3", "1e18"), &[], "longer than a year"),
        (
            good.clone(),
            &["--html", "/proc/page.html"],
            "/proc/page.html",
        ),
    ] {
        let ended = Ended::of(place.matrix(&text).args(more)).expect(2, why);
        assert_eq!(ended.out(), "", "there is nothing to report");
        ended.says(why, "what is wrong");
        assert!(!place.path("m.results.jsonl").exists(), "{why}");
    }
    Ended::of(place.matrix(&good).args(["-o", "openmetrics"]))
        .expect(2, "nothing to scrape")
        .says("csv or markdown", "what there is");
    let csv = Ended::of(place.matrix(&good).args(["--dry-run", "-o", "csv"])).expect(0, "rows");
    assert!(
        csv.out().starts_with("run,repeat,workload,arm,"),
        "{}",
        csv.out()
    );
    Ended::of(&mut cachewise(["bench", "matrix", "/no/such.toml"]))
        .expect(2, "no file")
        .says("/no/such.toml", "which");

    let mut nobody = cachewise_as_nobody(&place.0);
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    use std::os::unix::fs::PermissionsExt;
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(directory.path(), open).expect("it is ours");
    let text = good.replace(
        &*place.0.directory().to_string_lossy(),
        &directory.path().to_string_lossy(),
    );
    fs::write(directory.path().join("m.toml"), text).expect("the disk has room");
    nobody
        .args(["bench", "matrix", "--state"])
        .arg(directory.path().join("state"))
        .arg(directory.path().join("m.toml"));
    Ended::of(&mut nobody)
        .expect(2, "not root")
        .says("it takes root", "what next");
    let state = place.path("foreign");
    fs::create_dir(&state).expect("the disk has room");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut nobody = cachewise_as_nobody(&place.0);
    nobody.args(["bench", "restore", "--state"]).arg(&state);
    Ended::of(&mut nobody)
        .expect(2, "another's directory")
        .says("--state DIR", "what next");
    assert_eq!(setting(), before, "untouched");
}
