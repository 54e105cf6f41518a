//! `run` starts a program untouched: what goes through it, how it ends, what it finds around it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("streams::bytes_pass_through", bytes_pass_through),
        plain(
            "streams::only_the_report_is_added",
            only_the_report_is_added,
        ),
        plain(
            "streams::the_program_closes_stderr",
            the_program_closes_stderr,
        ),
        plain("streams::stderr_is_closed", stderr_is_closed),
        plain("streams::all_are_closed", all_are_closed),
        plain("end::exit_status", exit_status),
        plain("end::killed", killed),
        plain("end::the_reader_has_gone", the_reader_has_gone),
        needs_root("start::bytes_nobody_told", bytes_nobody_told),
        plain("start::not_found", not_found),
        plain("start::not_executable", not_executable),
        plain("start::no_command", no_command),
        plain("start::options_of_following", options_of_following),
        plain("start::options_of_the_program", the_programs_own_options),
        plain("signals::reach_the_program", signals_reach_the_program),
        plain("signals::end_the_program", a_signal_ends_the_program),
        plain(
            "signals::ignored_hangup_stays_ignored",
            ignored_hangup_stays_ignored,
        ),
        plain(
            "signals::ignored_and_blocked_are_inherited",
            ignored_and_blocked_are_inherited,
        ),
        plain("surroundings::environment", environment),
        plain("surroundings::directory_and_limits", directory_and_limits),
        plain("surroundings::descriptors", descriptors),
        needs_root("tree::forks_a_thousand_times", forks_a_thousand_times),
        needs_root("tree::outlives_its_parent", outlives_its_parent),
        needs_root("tree::threads", threads),
        needs_root("tree::under_itself", under_itself),
        needs_root("setuid::to_a_lesser_user", setuid_to_a_lesser_user),
        needs_root("setuid::to_root", setuid_to_root),
    ]
}

/// The program, without a report in the way.
fn quietly<S: AsRef<OsStr>>(command: impl IntoIterator<Item = S>) -> Command {
    let mut run = cachewise(["run", "-o", "csv=/dev/null", "--"]);
    run.args(command);
    run
}

fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

fn bytes_pass_through() {
    // Every byte value, in no particular order, and more than a pipe holds.
    let bytes: Vec<u8> = (0..1_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let ended = Ended::with_input(&mut quietly(["cat"]), &bytes).expect(0, "cat succeeds");
    assert!(
        ended.out == bytes,
        "what cat reads and writes is what we gave it, byte by byte"
    );
    assert_eq!(ended.complaints(), "", "nothing else is said");
}

fn only_the_report_is_added() {
    let script = "printf 'to out\\n'; printf 'to err\\n' >&2";
    let ended = Ended::of(cachewise(["run", "--"]).args(shell(script))).expect(0, "it succeeds");
    assert_eq!(
        ended.out(),
        "to out\n",
        "standard output is the program's alone"
    );
    assert!(
        ended.err().starts_with("to err\n"),
        "the report follows what the program said"
    );
    assert!(
        ended.err().contains("findings"),
        "there is a report: {}",
        ended.err()
    );
}

fn the_program_closes_stderr() {
    Ended::of(cachewise(["run", "--"]).args(shell("exec 2>&-; exit 5")))
        .expect(5, "a program may close its standard error")
        .says("exit 5", "ours is still open for the report");
}

fn stderr_is_closed() {
    for (code, own) in [(0, "exit 0"), (5, "exit 5")] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>&-", "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args(["run", "--", "sh", "-c", own]);
        Ended::of(&mut command).expect(code, "without a standard error the status is all there is");
    }
}

fn all_are_closed() {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" <&- >&- 2>&-", "sh"]);
    command
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .args(["run", "--", "sh", "-c", "exit 6"]);
    Ended::of(&mut command).expect(6, "without any stream too");
}

