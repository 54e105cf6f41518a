//! `try`: each fix improves a counted figure of a real program, and is undone afterwards.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("fixes::random_touches", random_touches),
        needs_root("fixes::too_much_readahead", too_much_readahead),
        needs_root("fixes::limit_of_a_group", limit_of_a_group),
        needs_root("fixes::direct_rereads_of_a_static_program", direct_rereads),
        needs_root("fixes::warm_files", warm_files),
        needs_root("fixes::populated_mapping", populated_mapping),
        needs_root("refused::changed_files", changed_files_are_refused),
        needs_root("refused::failing_command", failing_command_is_refused),
        needs_root("restored::after_signals", restored_after_signals),
        needs_root(
            "restored::traced_command_ends_with_it",
            traced_command_ends_with_it,
        ),
        needs_root("answer::in_every_format", answer_in_every_format),
        plain("refused::missing_rights_leave_no_file", missing_rights),
        plain("usage::unknown_fix", unknown_fix),
    ]
}

const MIB: u64 = 1 << 20;

/// `try` of these fixes, two rounds each, as JSON.
fn try_fixes(scratch: &Scratch, fixes: &[&str], options: &[&str]) -> Command {
    let mut command = cachewise(["try", "-o", "json", "--rounds", "2", "--state"]);
    command.arg(scratch.path("state")).args(options).args(fixes);
    command.arg("--");
    command
}

fn answer(command: &mut Command) -> Value {
    let ended = Ended::of(command).expect(0, "it can be tried");
    serde_json::from_slice(&ended.out).expect("JSON")
}

fn has_python(test: &str) -> bool {
    let found = Command::new("python3").arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: {test}: python3 is not installed");
    }
    is_there
}

/// Touches single bytes at random places of a mapping.
const TOUCHES: &str = "
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
    places = random.Random(7)
    sum(view[places.randrange(size)] for _ in range(400))
";

fn random_touches() {
    if !has_python("try::random_touches") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 192 * MIB);
    let fixes = ["advice=random", "madvise=random", "fadvise=random"];
    let mut command = try_fixes(&scratch, &fixes, &[]);
    let answer = answer(command.args(["python3", "-c", TOUCHES]).arg(&file));
    for fix in &fixes[..2] {
        let (without, with) = means(&answer, fix, "device_read_bytes");
        assert!(
            with * 4.0 < without,
            "{fix}: {with} bytes instead of {without}: {answer}"
        );
    }
    let (waited, _) = means(&answer, "madvise=random", "waited_fault_seconds");
    assert!(waited > 0.0, "cold faults wait: {answer}");
    let (without, with) = means(&answer, "fadvise=random", "device_read_bytes");
    assert!(
        with * 2.0 > without,
        "advice on a file is none on its mapping: {with}, {without}"
    );
}

/// A file system on a loop device, whose readahead a test may change.
struct Mounted {
    directory: PathBuf,
    setting: PathBuf,
}

impl Mounted {
    fn on(scratch: &Scratch) -> Option<Mounted> {
        let (image, directory) = (scratch.path("image"), scratch.path("mounted"));
        fs::create_dir(&directory).expect("there is room");
        let file = fs::File::create(&image).expect("there is room");
        file.set_len(160 * MIB).expect("it is sparse");
        let script = "mkfs.ext4 -q -F \"$1\" && mount -o loop \"$1\" \"$2\"";
        let mut make = Command::new("sh");
        make.args(["-c", script, "sh"]).arg(&image).arg(&directory);
        if !make.status().is_ok_and(|status| status.success()) {
            println!("skipped: try: mkfs.ext4 or loop devices are missing");
            return None;
        }
        let mounted = fs::read_to_string("/proc/self/mountinfo").expect("every kernel has it");
        let name = directory.to_str().expect("an ordinary name");
        let line = mounted.lines().find(|line| line.contains(name));
        let device = line.and_then(|line| line.split(' ').nth(2));
        let device = device.expect("it is mounted");
        let setting = format!("/sys/dev/block/{device}/queue/read_ahead_kb");
        Some(Mounted {
            directory,
            setting: setting.into(),
        })
    }

