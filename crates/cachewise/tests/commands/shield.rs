//! `shield`: pages of a stream are dropped behind it, and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::wrong_arguments_are_refused", wrong_arguments),
        needs_root("usage::others_may_not_shield", others_may_not_shield),
        needs_root(
            "usage::exit_status_of_the_command_is_passed_on",
            exit_status,
        ),
        needs_root("drops::hot_pages_survive_a_scan", hot_pages_survive_a_scan),
        needs_root("drops::a_running_process", a_running_process),
        needs_root("drops::children_of_a_shell", children_of_a_shell),
        needs_root("drops::a_control_group", a_control_group),
        needs_root("drops::backwards_and_with_strides", backwards_and_strides),
        needs_root("drops::several_threads", several_threads),
        needs_root("drops::many_small_files", many_small_files),
        needs_root("drops::a_deleted_file", a_deleted_file),
        needs_root("drops::every_stream_with_auto", every_stream),
        needs_root("keeps::resident_pages_stay", resident_pages_stay),
        needs_root("keeps::pages_that_others_use_stay", used_by_others_stay),
        needs_root("keeps::a_second_pass_stops_the_dropping", second_pass_stops),
        needs_root("keeps::dirty_pages_stay", dirty_pages_stay),
        needs_root("keeps::mapped_pages_stay", mapped_pages_stay),
        needs_root("twice::two_shields_are_harmless", two_shields),
        needs_root("killed::nothing_is_left", nothing_is_left),
    ]
}

pub const MIB: u64 = 1 << 20;

/// Pages that are resident for longer are not dropped.
const DROPPED_WITHIN: Duration = Duration::from_secs(60);

/// A shield, and the file of its result.
pub struct Shielded {
    pub scratch: Scratch,
}

impl Shielded {
    pub fn new() -> Shielded {
        Shielded {
            scratch: Scratch::new(),
        }
    }

    fn result(&self) -> PathBuf {
        self.scratch.path("result.json")
    }

    pub fn command(&self, options: &[&str]) -> Command {
        let mut target = std::ffi::OsString::from("json=");
        target.push(self.result());
        let mut command = cachewise(["shield", "-o"]);
        command.arg(target).args(options).stdin(Stdio::null());
        command
    }

    /// Runs a shell script under it, with these as its arguments.
    pub fn script(&self, options: &[&str], script: &str, arguments: &[&Path]) -> Value {
        let mut command = self.command(options);
        command.args(["--", "sh", "-ec", script, "sh"]);
        Ended::of(command.args(arguments)).expect(0, "the script ends well");
        self.read()
    }

    /// Waits until no page of a file is resident. If pages stay, the shield is ended, and says why.
    pub fn until_dropped(&self, file: &Path, shield: Started) -> Started {
        let begin = Instant::now();
        let is_dropped = until("pages are dropped, or stay", || match resident(file) {
            0 => Some(true),
            _ => (begin.elapsed() >= DROPPED_WITHIN).then_some(false),
        });
        if !is_dropped {
            let stay = resident(file);
            shield.signal(Signal::INT);
            shield.wait();
            panic!("{stay} pages of {} stay: {:#}", file.display(), self.read());
        }
        shield
    }

    pub fn read(&self) -> Value {
        let text = fs::read(self.result()).expect("the result was written");
        serde_json::from_slice(&text).expect("it is JSON")
    }
}

pub fn pages(result: &Value, fate: &str) -> u64 {
    number(&result["pages"], &format!("{fate}_pages"))
}

/// Pages that a reclaimer has evicted, or the kernel held a reference to at the moment of the decision.
pub fn taken_or_held(result: &Value) -> u64 {
    pages(result, "reclaimed") + pages(result, "in_use")
}

