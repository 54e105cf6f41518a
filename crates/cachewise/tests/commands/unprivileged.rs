//! Without the right to load a probe, or refused half-way: estimates that are marked as such, or a
//! clear refusal. Never a crash, never a number that looks exact and is not.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use cachewise_model::Reason;
use serde_json::Value;

use crate::support::*;

/// Becomes the binary without bpf(2), if this program was started for it.
pub fn be_without_bpf() -> Option<ExitCode> {
    let errno = std::env::var(REFUSE_BPF).ok()?;
    Some(without_bpf(&errno))
}

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("nobody::run", || runs(&Without::root())),
        plain("nobody::stat", || shows_rows(&Without::root())),
        plain("nobody::parts_of_the_system", || {
            refuses_parts(&Without::root())
        }),
        plain("nobody::a_table_without_rows_says_why", csv_says_why),
        plain("nobody::top", || shows_nobody(&Without::root())),
        plain("nobody::doctor", || finds_nothing(&Without::root())),
        plain(
            "nobody::passes_through",
            || passes_through(&Without::root()),
        ),
        plain("nobody::follows_its_own", || follows(&Without::root())),
        plain("nobody::may_not_follow_others", may_not_follow_others),
        needs_root("capabilities::run", || runs(&Without::capabilities())),
        needs_root(
            "capabilities::stat",
            || shows_rows(&Without::capabilities()),
        ),
        needs_root("capabilities::parts_of_the_system", || {
            refuses_parts(&Without::capabilities());
        }),
        needs_root("capabilities::passes_through", || {
            passes_through(&Without::capabilities());
        }),
        needs_root("capabilities::are_enough", capabilities_are_enough),
        needs_root("capabilities::are_enough_for_stat", are_enough_for_stat),
        needs_root("capabilities::are_enough_for_top", are_enough_for_top),
        needs_root(
            "capabilities::show_others_files",
            capabilities_show_others_files,
        ),
        plain("seccomp::no_bpf_at_all", no_bpf_at_all),
        needs_root("seccomp::bpf_is_forbidden", bpf_is_forbidden),
        needs_root("half_way::run", half_way_run),
        needs_root("half_way::stat", half_way_stat),
    ]
}

/// The binary where it may not load a probe.
struct Without {
    words: Vec<OsString>,
    scratch: Scratch,
}

impl Without {
    /// As a user without capabilities. Tests that run as an ordinary user are that already.
    fn root() -> Without {
        let words: &[&str] = match rustix::process::geteuid().is_root() {
            true => &["--reuid", "65534", "--regid", "65534", "--clear-groups"],
            false => &[],
        };
        Without::having(words)
    }

    /// As root, in a container that was not given what it takes.
    fn capabilities() -> Without {
        Without::having(&[
            "--bounding-set",
            "-bpf,-perfmon,-sys_admin",
            "--inh-caps",
            "-all",
        ])
    }

    fn having(options: &[&str]) -> Without {
        let scratch = Scratch::new();
        let mut words: Vec<OsString> = vec!["setpriv".into(), "--no-new-privs".into()];
        words.extend(options.iter().map(Into::into));
        words.push(copy_for_everyone(scratch.directory()).into());
        Without { words, scratch }
    }

    fn cachewise(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .args(arguments)
            .env_remove("NO_COLOR");
        command
            .env_remove("CACHEWISE_BPF_LOG")
            .current_dir(self.scratch.directory());
        command
    }
}

/// Every number of an object is known, or it has a reason; what is an estimate is marked.
fn says_why(object: &Value) {
    let members = object.as_object().expect("an object");
    for (id, value) in members {
        if value.is_null() {
            assert!(
                object["reasons"][id].is_string(),
                "{id} is missing for a reason: {object}"
            );
            let code = object["reason_codes"][id].as_str();
            assert!(
                code.is_some_and(|code| Reason::ALL.iter().any(|reason| reason.code() == code)),
                "{id} has the code of a reason: {object}"
            );
        }
    }
    for id in object["estimated"].as_array().into_iter().flatten() {
        let id = id.as_str().expect("an id");
        assert!(
            object["reasons"][id].is_string(),
            "{id} says how it came about: {object}"
        );
        assert!(object[id].is_number(), "an estimate is a number: {object}");
    }
}

