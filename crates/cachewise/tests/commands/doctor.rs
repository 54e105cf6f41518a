//! `doctor`: what it says of this machine, and a test for each finding that makes it happen.
//!
//! A load goes on while the machine is watched. Others may be at work on it too, so that a finding is looked
//! for by the file, the group or the process that it is to be about.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::*;

const MIB: u64 = 1 << 20;

/// Long enough for every rule's threshold.
const SECONDS: &str = "3";

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("arguments::are_checked", arguments),
        plain("setcap::is_printed_only", setcap),
        needs_root("setcap::opens_no_file_of_others", file_capabilities),
        plain("nobody::is_told_what_is_missing", without_rights),
        plain("format::all_of_them", formats),
        needs_root("machine::is_described", machine),
        needs_root("finding::random_small_reads", random_small_reads),
        needs_root("finding::readahead_wasted", readahead_wasted),
        needs_root("finding::reread_and_who_misses", reread),
        needs_root("finding::tiny_reads", tiny_reads),
        needs_root("finding::fault_storm", fault_storm),
        needs_root("finding::direct_io", direct_io),
        needs_root("finding::dirty_backlog", dirty_backlog),
        needs_root("finding::thrashing_in_a_group", thrashing),
        needs_root("check::quiet_is_no_warning", check),
    ]
}

fn doctor(arguments: &[&str]) -> Command {
    let mut command = cachewise(["doctor"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out)
        .unwrap_or_else(|error| panic!("a JSON document ({error}): {}", ended.out()))
}

fn arguments() {
    for value in ["-1", "x", "", "1y"] {
        Ended::of(&mut doctor(&["--seconds", value]))
            .expect(2, "that is no time")
            .says("--seconds", "the message names the option");
    }
    for none in [&["-d", "0"][..], &["--duration", "0"], &["--capabilities"]] {
        let ended = Ended::of(&mut doctor(none)).expect(0, "nothing is watched");
        let text = ended.out();
        assert!(
            text.contains("cachestat") && !text.contains("watched for"),
            "{none:?}: {text}"
        );
    }
    Ended::of(&mut doctor(&["--setcap", "--check"])).expect(2, "one or the other");
    Ended::of(&mut doctor(&[
        "--seconds",
        "0",
        "-o",
        "json=/no/such/place",
    ]))
    .expect(2, "a file that cannot be made")
    .says("/no/such/place", "the file is named");
}

fn setcap() {
    let ended = Ended::of(&mut doctor(&["--setcap"])).expect(0, "it is printed");
    let line = ended.out();
    assert!(
        line.contains("sudo setcap cap_bpf,cap_perfmon+ep ") && line.lines().count() == 1,
        "one line, to be copied: {line}"
    );
    assert!(
        line.contains("chgrp ") && line.contains("chmod 0750 "),
        "for one group alone: {line}"
    );
    for dangerous in ["dac", "fowner", "sys_"] {
        assert!(!line.contains(dangerous), "no right over files: {line}");
    }
    assert!(
        line.contains(env!("CARGO_BIN_EXE_cachewise")),
        "for this very program: {line}"
    );
}

/// A copy of the program with every capability over files, run by a user: files of others stay closed.
fn file_capabilities() {
    let scratch = Scratch::new();
    let own = copy_for_everyone(scratch.directory());
    let secret = scratch.directory().join("secret");
    fs::write(&secret, "not for all").expect("a file");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("its mode");
    let given = Command::new("setcap")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .arg("cap_fowner,cap_dac_read_search,cap_dac_override,cap_bpf,cap_perfmon+ep")
        .arg(&own)
        .status();
    if !given.is_ok_and(|status| status.success()) {
        println!("skipped: file capabilities: setcap cannot be used here");
        return;
    }
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&own)
            .args(arguments)
            .arg(&secret);
        Ended::of(command.stdin(Stdio::null()))
    };
    for arguments in [
        &["cat"][..],
        &["order"],
        &["warm"],
        &["snapshot", "save", "-o", "/dev/stdout"],
    ] {
        let ended = nobody(arguments);
        assert!(
            !ended.out().contains("not for all"),
            "{arguments:?} gives nothing away: {}",
            ended.out()
        );
    }
    let ended = nobody(&["cat"]).expect(2, "the file cannot be opened");
    ended.says("secret", "the file is named");
}