/// The invariant: each inserted page was dropped, has left the cache before, or stays for a reason. Pages that are in
/// flight at the end may be missing or be counted twice.
pub fn adds_up(result: &Value) {
    let all = result["pages"].as_object().expect("an object");
    let rest: u64 = all
        .iter()
        .filter(|(fate, _)| *fate != "inserted_pages")
        .map(|(_, pages)| pages.as_u64().expect("a number"))
        .sum();
    let inserted = pages(result, "inserted");
    assert!(
        rest.abs_diff(inserted) <= inserted / 100 + 64,
        "{rest} of {inserted} pages: {result:#}"
    );
}

/// Pages of a file that are resident although they were to be dropped, but for those to which the kernel held references,
/// such as those that a CPU is about to put on a list of folios.
pub fn left(file: &Path, result: &Value) -> u64 {
    resident(file).saturating_sub(pages(result, "in_use"))
}

fn wrong_arguments() {
    for (arguments, part) in [
        (&[][..], "nothing to shield"),
        (&["--auto", "-p", "1"], "remove one of the two"),
        (&["-d", "1", "--", "true"], "remove -d"),
        (&["-p", "0"], "-p"),
        (&["-p", "4000000"], "does not exist"),
        (&["--cgroup", "/no/such/group"], "/no/such/group"),
        (&["--stream", "much", "--auto"], "much"),
        (&["-0", "--", "true"], "--files-from"),
        (
            &["--files-from", "/no/such/list", "--", "true"],
            "/no/such/list",
        ),
    ] {
        let ended = Ended::of(cachewise(["shield"]).args(arguments));
        let ended = ended.expect(2, "that cannot be done");
        assert!(
            ended.complaints().contains(part),
            "{arguments:?}: {}",
            ended.complaints()
        );
    }
}

fn others_may_not_shield() {
    let scratch = Scratch::new();
    let mark = scratch.path("ran");
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["shield", "--", "touch"]).arg(&mark);
    Ended::of(&mut command)
        .expect(2, "it is refused")
        .says("CAP_BPF", "with the fix");
    assert!(!mark.exists(), "the command is not run unshielded");
}

fn exit_status() {
    let shielded = Shielded::new();
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let mut command = shielded.command(&["--", "sh", "-c", script]);
        Ended::of(&mut command).expect(code, "the status of the command");
    }
    let mut command = shielded.command(&["--", "/no/such/program"]);
    Ended::of(&mut command).expect(127, "as of a shell");
}

fn hot_pages_survive_a_scan() {
    const HOT: u64 = 40 * MIB;
    // Beside the hot pages there is room for what the kernel reads ahead on a fast device: twice a window of 16 MiB before
    // the program, and pages behind it that are not dropped yet.
    const LIMIT: u64 = 160 * MIB;
    let Some(group) = Group::new() else {
        println!("skipped: shield: no control group can be made here");
        return;
    };
    if group.limit_memory(LIMIT).is_none() {
        println!("skipped: shield: this group has no limit of memory");
        return;
    }
    let shielded = Shielded::new();
    let hot = shielded.scratch.file("hot", HOT);
    let scan = shielded.scratch.file("scan", 2 * LIMIT);
    let procs = group.path().join("cgroup.procs");
    let script = r#"echo $$ >"$1"; cat "$2" "$2" >/dev/null"#;
    let heat = || {
        evict(&hot);
        evict(&scan);
        let script = r#"echo $$ >"$1"; cat "$2" >/dev/null"#;
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).args([&procs, &hot]);
        Ended::of(&mut command).expect(0, "the hot file is read");
        resident(&hot)
    };
    // Counted by cachestat or mincore, and not by the shield.
    undisturbed(|| {
        let before = heat();
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh"]).args([&procs, &scan]);
        Ended::of(&mut command).expect(0, "the scan ends");
        let without = resident(&hot);
        let again = heat();
        let result = shielded.script(&[], script, &[&procs, &scan]);
        let with = resident(&hot);
        adds_up(&result);
        assert!(without < before / 2, "a scan evicts: {without} of {before}");
        assert!(
            pages(&result, "dropped") > pages(&result, "inserted") * 9 / 10,
            "both passes, which do not fit into the group: {result:#}"
        );
        (with * 100 >= again * 95).then_some(())
    });
}