fn runs(without: &Without) {
    let ended = Ended::of(&mut without.cachewise(&["run", "--", "true"]));
    let ended = ended.expect(0, "a program can be run by anybody");
    let err = ended.err();
    assert!(err.contains('~'), "estimates are marked: {err}");
    assert!(
        !err.contains("exact to the page"),
        "nothing claims to be exact: {err}"
    );
    assert!(
        !err.contains("buffered reads") && err.contains("read calls, with pipes"),
        "calls are counted, whatever they read: {err}"
    );
    assert!(
        !err.contains("adds up:"),
        "and nothing is proven by estimates: {err}"
    );
    let notes: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("note: "))
        .collect();
    assert_eq!(notes.len(), 1, "one line says what is missing: {err}");
    for part in ["estimates", "root", "CAP_BPF"] {
        assert!(
            notes[0].contains(part),
            "it says {part:?}, so how to get the rest: {}",
            notes[0]
        );
    }

    let ended = Ended::of(&mut without.cachewise(&["run", "--json", "--", "true"]));
    let document: Value = serde_json::from_slice(&ended.err).expect("the report is JSON");
    assert_eq!(
        document["backend"]["exact"], false,
        "it says that it is not exact"
    );
    let totals = &document["totals"];
    says_why(totals);
    for id in [
        "read_requested_pages",
        "read_missed_pages",
        "read_hit_pages",
        "reuse_ratio",
        "direct_bytes",
    ] {
        assert!(
            totals[id].is_null(),
            "{id} cannot be had, and 0 would be a lie: {totals}"
        );
    }
    let estimated = totals["estimated"].as_array().expect("some are estimated");
    assert!(!estimated.is_empty(), "something can be had: {totals}");
    for law in document["laws"].as_array().expect("it has laws") {
        assert!(law["holds"].is_null(), "no law is said to hold: {law}");
    }
    assert_eq!(document["exit"]["code"], 0, "how it ended is known");
}

fn shows_rows(without: &Without) {
    let ended = Ended::of(&mut without.cachewise(&["stat", "0.05", "2"]));
    let ended = ended.expect(0, "the machine can be watched by anybody");
    let rows: Vec<String> = ended
        .out()
        .lines()
        .skip(1)
        .take(2)
        .map(str::to_owned)
        .collect();
    assert_eq!(rows.len(), 2, "two rows: {}", ended.out());
    for row in &rows {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells[1..4],
            ["-", "-", "-"],
            "reads cannot be had, which is not 0: {row}"
        );
        assert!(row.contains('~'), "what is an estimate is marked: {row}");
    }
    let notes: Vec<String> = ended.err().lines().map(str::to_owned).collect();
    assert_eq!(
        notes.len(),
        1,
        "one line says what is missing: {}",
        ended.err()
    );
    assert!(
        notes[0].contains("CAP_BPF"),
        "and how to get the rest: {}",
        notes[0]
    );

    let ended = Ended::of(&mut without.cachewise(&["stat", "-o", "jsonl", "0.05", "2"]));
    for line in ended.expect(0, "in machine formats too").out().lines() {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        says_why(&row);
        assert!(
            row["read_requested_pages"].is_null(),
            "not known is null: {row}"
        );
        assert!(
            row["cached_bytes"].is_number(),
            "what procfs tells is there: {row}"
        );
        let estimated = row["estimated"].as_array().expect("some are estimated");
        assert!(
            estimated.contains(&"dirtied_pages".into()),
            "and marked: {row}"
        );
    }
    let ended = Ended::of(&mut without.cachewise(&["stat", "-o", "csv", "0.05", "2"]));
    let ended = ended.expect(0, "in CSV too");
    for row in csv::Reader::from_reader(&ended.out[..]).records() {
        let row = row.expect("each row has all cells");
        assert_eq!(&row[1], "", "not known is empty: {row:?}");
    }
}