    fn readahead(&self) -> String {
        let text = fs::read_to_string(&self.setting).expect("a device has it");
        text.trim().to_owned()
    }

    fn file(&self) -> PathBuf {
        let file = self.directory.join("data");
        let mut command = Command::new("dd");
        command.args(["if=/dev/urandom", "bs=1M", "count=96", "status=none"]);
        let status = command.arg(format!("of={}", file.display())).status();
        assert!(status.is_ok_and(|status| status.success()), "there is room");
        file
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = || {
            let status = Command::new("umount").arg(&self.directory).status();
            status.is_ok_and(|status| status.success()).then_some(())
        };
        if std::thread::panicking() {
            let _ = unmounted();
        } else {
            until("nobody uses the file system", unmounted);
        }
    }
}

fn too_much_readahead() {
    let scratch = Scratch::new();
    let Some(mounted) = Mounted::on(&scratch) else {
        return;
    };
    if !has_python("try::too_much_readahead") {
        return;
    }
    let (file, before) = (mounted.file(), mounted.readahead());
    let mut command = try_fixes(&scratch, &["readahead=4K"], &[]);
    let answer = answer(command.args(["python3", "-c", TOUCHES]).arg(&file));
    let (without, with) = means(&answer, "readahead=4K", "device_read_bytes");
    assert!(with * 4.0 < without, "{with} bytes instead of {without}");
    assert_eq!(mounted.readahead(), before, "it is restored");
}

/// Reads a file in order, three times.
const SCANS: &str = "
import sys
for _ in range(3):
    with open(sys.argv[1], 'rb', buffering=0) as file:
        while file.read(65536):
            pass
";

fn limit_of_a_group() {
    let made = Group::new().and_then(|group| group.limit_memory(96 * MIB).map(|_| group));
    let Some(group) = made else {
        println!("skipped: try::limit_of_a_group: no control groups with a memory limit");
        return;
    };
    if !has_python("try::limit_of_a_group") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 128 * MIB);
    let run = try_fixes(&scratch, &["memory=512M"], &[]);
    let mut enter = Command::new("sh");
    enter.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]);
    enter
        .arg(group.path())
        .arg(run.get_program())
        .args(run.get_args());
    let answer = answer(enter.args(["python3", "-c", SCANS]).arg(&file));
    let (without, with) = means(&answer, "memory=512M", "device_read_bytes");
    assert!(
        with * 2.0 < without && with >= (128 * MIB) as f64,
        "once instead of three times: {with}, {without}"
    );
}

fn direct_rereads() {
    let busybox = Command::new("busybox").arg("true").status();
    if !busybox.is_ok_and(|status| status.success()) {
        println!("skipped: try::direct_rereads: busybox is not installed");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let script =
        "for i in 1 2 3; do busybox dd if=\"$0\" of=/dev/null bs=1M iflag=direct || exit 1; done";
    let mut command = try_fixes(&scratch, &["no-direct", "fadvise=sequential"], &[]);
    command.args(["busybox", "sh", "-c", script]).arg(&file);
    let answer = answer(&mut command);
    let (without, with) = means(&answer, "no-direct", "direct_bytes");
    assert_eq!(
        (without, with),
        ((48 * MIB) as f64, 0.0),
        "no read bypasses the cache"
    );
    let (without, with) = means(&answer, "no-direct", "device_read_bytes");
    assert!(
        with * 2.0 < without,
        "once instead of three times: {answer}"
    );
    let (without, with) = means(&answer, "fadvise=sequential", "direct_bytes");
    assert_eq!(without, with, "other fixes leave the flags");
}

fn warm_files() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 * MIB);
    let mut command = try_fixes(&scratch, &["warm"], &[]);
    let answer = answer(command.arg("cat").arg(&file));
    let (without, with) = means(&answer, "warm", "device_read_bytes");
    assert!(
        without >= (32 * MIB) as f64 && with * 8.0 < without,
        "cold, and prefetched: {without}, {with}"
    );
    let note = answer["notes"].to_string();
    assert!(note.contains("prefetching read"), "its cost: {note}");
    undisturbed(|| {
        let mut command = try_fixes(&scratch, &["warm"], &["--start", "warm"]);
        let answer = self::answer(command.arg("cat").arg(&file));
        let (without, with) = means(&answer, "warm", "device_read_bytes");
        let most = MIB as f64;
        (without < most && with < most).then_some(())
    });
}