fn a_running_process() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 64 * MIB);
    evict(&file);
    let mut reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let mut shield = Started::of(&mut shielded.command(&["-p", &pid]));
    shield.until_thread("shield");
    reader.read();
    let shield = shielded.until_dropped(&file, shield);
    shield.signal(Signal::INT);
    shield.wait().expect(130, "Ctrl-C ends it, with the result");
    let result = shielded.read();
    adds_up(&result);
    let dropped = pages(&result, "dropped") + taken_or_held(&result);
    assert!(dropped >= 64 * MIB / page_size(), "{result:#}");
    reader.end();
}

fn children_of_a_shell() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    evict(&file);
    let script = r#"(cat "$1" | (sh -c 'cat >/dev/null')) & wait; true"#;
    let result = shielded.script(&[], script, &[&file]);
    adds_up(&result);
    assert_eq!(left(&file, &result), 0, "a grandchild read it: {result:#}");
}

fn a_control_group() {
    let Some(group) = Group::new() else {
        println!("skipped: shield: no control group can be made here");
        return;
    };
    let shielded = Shielded::new();
    let inside = shielded.scratch.file("inside", 32 * MIB);
    let outside = shielded.scratch.file("outside", 32 * MIB);
    evict(&inside);
    evict(&outside);
    let mut reader = Reader::of_group(&inside, group.path());
    let mut other = Reader::of(&outside);
    let mut shield = Started::of(&mut shielded.command(&["--cgroup", text(group.path())]));
    shield.until_thread("shield");
    reader.read();
    other.read();
    let shield = shielded.until_dropped(&inside, shield);
    assert!(resident(&outside) > 0, "other programs are not shielded");
    reader.end();
    other.end();
    shield.signal(Signal::TERM);
    shield.wait().expect(143, "SIGTERM ends it");
    adds_up(&shielded.read());
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a name of ours")
}

fn backwards_and_strides() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 24 * MIB);
    for script in [
        r#"i=192; while [ $i -gt 0 ]; do i=$((i-1)); dd if="$1" of=/dev/null bs=128k count=1 skip=$i status=none; done"#,
        r#"i=0; while [ $i -lt 96 ]; do dd if="$1" of=/dev/null bs=4k count=1 skip=$((i*64)) status=none; i=$((i+1)); done"#,
    ] {
        evict(&file);
        let result = shielded.script(&[], script, &[&file]);
        adds_up(&result);
        let left = left(&file, &result);
        let again = pages(&result, "used_again");
        assert!(left <= again, "only what it came back to stays: {result:#}");
    }
}

fn several_threads() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 64 * MIB);
    evict(&file);
    let reader = program("threads", &file);
    let mut command = shielded.command(&["--"]);
    command.arg(reader.get_program()).args(reader.get_args());
    Ended::of(&mut command).expect(0, "it ends");
    let result = shielded.read();
    adds_up(&result);
    assert!(
        left(&file, &result) <= pages(&result, "used_again"),
        "{result:#}"
    );
}

fn many_small_files() {
    let shielded = Shielded::new();
    let directory = shielded.scratch.path("many");
    fs::create_dir(&directory).expect("it is ours");
    let files: Vec<PathBuf> = (0..500)
        .map(|number| shielded.scratch.file(format!("many/{number}"), 20_000))
        .collect();
    files.iter().for_each(|file| evict(file));
    let result = shielded.script(&[], r#"cat "$1"/* >/dev/null"#, &[&directory]);
    adds_up(&result);
    let left: u64 = files.iter().map(|file| resident(file)).sum();
    assert!(
        left <= pages(&result, "in_use"),
        "closed files are dropped too: {result:#}"
    );
}

fn a_deleted_file() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    evict(&file);
    let script = r#"exec 3<"$1"; rm "$1"; cat <&3 >/dev/null; sleep 0.7"#;
    let result = shielded.script(&[], script, &[&file]);
    adds_up(&result);
    assert!(
        pages(&result, "dropped") >= 16 * MIB / page_size() * 9 / 10,
        "a file without a name, before it is closed: {result:#}"
    );
}