/// An empty list would claim that no process does anything.
fn shows_nobody(without: &Without) {
    for view in ["process", "file", "cgroup", "device"] {
        let rows = |format| {
            let arguments = [
                "top", "-b", "-d", "0.05", "-n", "2", "--view", view, "-o", format,
            ];
            let ended = Ended::of(&mut without.cachewise(&arguments));
            ended.expect(0, "the machine can be watched by anybody")
        };
        let lines = rows("jsonl").out();
        let mut seen = 0;
        for line in lines.lines() {
            let row: Value = serde_json::from_str(line).expect("a row is JSON");
            says_why(&row);
            assert!(
                row["read_requested_pages"].is_null(),
                "{view}: not known is null: {row}"
            );
            seen += 1;
        }
        if ["process", "file"].contains(&view) {
            assert_eq!(
                seen, 2,
                "{view}: a row an interval says that none are known"
            );
            let document: Value = serde_json::from_slice(&rows("json").out).expect("it is JSON");
            says_why(&document["rows"][0]);
            let ended = rows("csv");
            let mut table = csv::Reader::from_reader(&ended.out[..]);
            let row = table.records().next().expect("a row").expect("all cells");
            let reasons = row.get(row.len() - 1).unwrap_or_default();
            assert!(
                reasons.contains("read_requested_pages: "),
                "{view}: {reasons}"
            );
        }
        let metrics = rows("openmetrics").out();
        assert!(metrics.ends_with("# EOF\n"), "{view}: whole: {metrics}");
        // A machine that is quiet for a moment has no rows of groups and devices.
        if ["process", "file"].contains(&view) || metrics.contains('{') {
            assert!(
                metrics.contains("\ncachewise_left_out{reason=\""),
                "{view}: what is absent is absent for a reason: {metrics}"
            );
        }
    }
    let ended = Ended::of(&mut without.cachewise(&["top", "-b", "-d", "0.05", "-n", "1"]));
    let (out, err) = (ended.out(), ended.err());
    assert!(
        out.lines().count() == 2 && !out.contains(" 0 "),
        "a row of - : {out}"
    );
    assert!(err.contains("not 0"), "and what that means: {err}");
}

fn finds_nothing(without: &Without) {
    let doctor = |arguments: &[&str]| {
        let all = [&["doctor", "--seconds", "0.1"], arguments].concat();
        Ended::of(&mut without.cachewise(&all)).expect(0, "anybody may ask")
    };
    let document: Value = serde_json::from_slice(&doctor(&["--json"]).out).expect("it is JSON");
    let why = document["reasons"]["findings"].as_str();
    if document["findings"].is_null() {
        assert!(why.is_some(), "that nothing was found says nothing");
    }
    assert!(
        why.is_some_and(|why| why.contains("could not look")),
        "rules could not look: {document}"
    );
    let text = doctor(&[]).out();
    assert!(text.contains("rules could not look"), "nor here: {text}");
    assert!(
        !text.contains("no cache problem found"),
        "so nobody is cleared: {text}"
    );
}

fn refuses_parts(without: &Without) {
    let file = without.scratch.file("file", 4096);
    let own = std::process::id().to_string();
    for filter in [
        ["-p", &own],
        ["--file", file.to_str().expect("an ordinary name")],
    ] {
        let mut command = without.cachewise(&["stat", "0.05", "1"]);
        Ended::of(command.args(filter))
            .expect(
                2,
                "vmstat knows no parts, and the whole in their place would be a lie",
            )
            .says("probe", "the message says what it would take")
            .says(
                "does not have CAP_BPF and CAP_PERFMON",
                "and why it cannot be had",
            );
    }
}