fn exit_status() {
    for code in [0, 1, 2, 3, 126, 127, 255] {
        let script = format!("exit {code}");
        Ended::of(quietly(shell(&script)).env("LC_ALL", "C"))
            .expect(code, "the program's status is ours");
    }
}

fn killed() {
    for (name, number) in [("KILL", 9), ("TERM", 15), ("SEGV", 11), ("PIPE", 13)] {
        let script = format!("ulimit -c 0; kill -{name} $$");
        let report = report_of(&[], shell(&script));
        assert_eq!(
            report.json["exit"]["signal_name"],
            format!("SIG{name}"),
            "the report names the signal"
        );
        report.ended.expect(128 + number, "as a shell would say it");
    }
}

fn the_reader_has_gone() {
    // The program dies of it, as it would without us; we do not.
    let mut run = Started::of(&mut quietly(["yes"]));
    assert_eq!(run.line().as_deref(), Some(&b"y\n"[..]), "it writes");
    run.close_output();
    run.wait().expect(128 + 13, "the program got SIGPIPE");
}

fn not_found() {
    // A directory of PATH that may not be searched would be another answer.
    Ended::of(quietly(["cachewise-has-no-such-command"]).env("PATH", "/usr/bin:/bin"))
        .expect(127, "not found is 127")
        .says(
            "cachewise-has-no-such-command",
            "it says what was not found",
        );
    Ended::of(&mut quietly(["/nonexistent/program"]))
        .expect(127, "by its path too")
        .says("/nonexistent/program", "it says what was not found");
}

fn not_executable() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 100);
    Ended::of(&mut quietly([&file]))
        .expect(126, "a plain file is not executable")
        .says(&file.to_string_lossy(), "it says what is not executable");
    Ended::of(&mut quietly([scratch.directory()]))
        .expect(126, "neither is a directory")
        .says(
            &scratch.directory().to_string_lossy(),
            "it says what is not executable",
        );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
    Ended::of(&mut quietly([&file])).expect(126, "nor are random bytes, whatever their mode");
}

fn no_command() {
    for arguments in [&["run"][..], &["run", "--"]] {
        Ended::of(&mut cachewise(arguments))
            .expect(2, "there is nothing to run")
            .says("nothing to run", "it says what is wrong")
            .says("cachewise run -- ls", "what to write instead")
            .says("Usage", "and how it is meant");
    }
}

fn options_of_following() {
    Ended::of(&mut cachewise(["run", "-d", "1", "--", "true"]))
        .expect(2, "-d is about following a process with -p")
        .says("--pid", "it says what is missing");
    let own = std::process::id().to_string();
    Ended::of(&mut cachewise(["run", "-p", &own, "--", "true"]))
        .expect(2, "either a process or a command")
        .says(&format!("--pid {own}"), "it says what contradicts")
        .says("\"true\"", "what else was given")
        .says("one of the two", "and what to do");
}

fn bytes_nobody_told() {
    // The kernel reads a program's head, and says of which page, and no more.
    let report = report_of(&[], ["true"]);
    let program = fs::canonicalize("/bin/true").expect("it is there");
    let row = report.file(&program);
    assert!(
        number(row, "read_requested_pages") > 0,
        "its first page was asked for: {row}"
    );
    assert!(
        row["read_bytes"].is_null(),
        "how much of it is not known, which is not 0: {row}"
    );
    let reason = row["reasons"]["read_bytes"].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains("execve")),
        "with the reason: {row}"
    );
    report.adds_up();
}

fn the_programs_own_options() {
    let ended = Ended::of(
        cachewise(["run", "-o", "csv=/dev/null", "printf"]).args(["%s\n", "-n", "-p", "--json"]),
    );
    let ended = ended.expect(
        0,
        "what follows the command is the command's, without -- too",
    );
    assert_eq!(ended.out(), "-n\n-p\n--json\n", "word by word");
}