fn populated_mapping() {
    if !has_python("try::populated_mapping") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 * MIB);
    let mut command = try_fixes(&scratch, &["populate"], &[]);
    let answer = answer(command.args(["python3", "-c", TOUCHES]).arg(&file));
    let note = answer["notes"].to_string();
    assert!(
        note.contains("populate: applied"),
        "mappings are populated: {note}"
    );
    let (_, with) = means(&answer, "populate", "device_read_bytes");
    assert!(with >= (32 * MIB) as f64, "all of it: {answer}");
}

fn missing_rights() {
    let scratch = Scratch::new();
    let state = scratch.path("state");
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["try", "--state"]).arg(&state);
    Ended::of(command.args(["warm", "--", "true"]))
        .expect(2, "nothing can be counted")
        .says("CAP_BPF", "what is missing")
        .says("root", "and who has it");
    assert!(!state.exists(), "nothing was made for it");
}

fn changed_files_are_refused() {
    let scratch = Scratch::new();
    let file = scratch.file("file", MIB);
    let run = |script: &str, options: &[&str]| {
        fs::write(scratch.path("old"), "x").expect("there is room");
        let mut command = try_fixes(&scratch, &["warm"], options);
        command.args(["sh", "-c", script]).arg(&file);
        Ended::of(&mut command)
    };
    let old = scratch.path("old");
    let old = old.to_str().expect("an ordinary name");
    for (script, text) in [
        (
            format!("cat \"$0\" >{old}"),
            format!("wrote 1 file ({old})"),
        ),
        (format!("cat \"$0\"; rm {old}"), "called unlink".to_owned()),
        (
            format!("cat \"$0\"; mv {old} {old}2"),
            "called rename".to_owned(),
        ),
        (
            format!("cat \"$0\"; truncate -s 0 {old}"),
            "called ftruncate".to_owned(),
        ),
    ] {
        run(&script, &[])
            .expect(2, "it changes files")
            .says(&text, "which they are")
            .says("--prepare", "the way out");
    }
    fs::write(scratch.path("cold"), "x").expect("there is room");
    evict(&scratch.path("cold"));
    let cold = scratch.path("cold");
    run(
        &format!(": >{}; cat \"$0\" >/dev/null", cold.display()),
        &[],
    )
    .expect(2, "nothing of it is cached, and nothing is written")
    .says("called open with O_TRUNC", "it is emptied");
    run(&format!("cat \"$0\" >{old}"), &["--yes"]).expect(0, "it is wanted");
    let restore = format!("echo y >{old}");
    run(&format!("rm {old}"), &["--prepare", &restore]).expect(0, "it is restored before each run");
    run(&format!("rm -f {old}.absent; cat \"$0\""), &[]).expect(0, "nothing was removed");
}

fn failing_command_is_refused() {
    let scratch = Scratch::new();
    let run = |options: &[&str], words: &[&str]| {
        Ended::of(try_fixes(&scratch, &["warm"], options).args(words))
    };
    run(&[], &["sh", "-c", "echo its reason >&2; exit 3"])
        .expect(2, "it fails")
        .says("failed (status 3)", "how")
        .says("its reason", "its own words");
    run(&["--ignore-failure"], &["false"]).expect(0, "it is accepted");
    run(&[], &["/no/such/program"])
        .expect(2, "there is none")
        .says("cannot run /no/such/program", "which");
}