/// A CSV report has a row a file, and files are what cannot be had: nothing in it says so.
fn csv_says_why() {
    let without = Without::root();
    let target = without.scratch.path("report.csv");
    // The scratch directory is not that user's.
    std::fs::write(&target, "").expect("it is ours");
    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o666)).expect("it is ours");
    let mut command = without.cachewise(&["run", "-o"]);
    let ended = Ended::of(command.arg(&target).args(["--", "true"])).expect(0, "true succeeds");
    let text = std::fs::read_to_string(&target).expect("the report is there");
    assert!(
        text.lines().count() > 1 || ended.err().contains("estimates"),
        "an empty report with no word on why looks like a program that read nothing: {text:?}, {:?}",
        ended.err()
    );
}

fn passes_through(without: &Without) {
    let run = |script: &str| {
        Ended::of(&mut without.cachewise(&["run", "-o", "csv=/dev/null", "--", "sh", "-c", script]))
    };
    run("exit 3").expect(3, "the status is the program's");
    run("kill -9 $$").expect(137, "also of one that is killed");
    assert_eq!(run("printf 'a\\0b'").out, b"a\0b", "so are the bytes");
    Ended::of(&mut without.cachewise(&["run", "--", "/nonexistent/program"]))
        .expect(127, "not found is not found");
    Ended::of(&mut without.cachewise(&["run", "--", "/"])).expect(126, "not executable neither");
}

fn follows(without: &Without) {
    // The shell that starts it is of the same user: `$$` is its process id.
    let mut words = without.words.clone();
    let binary: PathBuf = words.pop().expect("it ends with the binary").into();
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["sh", "-c", "\"$0\" run -p $$ -d 0.1; exit $?"])
        .arg(binary);
    let ended = Ended::of(&mut command).expect(0, "one's own process can be looked at");
    let err = ended.err();
    assert!(
        err.contains("still running") && err.contains('~'),
        "estimates of it: {err}"
    );
}

fn may_not_follow_others() {
    // The init process is root's.
    let without = Without::root();
    Ended::of(&mut without.cachewise(&["run", "-p", "1", "-d", "0.05"]))
        .expect(2, "another user's process tells nothing")
        .says("process 1", "the message names it")
        .says("root", "and says who may");
}

/// A command that runs as a user who owns nothing, with only these capabilities and no way to more.
fn with_capabilities(capabilities: &str) -> Command {
    let mut command = as_nobody();
    for set in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
        command.arg(set).arg(format!("-all,{capabilities}"));
    }
    command.arg("--no-new-privs");
    command
}

/// Reads a file over and over, until it is dropped.
struct Reader(std::process::Child);

