//! Settings that are changed, and put back in every case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachewise_control::{Error, Journal, Recovered, Setting, SettingTarget, Unsure, running};
use cachewise_kstat::Kernel;

fn recover(directory: &Path) -> Result<Vec<Result<Recovered, Error>>, Error> {
    cachewise_control::recover(directory, Unsure::Leave)
}

/// Two settings, and a place for state files.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        let machine = Self { root };
        machine.set("a", "60\n");
        machine.set("b", "always [madvise] never\n");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    fn set(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file of ours");
    }

    fn get(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).expect("a file of ours");
        text.trim_end().to_owned()
    }

    fn changed(&self) -> Journal {
        let mut journal = Journal::open(&self.state(), "test").expect("a directory of ours");
        for (name, value) in [("a", "10"), ("b", "never"), ("a", "20")] {
            let changed = journal.change(name, &self.path(name), value, &[]);
            changed.expect("it can be written");
        }
        journal
    }

    fn files(&self) -> usize {
        let files = fs::read_dir(self.state()).expect("it is there");
        files.count()
    }

    /// Makes the state file that of a process that has ended.
    fn orphan(&self, journal: Journal) {
        let path = journal.path().to_owned();
        std::mem::forget(journal);
        let text = fs::read_to_string(&path).expect("it was changed, so it is noted");
        let own = cachewise_control::Owner::current()
            .expect("we run")
            .to_string();
        let mut numbers: Vec<&str> = own.split('-').collect();
        numbers[1] = "0";
        let orphan = text.replace(&own, &numbers.join("-"));
        assert_ne!(orphan, text, "the owner is in it");
        fs::remove_file(&path).expect("a file of ours");
        fs::write(self.state().join("state-orphan.json"), orphan).expect("a directory of ours");
    }
}

#[test]
fn settings_are_put_back_to_what_they_were_before_the_first_change() {
    let machine = Machine::new();
    let mut journal = machine.changed();
    assert_eq!(
        (&*machine.get("a"), &*machine.get("b")),
        ("20", "never"),
        "changed"
    );
    assert!(journal.path().exists(), "and noted");
    let restored = journal.restore().unwrap();
    assert_eq!(restored.restored.len(), 2, "{restored:?}");
    assert_eq!(
        (&*machine.get("a"), &*machine.get("b")),
        ("60", "madvise"),
        "as before"
    );
    assert_eq!(machine.files(), 0, "nothing is left to be done");
}