fn without_rights() {
    let scratch = Scratch::new();
    let own = copy_for_everyone(scratch.directory());
    let mut command = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            command.arg(own);
            command
        }
        false => Command::new(own),
    };
    command.args(["doctor", "--seconds", "0.2", "--json"]);
    let ended = Ended::of(command.stdin(Stdio::null())).expect(0, "it tells what it can");
    let json = document(&ended);
    let probe = check_of(&json, "probe");
    assert_eq!(probe["state"], "missing", "no probe: {probe}");
    assert!(
        probe["next_step"]
            .as_str()
            .is_some_and(|step| step.contains("root")),
        "how to get it: {probe}"
    );
    assert_eq!(
        json["watched"]["backend"]["exact"], false,
        "it watched by estimates: {}",
        json["watched"]
    );
    let found = &json["findings"];
    let claims = found.as_array().into_iter().flatten();
    for finding in claims {
        assert!(
            ["thrashing", "group_limit"].contains(&finding["id"].as_str().unwrap_or_default()),
            "and claims nothing but what the kernel's own numbers prove: {finding}"
        );
    }
    assert!(
        json["reasons"]["findings"].is_string() && *found != Value::Array(Vec::new()),
        "none would clear everybody: {json}"
    );
}

fn check_of<'a>(json: &'a Value, id: &str) -> &'a Value {
    json["checks"]
        .as_array()
        .and_then(|checks| checks.iter().find(|check| check["id"] == id))
        .unwrap_or_else(|| panic!("{id} is looked at: {json}"))
}

fn formats() {
    let ended = Ended::of(&mut doctor(&["--seconds", "0"])).expect(0, "a table");
    let text = ended.out();
    assert!(
        text.contains("cachestat") && !text.contains('\u{1b}'),
        "plain: {text}"
    );
    let csv = Ended::of(&mut doctor(&["--seconds", "0", "-o", "csv"])).expect(0, "CSV");
    assert!(csv.out().starts_with("area,id,state,"), "{}", csv.out());
    let chosen = ["--seconds", "0", "--columns", "CHECK,state"];
    let table = Ended::of(&mut doctor(&chosen)).expect(0, "a table of these columns");
    let heads = |line: &str| line.starts_with("CHECK ") && line.ends_with(" STATE");
    assert!(table.out().lines().any(heads), "{}", table.out());
    let metrics =
        Ended::of(&mut doctor(&["--seconds", "0", "-o", "openmetrics"])).expect(0, "metrics");
    assert!(
        metrics.out().contains("cachewise_doctor_checks_ok "),
        "{}",
        metrics.out()
    );
    let line = Ended::of(&mut doctor(&["--seconds", "0", "-o", "jsonl"])).expect(0, "a line");
    assert_eq!(line.out().lines().count(), 1, "one line");
    assert!(document(&line)["watched"].is_null(), "nothing was watched");
}

fn machine() {
    let ended = Ended::of(&mut doctor(&["--seconds", "0", "--json"])).expect(0, "all of it");
    let json = document(&ended);
    for id in [
        "release",
        "btf",
        "cgroups",
        "probe",
        "kernel_memory",
        "raw_tracepoint",
        "task_iterator",
        "cap_bpf",
    ] {
        let check = check_of(&json, id);
        assert_ne!(check["state"], "missing", "root has it here: {check}");
    }
    for id in [
        "fentry",
        "kprobe",
        "perf_hardware",
        "mglru",
        "damon",
        "swap",
        "zswap",
        "memlock_limit",
    ] {
        let check = check_of(&json, id);
        let said = check["found"].as_str().unwrap_or_default();
        assert!(!said.is_empty(), "it was tried or looked at: {check}");
    }
    let pages = fs::read_to_string("/proc/sys/vm/vfs_cache_pressure").expect("every kernel has it");
    assert_eq!(
        check_of(&json, "vfs_cache_pressure")["found"],
        pages.trim(),
        "as it is set"
    );
}

/// Findings during a load.
struct DoctorFindings(Value);

impl DoctorFindings {
    /// Starts the load, watches, and ends it.
    fn during(command: &mut Command) -> (DoctorFindings, u32) {
        let mut load = Started::of(command.stdin(Stdio::piped()));
        assert_eq!(
            load.line().as_deref(),
            Some(&b"ready\n"[..]),
            "the load begins"
        );
        let found = DoctorFindings::watched();
        let pid = load.pid();
        drop(load.child.stdin.take());
        load.wait().expect(0, "the load ends when it is told to");
        (found, pid)
    }

