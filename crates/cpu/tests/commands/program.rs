//! `cpu run`: hit rates and lines of programs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::cpu;
use crate::support::*;

/// A matrix gone through by iterators, which are inlined: by rows, or else by columns.
const MATRIX: &str = r#"
use std::hint::black_box;
fn rows(m: &[u64], n: usize) -> u64 {
    (0..n).map(|r| m[r * n..(r + 1) * n].iter().fold(0u64, |s, v| s.wrapping_add(*v))).fold(0, u64::wrapping_add)
}
fn columns(m: &[u64], n: usize) -> u64 {
    (0..n).map(|c| m.iter().skip(c).step_by(n).fold(0u64, |s, v| s.wrapping_add(*v))).fold(0, u64::wrapping_add)
}
fn main() {
    let n = 512;
    let m: Vec<u64> = (0..n * n).map(|i| i as u64).collect();
    let by_rows = std::env::args().nth(1).as_deref() == Some("rows");
    println!("{}", if by_rows { rows(black_box(&m), n) } else { columns(black_box(&m), n) });
}
"#;

pub fn names_the_line_through_inlined_code() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: cpu run, simulated: valgrind is not installed");
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = compiled(scratch.path(), "matrix", MATRIX);
    let program = program.as_str();
    let run = |how: &str| {
        let mut command = cpu(&["run", "--simulate", "--json", "--", program, how]);
        let ended = Ended::of(&mut command).expect(0, "the program succeeds");
        assert!(!ended.out.is_empty(), "its own output goes where it goes");
        let json: Value =
            serde_json::from_slice(&ended.err).expect("the report is on standard error");
        assert_eq!(json["simulated"], true, "and says what it is");
        json
    };
    let misses = |json: &Value| json["caches"][0]["misses"].as_u64().expect("reads of L1d");
    let (rows, columns) = (run("rows"), run("columns"));
    // A line has eight numbers: by columns each read misses, by rows one of a line.
    assert!(misses(&columns) > 5 * misses(&rows), "{rows}\n{columns}");
    let worst = &columns["lines"][0];
    assert!(
        worst["file"]
            .as_str()
            .is_some_and(|file| file.ends_with("matrix.rs")),
        "a line of one's own, not of the library that was inlined: {worst}"
    );
    assert_eq!(worst["line"], 7, "the one that goes by columns: {worst}");
    assert!(
        worst["read_miss_ratio"].as_f64() > Some(0.95),
        "all of it misses: {worst}"
    );
    let script = scratch.path().join("script");
    let text = format!("#!/bin/sh\nexec {program} columns\n");
    fs::write(&script, text).expect("it is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).expect("it is ours");
    let script = script.to_str().expect("a temporary name is text");
    let mut command = cpu(&["run", "--simulate", "--json", "--", script]);
    let ended = Ended::of(&mut command).expect(0, "a script is a program");
    let json: Value = serde_json::from_slice(&ended.err).expect("a report");
    assert_eq!(
        json["lines"][0]["line"], 7,
        "what a script becomes is looked at, too: {json}"
    );
    let wasted = worst["wasted_bytes"].as_f64().unwrap_or_default();
    let fetched = 64.0 * worst["misses"].as_f64().unwrap_or_default();
    assert!(
        wasted > 0.8 * fetched,
        "7 of 8 numbers of a line are fetched for nothing: {worst}"
    );
    assert!(
        !columns.to_string().contains("seconds\""),
        "no simulated time: {columns}"
    );
}

/// Touches each line of 512 KiB once.
const COLD: &str = r#"
use std::sync::atomic::{AtomicU8, Ordering};
static BYTES: [AtomicU8; 1 << 19] = [const { AtomicU8::new(0) }; 1 << 19];
fn main() {
    for byte in BYTES.iter().step_by(64) {
        byte.store(1, Ordering::Relaxed);
    }
    std::process::exit(i32::from(BYTES[77].load(Ordering::Relaxed)));
}
"#;

pub fn first_touches_miss_wherever_the_program_is_loaded() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: cpu run, simulated: valgrind is not installed");
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let misses = |name: &str, options: &[&str]| {
        let program = compiled_with(scratch.path(), name, COLD, options);
        let mut command = cpu(&["run", "--simulate", "--json", "--", &program]);
        let ended = Ended::of(&mut command).expect(0, "the program succeeds");
        let json: Value = serde_json::from_slice(&ended.err).expect("a report");
        let caches = json["caches"].as_array().expect("a list");
        let last = caches.iter().find(|cache| cache["cache"] == "LLC");
        let last = last.unwrap_or_else(|| panic!("there is a last level: {json}"));
        last["misses"].as_u64().expect("a number")
    };
    let moved = misses("pie", &["-C", "relocation-model=pie"]);
    let fixed = misses("fixed", &["-C", "relocation-model=static"]);
    assert!(moved.min(fixed) >= 8192, "each line once: {moved}, {fixed}");
    assert!(
        moved.abs_diff(fixed) * 33 <= fixed,
        "the place makes no difference: {moved}, {fixed}"
    );
}