#[test]
fn a_panic_puts_them_back() {
    let machine = Machine::new();
    let panicked = std::panic::catch_unwind(|| {
        let _journal = machine.changed();
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(panicked.is_err(), "it did");
    assert_eq!(machine.get("a"), "60", "by unwinding");
    assert_eq!(machine.files(), 0, "nothing is left to be done");
}

#[test]
fn after_a_crash_the_next_start_puts_them_back() {
    let machine = Machine::new();
    machine.orphan(machine.changed());
    machine.set("state/.new-1-1-1", "of another namespace");
    let own = cachewise_control::Owner::current().unwrap().to_string();
    let dead = own
        .replacen('-', "-0", 1)
        .replacen(&std::process::id().to_string(), "4194304", 1);
    machine.set(&format!("state/.new-{dead}"), "half a");
    assert_eq!(machine.get("a"), "20", "nobody has put it back");
    let mut recovered = recover(&machine.state()).unwrap();
    let recovered = recovered.remove(0).unwrap();
    assert_eq!(recovered.by, "test", "who it was");
    assert_eq!(recovered.restored.restored.len(), 2, "{recovered:?}");
    assert_eq!(
        (&*machine.get("a"), &*machine.get("b")),
        ("60", "madvise"),
        "as before"
    );
    assert_eq!(
        machine.files(),
        1,
        "done once, and of drafts only that which may be in use stays"
    );
    assert!(
        recover(&machine.state()).unwrap().is_empty(),
        "and not twice"
    );
    assert!(
        recover(Path::new("/no/such")).unwrap().is_empty(),
        "nothing was left"
    );
}

#[test]
fn what_runs_is_left_alone_and_keeps_others_away() {
    let machine = Machine::new();
    let journal = machine.changed();
    assert!(recover(&machine.state()).unwrap().is_empty(), "we run");
    let other = machine.state().join("state-other.json");
    fs::rename(journal.path(), &other).unwrap();
    let mut second = Journal::open(&machine.state(), "second").unwrap();
    let error = second
        .change("a", &machine.path("a"), "5", &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("`cachewise test`"), "who has it: {error}");
    assert_eq!(machine.get("a"), "20", "and it was not touched");
    fs::rename(&other, journal.path()).unwrap();
}

#[test]
fn state_files_are_used_by_one_process_at_a_time() {
    use rustix::fs::{FlockOperation, flock};
    let machine = Machine::new();
    machine.orphan(machine.changed());
    let other = fs::File::open(machine.state()).unwrap();
    flock(&other, FlockOperation::LockExclusive).unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    let state = machine.state();
    let thread = std::thread::spawn(move || {
        let recovered = recover(&state).unwrap().len();
        said.send(recovered).unwrap();
    });
    let early = heard.recv_timeout(std::time::Duration::from_millis(300));
    assert!(early.is_err(), "another one is at it: {early:?}");
    assert_eq!(machine.get("a"), "20", "so nothing is touched");
    drop(other);
    assert_eq!(heard.recv().unwrap(), 1, "and then it is used");
    thread.join().unwrap();
    assert_eq!(machine.get("a"), "60", "put back");
}

/// Killed between the writing of one setting and the look at what changed with it.
#[test]
fn what_changed_with_another_is_put_back_after_a_kill_in_between() {
    let machine = Machine::new();
    let mut journal = Journal::open(&machine.state(), "test").unwrap();
    let beside = [machine.path("b")];
    journal
        .change("a", &machine.path("a"), "10", &beside)
        .unwrap();
    let text = fs::read_to_string(journal.path()).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let entries = document["entries"].as_array_mut().unwrap();
    let of_b = entries
        .iter_mut()
        .find(|entry| entry["before"] == "madvise");
    of_b.unwrap()["ours"] = serde_json::json!([]);
    fs::write(journal.path(), document.to_string()).unwrap();
    machine.set("b", "always madvise [never]\n");
    machine.orphan(journal);
    let recovered = recover(&machine.state()).unwrap().remove(0).unwrap();
    assert!(recovered.restored.left.is_empty(), "{recovered:?}");
    assert_eq!(machine.get("a"), "60", "put back");
    assert_eq!(machine.get("b"), "madvise", "and what changed with it");
}

#[test]
fn what_somebody_else_has_set_since_is_theirs() {
    let machine = Machine::new();
    let mut journal = machine.changed();
    machine.set("a", "77\n");
    fs::remove_file(machine.path("b")).unwrap();
    let restored = journal.restore().unwrap();
    assert_eq!(restored.left[0].1, "77", "{restored:?}");
    assert_eq!(restored.gone.len(), 1, "{restored:?}");
    assert_eq!(machine.get("a"), "77", "left alone");
}

#[test]
fn state_files_that_cannot_be_trusted_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    machine.orphan(machine.changed());
    let file = machine.state().join("state-orphan.json");
    let good = fs::read_to_string(&file).unwrap();
    for (text, why) in [
        ("", "EOF"),
        ("{}", "missing field"),
        (
            &good.replace("\"schema_version\": 2", "\"schema_version\": 9"),
            "version 9",
        ),
        (&good[..good.len() / 2], "EOF"),
        (&good.replace("\"by\"", "\"who\""), "unknown field"),
    ] {
        fs::write(&file, text).unwrap();
        let error = recover(&machine.state())
            .unwrap()
            .remove(0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(why) && error.contains("by hand"),
            "{text:?}: {error}"
        );
    }
    assert_eq!(machine.get("a"), "20", "nothing was written");
    fs::write(&file, good.replace(&boot(), "another")).unwrap();
    let recovered = recover(&machine.state()).unwrap().remove(0).unwrap();
    assert!(
        recovered.restored.restored.is_empty(),
        "of an earlier boot: {recovered:?}"
    );
    assert_eq!(machine.get("a"), "20", "what it is now, this boot made it");

    fs::set_permissions(machine.state(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Journal::open(&machine.state(), "test")
        .unwrap_err()
        .to_string();
    assert!(error.contains("others may write"), "{error}");
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("every kernel has it");
    id.trim().to_owned()
}

#[test]
fn a_setting_that_can_only_be_put_back_through_another_is() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: dirty_bytes: it takes root");
        return;
    }
    let kernel = Kernel::new();
    let target = SettingTarget {
        kernel: &kernel,
        file: None,
    };
    let state = tempfile::tempdir().unwrap();
    let read = |name| Setting::find(name).unwrap().read(target).unwrap();
    let names = ["vm.dirty_bytes", "vm.dirty_ratio"];
    let before = names.map(read);
    let mut journal = Journal::open(&state.path().join("state"), "test").unwrap();
    let setting = Setting::find("vm.dirty_bytes").unwrap();
    let path = setting.path(target).unwrap().unwrap();
    let beside = setting.paths_beside(target);
    journal
        .change(setting.name, &path, "1073741824", &beside)
        .unwrap();
    assert_eq!(
        read("vm.dirty_ratio").as_deref(),
        Some("0"),
        "the one rules out the other"
    );
    let restored = journal.restore().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    assert_eq!(names.map(read), before, "both are as before");
}

/// The name of the test that is the process to be killed, when it runs itself.
const KILLED: &str = "a_process_that_is_killed_leaves_its_state_file";

#[test]
fn a_run_of_another_pid_namespace_is_restored_once_it_has_ended() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a run of another PID namespace: it takes root to make one");
        return;
    }
    let machine = Machine::new();
    let mut command = Command::new("unshare");
    command
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", KILLED])
        .env("CACHEWISE_TEST_ROOT", machine.root.path());
    cachewise_sys::die_with_spawner(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: a run of another PID namespace: unshare(1): {error}");
            return;
        }
    };
    while !machine.path("ready").exists() {
        if let Some(status) = child.try_wait().unwrap() {
            println!("skipped: a run of another PID namespace: unshare(1) ended with {status}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(machine.get("a"), "10", "it has changed the setting");
    assert!(recover(&machine.state()).unwrap().is_empty(), "it runs");
    let runs = running(&machine.state()).unwrap();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].by, "killed", "{runs:?}");
    let forced = cachewise_control::recover(&machine.state(), Unsure::PutBack).unwrap();
    assert!(
        forced.is_empty(),
        "its lock is proof that it runs: {forced:?}"
    );
    assert_eq!(machine.get("a"), "10", "left alone");

    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel kills the process inside a little later.
    let found = (0..4_000).find_map(|_| {
        let found = recover(&machine.state()).unwrap().pop();
        if found.is_none() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        found
    });
    let found = found.expect("its lock is released").unwrap();
    assert_eq!(found.by, "killed", "{found:?}");
    assert_eq!(machine.get("a"), "60", "as before");
    assert_eq!(machine.files(), 0, "nothing is left to be done");
}