fn signals_reach_the_program() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.02; done"
        );
        let mut run = Started::of(&mut quietly(shell(&script)));
        assert_eq!(
            run.line().as_deref(),
            Some(&b"ready\n"[..]),
            "the program is there"
        );
        run.signal(signal);
        let ended = run
            .wait()
            .expect(7, "the program decides what a signal means");
        assert_eq!(
            ended.out(),
            format!("ready\ngot {name}\n"),
            "it got the signal, once"
        );
    }
}

fn a_signal_ends_the_program() {
    let mut run = Started::of(cachewise(["run", "--"]).args(shell("echo ready; exec sleep 1000")));
    assert_eq!(
        run.line().as_deref(),
        Some(&b"ready\n"[..]),
        "the program is there"
    );
    run.signal(Signal::TERM);
    run.wait()
        .expect(128 + 15, "the program died of the signal that we were sent")
        .says("SIGTERM", "there is a report, and it says so");
}

/// A line of `/proc/self/status` as a program sees it, started through `through`.
fn masks(through: &[&str], under: bool) -> Vec<String> {
    let mut words: Vec<&str> = through.to_vec();
    if under {
        words.extend([
            env!("CARGO_BIN_EXE_cachewise"),
            "run",
            "-o",
            "csv=/dev/null",
            "--",
        ]);
    }
    words.extend(["grep", "-E", "^Sig(Ign|Blk):", "/proc/self/status"]);
    let ended = Ended::of(Command::new(words[0]).args(&words[1..])).expect(0, "grep finds them");
    ended.out().lines().map(str::to_owned).collect()
}

/// The signals in one of those lines. 32 and 33 are the C library's own: it does with them what it
/// likes, and sets them up again in each program that needs them.
fn signals(lines: &[String], name: &str) -> u64 {
    let line = lines
        .iter()
        .find_map(|line| line.strip_prefix(name))
        .expect("it is there");
    let set = u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("a mask");
    set & !(0b11 << 31)
}

fn ignored_hangup_stays_ignored() {
    let through = ["env", "--ignore-signal=HUP"];
    let lines = masks(&through, true);
    assert_eq!(
        signals(&lines, "SigIgn") & 1,
        1,
        "nohup is of no use otherwise: {lines:?}"
    );
    assert_eq!(
        signals(&masks(&["env"], true), "SigIgn") & 1,
        0,
        "and it is not ignored where it was not"
    );
}

fn ignored_and_blocked_are_inherited() {
    let through = [
        "env",
        "--ignore-signal=PIPE,USR2,INT",
        "--block-signal=WINCH,ALRM",
    ];
    let (plain, under) = (masks(&through, false), masks(&through, true));
    assert_eq!(
        format!("{:x}", signals(&under, "SigBlk")),
        format!("{:x}", signals(&plain, "SigBlk")),
        "what was blocked is, and no more"
    );
    assert_eq!(
        format!("{:x}", signals(&under, "SigIgn")),
        format!("{:x}", signals(&plain, "SigIgn")),
        "what was ignored is, and no more (1000 is SIGPIPE)"
    );
}

fn environment() {
    let odd = OsStr::from_bytes(b"line\nand \xff\xfe");
    let with = |command: &mut Command| {
        Ended::of(command.env("CACHEWISE_TEST_ODD", odd).env("NO_COLOR", "1"))
            .expect(0, "env succeeds")
            .out
    };
    let plain = with(
        Command::new("env")
            .arg("-0")
            .env_remove("CACHEWISE_BPF_LOG"),
    );
    let under = with(&mut quietly(["env", "-0"]));
    assert!(
        plain == under,
        "the program sees the same variables, in the same order: {} and {}",
        String::from_utf8_lossy(&plain),
        String::from_utf8_lossy(&under)
    );
}