impl Reader {
    fn of(file: &std::path::Path) -> Reader {
        let script = "while :; do cat \"$0\" > /dev/null; done";
        let mut command = Command::new("sh");
        let child = command.arg("-c").arg(script).arg(file).spawn();
        Reader(child.expect("there is a shell"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A shell that has gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn are_enough_for_stat() {
    let scratch = Scratch::new();
    let binary = copy_for_everyone(scratch.directory());
    let file = scratch.file("file", 64 * page_size());
    let _reader = Reader::of(&file);
    let mut command = with_capabilities("+bpf,+perfmon");
    command
        .arg(binary)
        .args(["stat", "-o", "jsonl", "0.3", "3"]);
    let ended = Ended::of(&mut command).expect(0, "CAP_BPF and CAP_PERFMON are enough");
    let lines = ended.out();
    let rows: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .collect();
    assert!(rows.len() >= 3, "three rows: {lines}");
    for row in &rows {
        says_why(row);
        let estimated = row["estimated"].as_array();
        assert!(
            estimated.is_none_or(|ids| !ids.contains(&"read_requested_pages".into())),
            "nothing of it is an estimate: {row}"
        );
    }
    let read: u64 = rows
        .iter()
        .filter_map(|row| row["read_requested_pages"].as_u64())
        .sum();
    assert!(read >= 64, "root's reads are counted: {lines}");
}

fn are_enough_for_top() {
    let scratch = Scratch::new();
    let binary = copy_for_everyone(scratch.directory());
    let file = scratch.file("file", 64 * page_size());
    let _reader = Reader::of(&file);
    for view in ["process", "file"] {
        let mut command = with_capabilities("+bpf,+perfmon");
        command.arg(&binary);
        command.args([
            "top", "-b", "-d", "0.5", "-n", "2", "-o", "jsonl", "--view", view,
        ]);
        let ended = Ended::of(&mut command).expect(0, "CAP_BPF and CAP_PERFMON are enough");
        let lines = ended.out();
        let rows = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a row is JSON"));
        let mut found = false;
        for row in rows {
            says_why(&row);
            let is_it = match view {
                "process" => row["command"] == "cat",
                _ => row["path"] == file.to_str().expect("an ordinary name"),
            };
            found |= is_it
                && row["read_requested_pages"]
                    .as_u64()
                    .is_some_and(|pages| pages >= 64);
        }
        assert!(found, "{view}: another user's reads, by name: {lines}");
    }
}

fn capabilities_show_others_files() {
    let scratch = Scratch::new();
    let binary = copy_for_everyone(scratch.directory());
    let file = scratch.file("file", 16 * page_size());
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("it is ours");
    let row = |capabilities: &str, code: i32| -> Value {
        let mut command = with_capabilities(capabilities);
        command.arg(&binary).args(["files", "--json"]).arg(&file);
        let ended = Ended::of(&mut command).expect(code, "it is root's file");
        let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
        document["rows"][0].clone()
    };
    let without = row("+bpf,+perfmon", 2);
    says_why(&without);
    assert!(without["resident_pages"].is_null(), "not known: {without}");
    let with = row("+bpf,+perfmon,+fowner", 0);
    assert_eq!(
        with["resident_pages"], 16,
        "CAP_FOWNER is what it takes: {with}"
    );
}

fn capabilities_are_enough() {
    // Root's user id is not what it takes.
    let scratch = Scratch::new();
    let binary = copy_for_everyone(scratch.directory());
    let file = scratch.file("file", 16 * page_size());
    let mut command = with_capabilities("+bpf,+perfmon");
    command.arg(binary).args([
        "run",
        "--json",
        "--",
        "dd",
        "of=/dev/null",
        "bs=64k",
        "status=none",
    ]);
    command.arg(format!("if={}", file.display()));
    let ended = Ended::of(&mut command).expect(0, "CAP_BPF and CAP_PERFMON are what we ask for");
    let document: Value = serde_json::from_slice(&ended.err).expect("the report is JSON");
    assert_eq!(
        document["backend"]["exact"], true,
        "so they get exact numbers: {document}"
    );
    let row = document["files"].as_array().expect("it has files").iter();
    let row = row
        .clone()
        .find(|row| row["path"] == file.to_str().expect("an ordinary name"));
    let row = row.unwrap_or_else(|| panic!("the file is listed: {}", document["files"]));
    assert_eq!(row["read_requested_pages"], 16, "with its pages: {row}");
    says_why(row);
}

/// Limits on descriptors that make loading fail at every stage, from the first map to the last link.
const LIMITS: [u32; 14] = [6, 8, 12, 16, 18, 19, 20, 24, 28, 32, 36, 37, 38, 48];

fn limited(limit: u32, arguments: &[&str]) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]);
    Ended::of(command.arg(env!("CARGO_BIN_EXE_cachewise")).args(arguments))
}

/// Either it worked, or it said that it could not.
fn answered(ended: &Ended, limit: u32) {
    let err = ended.err();
    assert!(
        !err.contains("panicked"),
        "{limit} descriptors: no crash: {err}"
    );
    match ended.code() {
        0 => {}
        2 => assert!(
            err.contains("cachewise: "),
            "{limit} descriptors: it says why not: {err}"
        ),
        code => panic!("{limit} descriptors: done, or not and said so, not {code}: {err}"),
    }
}

/// Variable with the errno that seccomp returns instead of calling bpf(2): for this program when it runs again, which
/// then becomes the binary.
const REFUSE_BPF: &str = "CACHEWISE_REFUSE_BPF";

fn without_bpf(errno: &str) -> ExitCode {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    use std::os::unix::process::CommandExt;
    #[cfg(target_arch = "x86_64")]
    const BPF: i64 = 321;
    #[cfg(not(target_arch = "x86_64"))]
    const BPF: i64 = 280;
    let filter = SeccompFilter::new(
        [(BPF, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.parse().expect("a number")),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    apply_filter(&program).expect("anybody may limit himself");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cachewise"));
    let error = command
        .env_remove(REFUSE_BPF)
        .args(std::env::args_os().skip(1))
        .exec();
    panic!("{error}");
}

/// The commands that would count, each with what it says on both its outputs, where bpf(2) is refused.
fn refused_bpf(errno: i32) -> Vec<String> {
    let commands: [&[&str]; 4] = [
        &["run", "--", "true"],
        &["stat", "0.02", "1"],
        &["files", "--all"],
        &["doctor", "--seconds", "0"],
    ];
    let said = commands.map(|arguments| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .env(REFUSE_BPF, errno.to_string())
            .env_remove("CACHEWISE_BPF_LOG");
        let ended = Ended::of(command.args(arguments));
        let text = format!("{}{}", ended.out(), ended.err());
        assert!(
            [0, 2].contains(&ended.code()) && !text.contains("panicked"),
            "{arguments:?}: {text}"
        );
        text
    });
    for (text, mark) in said.iter().zip([
        "these are estimates",
        "these are estimates",
        "this is a walk of the file systems mounted here",
    ]) {
        assert!(text.contains(mark), "{mark}: {text}");
        assert!(!text.contains("exact to the page"), "nothing is: {text}");
    }
    said.into()
}

/// A kernel without it (CONFIG_BPF_SYSCALL), as a filter can pretend.
fn no_bpf_at_all() {
    const ENOSYS: i32 = 38;
    for text in refused_bpf(ENOSYS) {
        assert!(text.contains("CONFIG_BPF_SYSCALL"), "it says so: {text}");
    }
}

/// A container whose profile forbids it, to root too.
fn bpf_is_forbidden() {
    const EPERM: i32 = 1;
    for text in refused_bpf(EPERM) {
        assert!(text.contains("seccomp profile"), "it says so: {text}");
    }
}

fn half_way_run() {
    let (mut refused, mut estimated) = (0, 0);
    for limit in LIMITS {
        let ended = limited(limit, &["run", "--", "true"]);
        answered(&ended, limit);
        let err = ended.err();
        match ended.code() {
            0 if err.contains("exact to the page") => {
                assert!(
                    !err.contains("DOES NOT ADD UP"),
                    "{limit} descriptors: {err}"
                );
            }
            0 => {
                assert!(
                    err.contains("note: these are estimates"),
                    "it says what they are: {err}"
                );
                assert!(
                    !err.contains("6.1 or later"),
                    "{limit} descriptors: the kernel is not what is wrong here: {err}"
                );
                estimated += 1;
            }
            _ => refused += 1,
        }
    }
    assert!(
        estimated > 0,
        "some of these limits refuse the probe ({refused} refuse it all)"
    );
}

fn half_way_stat() {
    for limit in LIMITS {
        answered(&limited(limit, &["stat", "0.02", "2"]), limit);
        let ended = limited(
            limit,
            &["stat", "0.02", "1", "-p", &std::process::id().to_string()],
        );
        answered(&ended, limit);
    }
}