    fn watched() -> DoctorFindings {
        let ended = Ended::of(&mut doctor(&["--seconds", SECONDS, "--json"]));
        DoctorFindings(document(&ended.expect(0, "it watches")))
    }

    /// The findings about this, of which there is one at most.
    fn about(&self, subject: &Path) -> Vec<&Value> {
        let subject = subject.to_str().expect("an ordinary name");
        let all = self.0["findings"].as_array().expect("a list");
        all.iter()
            .filter(|finding| finding["subject"] == subject)
            .collect()
    }

    fn the_one(&self, id: &str, subject: &Path) -> &Value {
        let found = self.about(subject);
        assert_eq!(
            found.len(),
            1,
            "{id} is found of {}: {}",
            subject.display(),
            self.0["findings"]
        );
        assert_eq!(found[0]["id"], id, "the cause: {}", found[0]);
        for member in ["next_step", "fix", "verify"] {
            let text = found[0][member].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "with {member}: {}", found[0]);
        }
        found[0]
    }
}

/// A file without blocks: it fills the page cache like any other, and no disk.
fn hole(scratch: &Scratch, bytes: u64) -> PathBuf {
    let path = scratch.path("hole");
    let file = fs::File::create(&path).expect("a file can be made");
    file.set_len(bytes).expect("holes cost nothing");
    path
}

fn random_small_reads() {
    let scratch = Scratch::new();
    let file = hole(&scratch, 256 * MIB);
    let (found, _) = DoctorFindings::during(&mut program("random", &file));
    let finding = found.the_one("random_small_reads", &file);
    assert_eq!(
        number(&finding["figures"], "read_average_bytes"),
        page_size(),
        "a page at a time"
    );
}

fn readahead_wasted() {
    let scratch = Scratch::new();
    let file = hole(&scratch, 1024 * MIB);
    let (found, _) = DoctorFindings::during(&mut program("jumps", &file));
    let finding = found.the_one("readahead_wasted", &file);
    assert!(
        number(&finding["figures"], "readahead_wasted_pages") > 0,
        "pages left unread: {finding}"
    );
}

fn reread() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 64 * MIB);
    let (found, pid) = DoctorFindings::during(&mut program("again", &file));
    let finding = found.the_one("reread_from_disk", &file);
    let figures = &finding["figures"];
    assert_eq!(number(figures, "file_pages"), pages_of(&file), "its size");
    assert!(
        number(figures, "evicted_other_pages") > number(figures, "evicted_reclaim_pages"),
        "it was dropped, and not reclaimed: {finding}"
    );
    let named = format!("({pid})");
    let also = finding["also"].as_array().expect("a list");
    assert!(
        also.iter().any(|folded| folded["id"] == "who_misses"
            && folded["cause"]
                .as_str()
                .is_some_and(|cause| cause.contains(&named))),
        "the process that reads it is named as evidence: {named} {finding}"
    );
}

fn tiny_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let (found, _) = DoctorFindings::during(&mut program("tiny", &file));
    let finding = found.the_one("tiny_reads", &file);
    assert_eq!(
        number(&finding["figures"], "read_average_bytes"),
        100,
        "as they are"
    );
}

/// There is no way to touch mapped memory without unsafe code, and so a language that has one.
fn fault_storm() {
    let there = Command::new("python3").arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        println!("skipped: finding::fault_storm: needs python3");
        return;
    }
    let scratch = Scratch::new();
    let file = hole(&scratch, 128 * MIB);
    let script = "import mmap, os, select, sys\n\
        fd = os.open(sys.argv[1], os.O_RDONLY)\n\
        size = os.fstat(fd).st_size\n\
        print('ready', flush=True)\n\
        while not select.select([sys.stdin], [], [], 0)[0]:\n\
        \x20   os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)\n\
        \x20   with mmap.mmap(fd, size, prot=mmap.PROT_READ) as map:\n\
        \x20       map.madvise(mmap.MADV_RANDOM)\n\
        \x20       sum(map[place] for place in range(0, size, mmap.PAGESIZE))\n";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(&file);
    let (found, _) = DoctorFindings::during(&mut command);
    let finding = found.the_one("fault_storm", &file);
    assert!(
        number(&finding["figures"], "fault_miss_pages") >= 1000,
        "each waited: {finding}"
    );
}