fn directory_and_limits() {
    let scratch = Scratch::new();
    let script = "readlink /proc/self/cwd; umask; nice; cat /proc/self/limits \
        /proc/self/oom_score_adj /proc/self/coredump_filter /proc/self/cgroup; \
        grep -E '^(Uid|Gid|Groups|NoNewPrivs|Seccomp|Cap|Cpus_allowed|NStgid)' /proc/self/status \
        | grep -v NStgid; ps -o pgid=,sid=,tty= -p $$ | sed \"s/^/group /\"";
    let around = |command: &mut Command| {
        let ended = Ended::of(command.current_dir(scratch.directory())).expect(0, "it succeeds");
        ended.out()
    };
    let plain = around(Command::new("sh").args(["-c", script]));
    let under = around(&mut quietly(shell(script)));
    assert_eq!(
        under, plain,
        "directory, mask, limits, groups and rights are those that we had"
    );
}

fn descriptors() {
    let list = |command: &mut Command| {
        let ended = Ended::of(command).expect(0, "find succeeds");
        let mut names: Vec<String> = ended.out().lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let find = [
        "find",
        "/proc/self/fd/",
        "-mindepth",
        "1",
        "-printf",
        "%f %l\\n",
    ];
    let under = list(&mut quietly(find));
    assert!(
        !under.iter().any(|line| line.contains("bpf")
            || line.contains("btf")
            || line.contains("anon_inode")),
        "none of the probe's descriptors is there: {under:?}"
    );
    let plain = list(Command::new(find[0]).args(&find[1..]));
    let numbers = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .filter_map(|line| line.split(' ').next())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        numbers(&under),
        numbers(&plain),
        "nor any other: {under:?}, not {plain:?}"
    );

    let mut command = Command::new("sh");
    command.args(["-c", "exec 7</etc/passwd; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_cachewise"));
    command.args([
        "run",
        "-o",
        "csv=/dev/null",
        "--",
        "readlink",
        "/proc/self/fd/7",
    ]);
    let ended = Ended::of(&mut command).expect(0, "a descriptor that we were given is passed on");
    assert_eq!(ended.out(), "/etc/passwd\n", "as it is");
}

fn forks_a_thousand_times() {
    const FORKS: u64 = 1000;
    let scratch = Scratch::new();
    let file = scratch.file("file", 3 * page_size());
    let script = format!("for n in $(seq {FORKS}); do /bin/cat \"$1\" >/dev/null; done; true");
    let mut words: Vec<OsString> = shell(&script).map(Into::into).into();
    words.extend(["sh".into(), file.clone().into()]);
    let report = report_of(&[], words);
    let cats = report
        .processes()
        .iter()
        .filter(|process| process["command"] == "cat");
    let cats: Vec<_> = cats.collect();
    assert_eq!(cats.len() as u64, FORKS, "each of the thousand is listed");
    let of_file = number(report.file(&file), "read_requested_pages");
    assert_eq!(
        of_file,
        FORKS * 3,
        "three pages each, summed up over a thousand processes"
    );
    // They all do the same: the file, and what starting cat reads.
    let first = number(cats[0], "read_requested_pages");
    for cat in cats {
        assert_eq!(
            number(cat, "read_requested_pages"),
            first,
            "and none lacks a page: {cat}"
        );
        assert_eq!(
            cat["exit_status"], "0",
            "each has ended, and how is known: {cat}"
        );
    }
    assert_eq!(
        report.json["lost"],
        serde_json::json!([]),
        "nothing was lost on the way"
    );
    report.adds_up();
    report.ended.expect(0, "the program succeeds");
}

fn outlives_its_parent() {
    struct Orphan(u32);
    impl Drop for Orphan {
        fn drop(&mut self) {
            signal(self.0, Signal::KILL);
        }
    }
    // Setsid and all descriptors elsewhere: what a daemon does.
    let script = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; exit 4";
    let report = report_of(&[], shell(script));
    let pid = report
        .ended
        .out()
        .trim()
        .parse()
        .expect("the shell says who stays");
    let orphan = Orphan(pid);
    let row = report
        .processes()
        .iter()
        .find(|process| process["pid"] == orphan.0)
        .unwrap_or_else(|| panic!("process {pid} is in the report: {:?}", report.processes()));
    assert_eq!(
        row["exit_status"], "running",
        "it is said to run still: {row}"
    );
    let notes = report.json["backend"]["notes"].to_string();
    assert!(
        notes.contains("1 process of this run is still running")
            && notes.contains(&pid.to_string()),
        "a note says that its later reads are not counted: {notes}"
    );
    assert!(
        Path::new(&format!("/proc/{pid}")).exists(),
        "which it does: nobody killed it"
    );
    report.adds_up();
    report.ended.expect(
        4,
        "the report does not wait for it, and the status is the command's",
    );
}