fn resident_pages_stay() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    undisturbed(|| {
        evict(&file);
        let mut command = Command::new("dd");
        command.arg(format!("if={}", text(&file))).args([
            "of=/dev/null",
            "bs=1M",
            "count=8",
            "status=none",
        ]);
        Ended::of(&mut command).expect(0, "a part is read");
        let before = resident(&file);
        let result = shielded.script(&[], r#"cat "$1" >/dev/null"#, &[&file]);
        adds_up(&result);
        assert!(before >= 8 * MIB / page_size(), "a part is resident");
        assert_eq!(
            pages(&result, "dropped") + pages(&result, "reclaimed") + before,
            pages(&result, "inserted") + before,
            "nothing else was dropped: {result:#}"
        );
        let after = resident(&file);
        assert!(
            after <= before,
            "what it brought in is gone: {after} of {before}"
        );
        (after == before).then_some(())
    });
}

fn used_by_others_stay() {
    const AHEAD: u64 = 64;
    const USED: u64 = 16;
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    let go = shielded.scratch.path("go");
    let made = Command::new("mkfifo").arg(&go).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
    undisturbed(|| {
        evict(&file);
        // It reads the first 64 pages, so that the kernel reads ahead, and waits.
        let script = r#"exec 3<"$1"; dd bs=256k count=1 <&3 of=/dev/null status=none; read -r _ <"$2"; cat <&3 >/dev/null"#;
        let mut command = shielded.command(&["--", "sh", "-ec", script, "sh"]);
        let shield = Started::of(command.args([&file, &go]));
        until("pages are read ahead", || {
            (resident(&file) >= AHEAD + USED).then_some(())
        });
        // Another program uses some of them.
        let mut other = Command::new("dd");
        other.arg(format!("if={}", text(&file))).args([
            "of=/dev/null",
            "bs=4k",
            "skip=64",
            "count=16",
            "status=none",
        ]);
        Ended::of(&mut other).expect(0, "they are read");
        fs::write(&go, "\n").expect("the script reads it");
        shield.wait().expect(0, "it ends");
        let result = shielded.read();
        adds_up(&result);
        if pages(&result, "in_use") > 0 {
            // A reclaimer held them at that moment; no other program has this file open.
            return None;
        }
        let kept = pages(&result, "used_by_others");
        assert!(kept >= USED, "they stay, with their folios: {result:#}");
        assert_eq!(
            pages(&result, "dropped") + kept + pages(&result, "reclaimed"),
            pages(&result, "inserted"),
            "and all others are dropped: {result:#}"
        );
        (resident(&file) >= kept).then_some(())
    });
}

fn second_pass_stops() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 48 * MIB);
    undisturbed(|| {
        evict(&file);
        let script = r#"cat "$1" "$1" "$1" >/dev/null"#;
        let result = shielded.script(&[], script, &[&file]);
        adds_up(&result);
        let all = 48 * MIB / page_size();
        assert!(
            pages(&result, "inserted") < all * 5 / 2,
            "the third pass finds them: {result:#}"
        );
        let files = result["files"].as_array().expect("files");
        let stopped = files.iter().filter(|file| file["stopped"] == true);
        assert_eq!(stopped.count(), 1, "it says so: {result:#}");
        (resident(&file) > all * 9 / 10).then_some(())
    });
}