#[test]
fn a_run_that_cannot_be_seen_to_have_ended_is_restored_on_demand_only() {
    let machine = Machine::new();
    machine.orphan(machine.changed());
    let file = machine.state().join("state-orphan.json");
    let own = cachewise_control::Owner::current().unwrap().to_string();
    let namespace = own.rsplit('-').next().unwrap();
    // A state file of version 1, which held no lock.
    let text = fs::read_to_string(&file).unwrap();
    let text = text
        .replace(&format!("-{namespace}\""), "-1\"")
        .replace("\"schema_version\": 2", "\"schema_version\": 1");
    fs::write(&file, &text).unwrap();
    let found = recover(&machine.state()).unwrap().remove(0);
    let error = found.unwrap_err().to_string();
    assert!(error.contains("another PID namespace"), "{error}");
    assert!(error.contains("--force"), "{error}");
    assert_eq!(machine.get("a"), "20", "left alone");
    assert!(
        running(&machine.state()).unwrap().is_empty(),
        "not known to run"
    );

    let mut forced = cachewise_control::recover(&machine.state(), Unsure::PutBack).unwrap();
    let found = forced.remove(0).unwrap();
    assert_eq!(found.restored.restored.len(), 2, "{found:?}");
    assert_eq!(machine.get("a"), "60", "as before");

    // No process outlives its boot.
    fs::write(&file, text.replace(&boot(), "another")).unwrap();
    let found = recover(&machine.state()).unwrap().remove(0).unwrap();
    assert!(found.restored.restored.is_empty(), "{found:?}");
    assert_eq!(machine.files(), 0, "nothing is left to be done");
}

#[test]
fn a_process_that_is_killed_leaves_its_state_file() {
    // The test runs itself: this is what the other does.
    if let Some(root) = std::env::var_os("CACHEWISE_TEST_ROOT") {
        let root = PathBuf::from(root);
        let mut journal = Journal::open(&root.join("state"), "killed").unwrap();
        journal.change("a", &root.join("a"), "10", &[]).unwrap();
        fs::write(root.join("ready"), "").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1000));
    }
    let machine = Machine::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", KILLED])
        .env("CACHEWISE_TEST_ROOT", machine.root.path());
    // Also when this test fails.
    cachewise_sys::die_with_spawner(&mut command);
    let mut child = command.spawn().unwrap();
    while !machine.path("ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it waits to be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(machine.get("a"), "10", "it has changed the setting");
    child.kill().unwrap();
    child.wait().unwrap();
    let recovered = recover(&machine.state()).unwrap().remove(0).unwrap();
    assert_eq!(recovered.by, "killed", "{recovered:?}");
    assert_eq!(machine.get("a"), "60", "as before");
}