fn direct_io() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let stop = scratch.path("stop");
    let script = "echo ready; \
        while [ ! -e \"$2\" ]; do dd if=\"$1\" of=/dev/null bs=1M iflag=direct status=none; done";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args([&file, &stop]);
    let mut load = Started::of(command.stdin(Stdio::null()));
    assert_eq!(
        load.line().as_deref(),
        Some(&b"ready\n"[..]),
        "the load begins"
    );
    let found = DoctorFindings::watched();
    fs::write(&stop, "").expect("a file can be made");
    load.wait().expect(0, "the load ends when it is told to");
    let finding = found.the_one("direct_io", &file);
    let figures = &finding["figures"];
    assert_eq!(number(figures, "file_size_bytes"), 16 * MIB, "its size now");
    assert!(
        number(figures, "read_again_bytes") > 0 && finding["severity"] == "warn",
        "the same was fetched again: {finding}"
    );
}

fn dirty_backlog() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 512 * MIB);
    let Some(_limits) = DirtyLimits::lowered(48 * MIB, 64 * MIB) else {
        println!("skipped: finding::dirty_backlog: the limits of dirty memory cannot be set here");
        return;
    };
    undisturbed(|| {
        let (found, _) = DoctorFindings::during(&mut program("dirty", &file));
        let all = found.0["findings"].as_array().expect("a list");
        // At the end of the watch; the device may just have caught up.
        let finding = all
            .iter()
            .find(|finding| finding["id"] == "dirty_backlog")?;
        let figures = &finding["figures"];
        assert!(
            number(figures, "dirty_bytes") >= 56 * MIB,
            "at the point from which writers are held back: {finding}"
        );
        Some(())
    });
}

fn thrashing() {
    let made = || {
        let group = Group::new()?;
        group.limit_memory(32 * MIB)?;
        Some(group)
    };
    let Some(group) = made() else {
        println!(
            "skipped: finding::thrashing: no control group with a memory limit can be made here"
        );
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 96 * MIB);
    let name = group.path().file_name().expect("it has a name");
    let subject = Path::new("/").join(name);
    undisturbed(|| {
        evict(&file);
        let script = "echo $$ >\"$1\"/cgroup.procs; echo ready; \
            while [ ! -e \"$3\" ]; do cat \"$2\" >/dev/null; done";
        let stop = scratch.path("stop");
        let _ = fs::remove_file(&stop);
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .args([group.path(), &file, &stop]);
        let mut load = Started::of(command.stdin(Stdio::null()));
        assert_eq!(
            load.line().as_deref(),
            Some(&b"ready\n"[..]),
            "the load begins"
        );
        let found = DoctorFindings::watched();
        fs::write(&stop, "").expect("a file can be made");
        load.wait().expect(0, "the load ends when it is told to");
        let all = found.about(&subject);
        assert_eq!(all.len(), 1, "one finding: {}", found.0["findings"]);
        let finding = all[0];
        assert_eq!(
            finding["severity"], "warn",
            "pages are refaulted: {finding}"
        );
        let has = |rule: &str| {
            let rules = finding["rules"].as_array().expect("a list");
            rules.iter().any(|id| id == rule)
        };
        assert!(has("group_limit"), "the limit is evidence: {finding}");
        let about_file = found.about(&file);
        assert!(
            about_file.is_empty(),
            "the file is evidence, not a second subject: {about_file:?}"
        );
        // Version 1 reports no pressure of groups: that of the machine counts, which depends on others.
        if !has("thrashing") {
            return None;
        }
        let figures = &finding["figures"];
        assert_eq!(number(figures, "memory_limit_bytes"), 32 * MIB, "its limit");
        assert!(
            number(figures, "refault_pages") > pages_of(&file),
            "round after round: {finding}"
        );
        let step = finding["next_step"].as_str().unwrap_or_default();
        assert!(step.contains("32.0 MiB"), "what to raise: {step}");
        Some(())
    });
}

/// A quiet machine ends with 0 under --check; with a load that makes a warning it is 1.
fn check() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let mut load = Started::of(program("tiny", &file).stdin(Stdio::piped()));
    assert_eq!(
        load.line().as_deref(),
        Some(&b"ready\n"[..]),
        "the load begins"
    );
    Ended::of(&mut doctor(&["--seconds", SECONDS, "--check"])).expect(1, "there is a warning");
    drop(load.child.stdin.take());
    load.wait().expect(0, "the load ends");
    let ended = Ended::of(&mut doctor(&["--seconds", "0", "--check"]));
    ended.expect(0, "nothing that is needed is missing");
}