pub fn simulated_programs_of_go_are_not_interrupted() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: cpu run, simulated: valgrind is not installed");
        return;
    }
    for (before, expected) in [
        (None, "asyncpreemptoff=1"),
        (Some("gctrace=1"), "gctrace=1,asyncpreemptoff=1"),
        (Some("asyncpreemptoff=0"), "asyncpreemptoff=0"),
    ] {
        let mut command = cpu(&["run", "--simulate", "--", "sh", "-c", "echo $GODEBUG"]);
        match before {
            Some(before) => command.env("GODEBUG", before),
            None => command.env_remove("GODEBUG"),
        };
        let ended = Ended::of(&mut command).expect(0, "the program succeeds");
        assert_eq!(ended.out().trim(), expected, "{before:?}");
        ended.says("asyncpreemptoff", "and a note has it");
    }
}

/// Compiles a program of Rust, with lines.
fn compiled(place: &std::path::Path, name: &str, text: &str) -> String {
    compiled_with(place, name, text, &[])
}

fn compiled_with(place: &std::path::Path, name: &str, text: &str, options: &[&str]) -> String {
    let (source, program) = (place.join(format!("{name}.rs")), place.join(name));
    fs::write(&source, text).expect("it is ours");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(compiler)
        .args(["-O", "-g"])
        .args(options)
        .arg("-o")
        .args([&program, &source])
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "rustc, which built this, compiles it"
    );
    let program = program.to_str().expect("a temporary name is text");
    program.to_owned()
}

/// Touches a hundred fresh pages for each line of input, by an iterator, which is inlined; ends as the first argument says.
const TOUCHING: &str = r#"
use std::hint::black_box;
fn touched(pages: usize) -> Vec<u8> {
    // The allocator has written to the first page.
    let mut memory: Vec<u8> = Vec::with_capacity((pages + 1) * 4096);
    memory.spare_capacity_mut().iter_mut().skip(4096).step_by(4096).for_each(|byte| { byte.write(1); });
    memory
}
fn main() {
    println!("ready");
    for _ in std::io::stdin().lines() {
        // Freed memory could be reused without a fault.
        std::mem::forget(black_box(touched(100)));
    }
    let status = std::env::args().nth(1).map_or(0, |status| status.parse().unwrap());
    std::process::exit(status);
}
"#;

/// Whether page faults can be sampled here; a line if not.
fn can_sample() -> bool {
    let mut command = cpu(&["run", "--sample", "page-faults", "--", "true"]);
    let ended = Ended::of(&mut command);
    let text = String::from_utf8_lossy(&ended.err).into_owned();
    let cannot = text.contains("cannot be sampled");
    if cannot {
        println!("skipped: cpu run --sample: {}", text.trim());
    }
    !cannot
}

pub fn samples_what_the_kernel_counts() {
    if !can_sample() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = compiled(scratch.path(), "touching", TOUCHING);
    let run = |options: &[&str]| {
        let mut command = cpu(&["run", "--sample", "page-faults"]);
        command.args(options).args(["--", &program, "7"]);
        Ended::with_input(&mut command, b"\n\n\n").expect(7, "the program's own status")
    };
    let ended = run(&["--json"]);
    let json: Value = serde_json::from_slice(&ended.err).expect("the report is on standard error");
    assert_eq!(ended.out(), "ready\n", "its own output goes where it goes");
    assert_eq!(json["simulated"], false, "{json}");
    let sampled = &json["sampled"];
    assert_eq!(sampled["event"], "page-faults", "{json}");
    assert_eq!(sampled["period"], 1, "each: {json}");
    let happened = sampled["happened"].as_u64().expect("it is counted");
    let taken = sampled["samples"].as_u64().expect("they are counted");
    let lost = sampled["lost_records"].as_u64().expect("they are counted");
    assert!(taken <= happened && happened <= taken + lost, "{sampled}");
    let lines = sampled["lines"].as_array().expect("a list");
    let touches = TOUCHING
        .lines()
        .position(|line| line.contains("byte.write"));
    let touches = touches.expect("it is there") + 1;
    let own = lines.iter().find(|line| line["line"] == touches);
    let own = own.unwrap_or_else(|| panic!("a line of one's own: {sampled}"));
    let file = own["file"].as_str().unwrap_or_default();
    assert!(file.ends_with("touching.rs"), "not the library's: {own}");
    let events = own["events"].as_u64().expect("they are counted");
    assert!(
        events <= 300 && 300 <= events + lost,
        "a hundred each time: {own} of {sampled}"
    );
    for cache in json["caches"].as_array().expect("a list") {
        assert!(
            cache["misses"].is_u64() || cache["reasons"]["misses"].is_string(),
            "a figure or a reason: {cache}"
        );
    }

    let ended = run(&["-n", "1"]);
    let text = String::from_utf8_lossy(&ended.err).into_owned();
    for part in [
        "page faults, by line",
        "EVENTS",
        "SAMPLES",
        "page faults, each one",
    ] {
        assert!(text.contains(part), "{part} is told: {text}");
    }
    let ended = run(&["--period", "7"]);
    let text = String::from_utf8_lossy(&ended.err).into_owned();
    assert!(text.contains("one of 7"), "{text}");
}