fn threads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 << 20);
    let command = program("threads", &file);
    evict(&file);
    let mut words = vec![command.get_program().to_owned()];
    words.extend(command.get_args().map(OsStr::to_owned));
    let report = report_of(&[], words);
    let row = report.file(&file);
    assert_eq!(
        number(row, "read_requested_pages"),
        pages_of(&file),
        "four threads, each page once"
    );
    assert_eq!(
        report.processes().len(),
        1,
        "they are one process: {:?}",
        report.processes()
    );
    report.adds_up();
    report.ended.expect(0, "the program succeeds");
}

fn under_itself() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let inner = scratch.path("inner.json");
    let mut words: Vec<OsString> = vec![
        env!("CARGO_BIN_EXE_cachewise").into(),
        "run".into(),
        "-o".into(),
    ];
    words.extend([
        inner.clone().into(),
        "--".into(),
        "cat".into(),
        file.clone().into(),
    ]);
    let outer = report_of(&[], words);
    let (pages, outer_pages) = (
        pages_of(&file),
        number(outer.file(&file), "read_requested_pages"),
    );
    assert_eq!(
        outer_pages, pages,
        "the outer one counts what is done under the inner one"
    );
    outer.adds_up();
    let ended = Ended::of(&mut Command::new("true"));
    let inner = Report::read(&inner, ended);
    assert_eq!(
        number(inner.file(&file), "read_requested_pages"),
        pages,
        "and the inner one the same"
    );
    inner.adds_up();
    assert_eq!(inner.processes().len(), 1, "which sees cat alone");
}

/// A copy of cat, owned and setuid by this user.
fn setuid_cat(scratch: &Scratch, user: u32) -> std::path::PathBuf {
    let cat = scratch.path("setuid-cat");
    copy_program(Path::new("/bin/cat"), &cat);
    std::os::unix::fs::chown(&cat, Some(user), Some(user)).expect("root may give it away");
    // After the owner: changing that takes the bit away.
    fs::set_permissions(&cat, fs::Permissions::from_mode(0o4755)).expect("root may");
    cat
}

fn setuid_to_a_lesser_user() {
    let scratch = Scratch::new();
    let cat = setuid_cat(&scratch, 65534);
    let file = scratch.file("file", 1 << 20);
    counts_setuid(&file, [cat.into_os_string(), file.clone().into()].into());
}

fn setuid_to_root() {
    let scratch = Scratch::new();
    let cat = setuid_cat(&scratch, 0);
    let file = scratch.file("file", 1 << 20);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let mut words: Vec<OsString> = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ]
    .map(Into::into)
    .into();
    words.extend([cat.into(), file.clone().into()]);
    counts_setuid(&file, words);
}

fn counts_setuid(file: &Path, words: Vec<OsString>) {
    let report = report_of(&[], words);
    assert!(
        report.ended.out == fs::read(file).expect("it is there"),
        "the program runs with its owner's rights, and writes what it reads"
    );
    assert_eq!(
        number(report.file(file), "read_requested_pages"),
        pages_of(file),
        "whose rights a program has makes no difference to what is counted"
    );
    let found = report.processes().iter().any(|process| {
        process["command"]
            .as_str()
            .is_some_and(|name| name.starts_with("setuid-cat"))
            && number(process, "read_requested_pages") >= pages_of(file)
    });
    assert!(found, "its pages are on its row: {:?}", report.processes());
    report.adds_up();
    report.ended.expect(0, "the program succeeds");
}