fn restored_after_signals() {
    for (which, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, -9)] {
        let scratch = Scratch::new();
        let Some(mounted) = Mounted::on(&scratch) else {
            return;
        };
        let (file, before) = (mounted.file(), mounted.readahead());
        assert_ne!(before, "4", "it is a change");
        // The command hangs once the fix is there.
        let script = "cat \"$0\" >/dev/null; [ \"$(cat \"$1\")\" != 4 ] || exec sleep 5";
        let mut command = try_fixes(&scratch, &["readahead=4K"], &[]);
        command
            .args(["sh", "-c", script])
            .arg(&file)
            .arg(&mounted.setting);
        let started = Started::of(&mut command);
        until("the fix is there", || {
            (mounted.readahead() == "4").then_some(())
        });
        signal(started.pid(), which);
        let ended = started.wait();
        assert_eq!(ended.code(), code, "{}", ended.err());
        if which == Signal::KILL {
            let mut restore = cachewise(["bench", "restore", "--state"]);
            Ended::of(restore.arg(scratch.path("state")))
                .expect(0, "it is restored later")
                .says("an earlier `cachewise try` was killed", "by which");
        }
        assert_eq!(mounted.readahead(), before, "{which:?}");
    }
}

/// The calls of a traced command fail without its tracer: it does not outlive it.
fn traced_command_ends_with_it() {
    let scratch = Scratch::new();
    let mut command = try_fixes(&scratch, &["madvise=random"], &[]);
    let pid_file = scratch.path("pid");
    command
        .args(["sh", "-c", "echo $$ >\"$0\"; exec sleep 60"])
        .arg(&pid_file);
    let started = Started::of(&mut command);
    let pid = until("the command runs", || {
        let text = fs::read_to_string(&pid_file).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    });
    let alive = format!("/proc/{pid}/stat");
    assert!(
        fs::exists(&alive).is_ok_and(|is_there| is_there),
        "it sleeps"
    );
    signal(started.pid(), Signal::KILL);
    started.wait();
    until("the command has ended", || {
        let stat = fs::read_to_string(&alive).unwrap_or_default();
        let is_gone = stat.is_empty() || stat.contains(") Z ");
        is_gone.then_some(())
    });
}

fn answer_in_every_format() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    let text = |format: &str| {
        let mut command = cachewise(["try", "-o", format, "--rounds", "2", "--state"]);
        command
            .arg(scratch.path("state"))
            .args(["warm", "--", "cat"]);
        Ended::of(command.arg(&file))
            .expect(0, "it can be tried")
            .out()
    };
    let table = text("table");
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("cat ") && lines[1].starts_with("warm: "),
        "the verdict comes first: {table}"
    );
    assert!(table.contains("device read bytes"), "figures: {table}");
    let csv = text("csv");
    assert!(
        csv.starts_with("kind,name,field,unit,old_runs")
            && csv.contains("fix,warm,device_read_bytes,bytes,2,2,"),
        "a line for each figure: {csv}"
    );
    let markdown = text("markdown");
    assert!(
        markdown.contains("\nwarm: ") && markdown.contains("| warm | device read bytes |"),
        "verdicts and a table: {markdown}"
    );
    assert_eq!(text("jsonl").lines().count(), 1, "one document");
    let mut refused = cachewise(["try", "-o", "openmetrics", "--state"]);
    refused
        .arg(scratch.path("state"))
        .args(["warm", "--", "true"]);
    Ended::of(&mut refused).expect(2, "there are no metrics of it");
}

fn unknown_fix() {
    Ended::of(&mut cachewise(["try", "faster", "--", "true"]))
        .expect(2, "there is none")
        .says("readahead=SIZE", "the fixes");
    Ended::of(&mut cachewise(["try", "warm"])).expect(2, "no command");
}