pub fn follows_by_samples() {
    if !can_sample() {
        return;
    }
    use std::io::{BufRead, Write};
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = compiled(scratch.path(), "touching", TOUCHING);
    let mut child = Command::new(program)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut input = child.stdin.take().expect("it is ours");
    let mut ready = String::new();
    let out = child.stdout.take().expect("it is ours");
    let _ = std::io::BufReader::new(out).read_line(&mut ready);
    let pid = child.id().to_string();
    // It goes on for as long as it is looked at.
    let fed = std::thread::spawn(move || while input.write_all(b"\n").is_ok() {});
    let arguments = [
        "run",
        "--json",
        "--sample",
        "cpu-clock",
        "-p",
        &pid,
        "-d",
        "1",
    ];
    let mut command = cpu(&arguments);
    let ended = Ended::of(&mut command);
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    fed.join().expect("it ends with the program");
    let ended = ended.expect(0, "the time is over");
    let json: Value = serde_json::from_slice(&ended.err).expect("the report is on standard error");
    let sampled = &json["sampled"];
    assert!(sampled["samples"].as_u64() > Some(0), "it ran: {json}");
    assert!(sampled["lines"][0]["cpu_seconds"].is_f64(), "time: {json}");
    assert!(sampled["period"].is_null(), "of time: {json}");
    assert!(sampled["period_seconds"].is_f64(), "in seconds: {json}");
}

pub fn samples_refused() {
    for (arguments, says) in [
        (
            &["run", "--sample", "page-fault", "--", "true"][..],
            "page-faults",
        ),
        (&["run", "--period", "0", "--", "true"], "0 is too small"),
        (
            &["run", "--simulate", "--sample", "L1d", "--", "true"],
            "cannot be used",
        ),
        (
            &["run", "--sample", "page-faults", "-p", "4194304"],
            "does not exist",
        ),
    ] {
        Ended::of(&mut cpu(arguments))
            .expect(2, "that cannot be sampled")
            .says(says, "it says what");
    }
    Ended::of(&mut cpu(&[
        "run",
        "--sample",
        "cpu-clock",
        "--",
        "/nowhere/program",
    ]))
    .expect(127, "there is no such program")
    .says("/nowhere/program", "it says which");
    let mut command = cpu(&["run", "--sample", "L1d", "--", "true"]);
    let ended = Ended::of(&mut command);
    // Where there is no such counter it says so, and what there is.
    if String::from_utf8_lossy(&ended.err).contains("cannot be sampled") {
        ended
            .expect(2, "it was asked for by name")
            .says("--sample page-faults", "it says what needs no hardware");
    }
}

/// Another user's process is not theirs to look at, whatever the sysctl says.
pub fn not_allowed() {
    let scratch = Scratch::new();
    let own = std::process::id().to_string();
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["run", "--sample", "page-faults", "-p", &own]);
    Ended::of(&mut command)
        .expect(2, "it is root's")
        .says("not allowed", "the kernel forbids it")
        .says("kernel.perf_event_paranoid is", "by which value")
        .says("CAP_PERFMON", "and what helps");
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["run", "--sample", "page-faults", "--", "true"]);
    let ended = Ended::of(&mut command);
    let text = ended.err();
    assert!(
        text.contains("page faults, by line") || text.contains("sysctl kernel.perf_event_paranoid"),
        "their own they may, or it says what would let them: {text}"
    );
}