fn dirty_pages_stay() {
    let shielded = Shielded::new();
    let file = shielded.scratch.path("written");
    let all = 16 * MIB / page_size();
    let script = r#"dd if=/dev/zero of="$1" bs=1M count=16 status=none"#;
    undisturbed(|| {
        let result = shielded.script(&[], script, &[&file]);
        adds_up(&result);
        let stays = resident(&file);
        fs::remove_file(&file).expect("it was written");
        let result = shielded.script(&["--writes"], script, &[&file]);
        adds_up(&result);
        let length = fs::metadata(&file).expect("it was written").len();
        assert_eq!(length, 16 * MIB, "no byte is lost");
        assert_eq!(
            left(&file, &result),
            0,
            "written back and dropped: {result:#}"
        );
        let done = pages(&result, "dropped") + taken_or_held(&result);
        assert!(done >= all, "{result:#}");
        fs::remove_file(&file).expect("it was written");
        (stays == all).then_some(())
    });
}

fn mapped_pages_stay() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 8 * MIB);
    evict(&file);
    let reader = program("mapped", &file);
    let mut command = shielded.command(&["--"]);
    command
        .arg(reader.get_program())
        .args(reader.get_args())
        .stdin(Stdio::piped());
    let mut shield = Started::of(&mut command);
    shield.line().expect("it has mapped the file");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let mapped = resident(&file);
    shield.signal(Signal::TERM);
    shield.wait();
    let result = shielded.read();
    adds_up(&result);
    assert_eq!(
        mapped,
        8 * MIB / page_size(),
        "none was dropped: {result:#}"
    );
    assert_eq!(
        left(&file, &result),
        0,
        "from when it has ended: {result:#}"
    );
}

fn two_shields() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 64 * MIB);
    evict(&file);
    let inner = shielded.scratch.path("inner.json");
    let target = format!("json={}", text(&inner));
    let mut command = shielded.command(&["--", env!("CARGO_BIN_EXE_cachewise"), "shield"]);
    command.args(["-o", &target, "--", "cat"]).arg(&file);
    Ended::of(command.stdout(Stdio::null())).expect(0, "both end well");
    let left = resident(&file);
    let outer = shielded.read();
    adds_up(&outer);
    let inner: Value =
        serde_json::from_slice(&fs::read(inner).expect("it was written")).expect("it is JSON");
    adds_up(&inner);
    let in_use = pages(&outer, "in_use") + pages(&inner, "in_use");
    assert!(left <= in_use, "dropped by either: {left}");
}

fn nothing_is_left() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 16 * MIB);
    let mut reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let mut shield = Started::of(&mut shielded.command(&["-p", &pid]));
    shield.until_thread("shield");
    let held = held_by(shield.pid());
    assert!(!held.is_empty(), "it has programs in the kernel");
    shield.signal(Signal::KILL);
    shield.wait().expect(-9, "it is killed");
    held.until_gone();
    assert!(!shielded.result().exists(), "no half of a result");
    // The reader runs on.
    reader.read();
    reader.end();
}

fn every_stream() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 64 * MIB);
    let small = shielded.scratch.file("small", 8 * MIB);
    let mut shield = Started::of(&mut shielded.command(&["--auto", "--stream", "16M", "-n", "0"]));
    shield.until_thread("shield");
    let read = |path: &Path| {
        let mut command = Command::new("cat");
        Ended::of(command.arg(path).stdout(Stdio::null())).expect(0, "it is read");
    };
    undisturbed(|| {
        evict(&file);
        evict(&small);
        read(&small);
        read(&file);
        until("the stream is dropped", || {
            (resident(&file) <= 25 * MIB / page_size()).then_some(())
        });
        let kept = resident(&small);
        (kept == 8 * MIB / page_size()).then_some(())
    });
    // Used again soon, by another process: it is no stream.
    for _ in 0..3 {
        read(&file);
    }
    let all = 64 * MIB / page_size();
    assert!(resident(&file) > all / 2, "it stays from then on");
    shield.signal(Signal::INT);
    shield.wait().expect(130, "Ctrl-C ends it");
    let result = shielded.read();
    assert!(
        result["needed_by_others_pages"].as_u64() > Some(0),
        "pages that it should not have dropped are shown"
    );
}