pub fn refused() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let no_program = scratch.path().join("program");
    fs::write(
        &no_program,
        "what a shell would run, and exec(2) does not\n",
    )
    .expect("it is ours");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&no_program, executable).expect("it is ours");
    let no_program = no_program
        .to_str()
        .expect("a temporary name is text")
        .to_owned();
    for (arguments, code, says) in [
        (
            &["run", "--", "/nowhere/program"][..],
            127,
            "/nowhere/program",
        ),
        (&["run", "--", "/etc/passwd"], 126, "executable"),
        (&["run", "--", &no_program], 126, "format"),
        (&["run", "--"], 2, "COMMAND"),
        (&["run", "-p", "0"], 2, "process id"),
        (&["run", "-p", "4194304"], 2, "does not exist"),
        (&["run", "-p", "1", "--", "true"], 2, "cannot be used"),
    ] {
        Ended::of(&mut cpu(arguments))
            .expect(code, "that cannot be run")
            .says(says, "it says what");
    }
    let mut command = cpu(&["run", "--simulate", "--", "/bin/true"]);
    Ended::of(command.env("PATH", "/nowhere").env_remove("HOME"))
        .expect(2, "no valgrind to be found")
        .says("apt-get install valgrind", "how to get it");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        Ended::of(&mut cpu(&["run", "--simulate", "--", "sh", "-c", "exit 7"]))
            .expect(7, "the program's own status");
    }
}

/// Programs that crash are reported up to the crash, as are programs without lines or names.
pub fn of_any_kind() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let text = "int main(int n, char **v) { volatile char *p = __builtin_alloca(400 * 4096); \
                for (int i = 0; i < 400; i++) p[i * 4096] = 1; if (n > 1) __builtin_trap(); return 0; }";
    let source = scratch.path().join("plain.c");
    fs::write(&source, text).expect("it is ours");
    let compile = |name: &str, source: &std::path::Path, options: &[&str]| {
        let program = scratch.path().join(name);
        let mut command = Command::new("cc");
        command.args(options).arg("-o").arg(&program).arg(source);
        let compiled = command.output().is_ok_and(|done| done.status.success());
        let program = program.to_str().expect("a temporary name is text");
        compiled.then(|| program.to_owned())
    };
    let Some(stripped) = compile("stripped", &source, &["-s"]) else {
        println!("skipped: cpu run of a stripped program: there is no C compiler");
        return;
    };
    let valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    let ways = [
        ("--simulate", valgrind),
        ("--sample=page-faults", can_sample()),
    ];
    for (how, _) in ways.iter().filter(|(_, is_there)| *is_there) {
        let run = |program: &str, more: &[&str]| {
            let mut command = cpu(&["run", how, "--json", "--", program]);
            let ended = Ended::of(command.args(more));
            let json: Value = serde_json::from_slice(&ended.err).expect("a report");
            (ended, json)
        };
        let (ended, json) = run(&stripped, &[]);
        ended.expect(0, "it succeeds");
        let lines = match json["lines"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
        {
            true => &json["lines"],
            false => &json["sampled"]["lines"],
        };
        let mut lines = lines.as_array().expect("a list").iter();
        let worst = lines.find(|line| line["object"] == stripped.as_str());
        let worst = worst.unwrap_or_else(|| panic!("{how}: its file is known: {json}"));
        assert!(worst["function"].is_null(), "{how}: no name: {worst}");
        assert!(worst["line"].is_null(), "{how}: no line: {worst}");
        assert!(worst["reasons"]["function"].is_string(), "{how}: {worst}");
        let notes = json["notes"].to_string();
        assert!(notes.contains("compile with -g"), "{how}: {notes}");

        let mut command = cpu(&["run", how, "--", &stripped, "and end badly"]);
        let ended = Ended::of(&mut command);
        let text = String::from_utf8_lossy(&ended.err).into_owned();
        assert!(
            text.contains("ended with SIG"),
            "{how}: by which signal: {text}"
        );
        assert!(ended.code() > 128, "{how}: and says so");
        // Without the C library, which is hardly ever there in 32 bits.
        let alone = "void _start(void) { __asm__(\"movl $1, %eax; xorl %ebx, %ebx; int $0x80\"); }";
        let narrow = scratch.path().join("narrow.c");
        fs::write(&narrow, alone).expect("it is ours");
        for (name, source, options, who) in [
            ("static", &source, &["-static"][..], "a static program"),
            (
                "narrow",
                &narrow,
                &["-m32", "-static", "-nostdlib"],
                "a 32-bit program",
            ),
        ] {
            match compile(name, source, options) {
                Some(program) => {
                    let (ended, json) = run(&program, &[]);
                    ended.expect(0, who);
                    assert_eq!(json["exit"], "0", "{who}: {json}");
                }
                None => println!("skipped: cpu run of {who}: it cannot be compiled here"),
            }
        }
    }
}
