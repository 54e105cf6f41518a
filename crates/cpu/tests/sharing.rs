//! `cpu sharing`, as it is typed: found where two counters are side by side, and not found where they are apart.
//!
//! A machine that gives the program's threads no CPUs at the same time shows nothing of either: then the answer has to
//! be that it is not known, and that is what is checked.

#[path = "../../cachewise/tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::*;

fn main() -> ExitCode {
    run(
        "false sharing",
        vec![
            plain("statics::side_by_side_and_apart", statics),
            plain("statics::moving_work_is_not_denied", moving),
            plain("statics::byte_of_a_shared_word_is_mixed", byte_of_word),
            plain("heap::side_by_side_and_apart", heap),
            plain("process::is_watched", process),
            plain("refused::bad_input", refused),
            plain("refused::what_cannot_be_looked_at", cannot),
            plain("ends::who_does_not_heed_is_made_to", unheeding),
            plain("ends::two_signals_leave_nothing", interrupted),
        ],
    )
}

/// Two threads that count: in one line, in the same counter, in lines of their own; on the heap, or not.
const COUNTERS: &str = r#"
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[repr(align(64))]
struct Line([AtomicU64; 8]);
#[repr(align(128))]
struct Padded(AtomicU64);

static SIDE: Line = Line([const { AtomicU64::new(0) }; 8]);
static APART: [Padded; 2] = [const { Padded(AtomicU64::new(0)) }; 2];

fn line(counter: &AtomicU64) -> usize {
    counter as *const AtomicU64 as usize / 64
}

/// Two counts that move between two threads every 5 ms, as tasks do.
fn swap(pair: [&AtomicU64; 2], steps: u64) {
    let begin = std::time::Instant::now();
    thread::scope(|scope| {
        for own in 0..2 {
            scope.spawn(move || {
                let mut done = 0;
                while done < steps {
                    let turn = begin.elapsed().as_millis() as usize / 5;
                    for _ in 0..200 {
                        pair[(turn + own) % 2].fetch_add(1, Ordering::Relaxed);
                        done += 1;
                    }
                }
            });
        }
    });
}

/// One thread counts in a word; another one reads one byte of it, and counts in a word of its own.
fn byte(shared: &AtomicU64, own: &AtomicU64, steps: u64) {
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..steps {
                shared.fetch_add(1, Ordering::Relaxed);
            }
        });
        scope.spawn(move || {
            for _ in 0..steps {
                let first = shared as *const AtomicU64 as *const std::sync::atomic::AtomicU8;
                // SAFETY: the first byte of a word that lives as long as the program.
                std::hint::black_box(unsafe { &*first }.load(Ordering::Relaxed));
                own.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut steps: u64 = words[2].parse().unwrap();
    // The run that makes this file is the first, which is watched.
    if words.get(3).is_some_and(|file| std::fs::File::create_new(file).is_ok()) {
        steps *= 15;
    }
    // Of consecutive objects two share a line, unless the heap is padded.
    let heap: Vec<Box<AtomicU64>> = (0..8).map(|_| Box::new(AtomicU64::new(0))).collect();
    let first = (0..7).find(|at| line(&heap[*at]) == line(&heap[at + 1])).unwrap_or(0);
    let pair: [&AtomicU64; 2] = match words[1].as_str() {
        "side" => [&SIDE.0[0], &SIDE.0[1]],
        "same" => [&SIDE.0[0], &SIDE.0[0]],
        "apart" => [&APART[0].0, &APART[1].0],
        "heap" => [&heap[first], &heap[first + 1]],
        "swap" | "byte" => [&SIDE.0[0], &SIDE.0[1]],
        _ => unreachable!(),
    };
    if words[1] == "swap" {
        return swap([&SIDE.0[0], &SIDE.0[1]], steps);
    }
    if words[1] == "byte" {
        return byte(&SIDE.0[0], &SIDE.0[1], steps);
    }
    thread::scope(|scope| {
        for counter in pair {
            scope.spawn(move || {
                for _ in 0..steps {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
}
"#;

/// That program, compiled with these options.
fn counters(place: &Path, options: &[&str]) -> Option<PathBuf> {
    let (source, program) = (place.join("counters.rs"), place.join("counters"));
    fs::write(&source, COUNTERS).expect("it is ours");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(compiler);
    command
        .args(["--edition=2024", "-O"])
        .args(options)
        .arg("-o");
    let done = command
        .args([&program, &source])
        .output()
        .expect("rustc, which built this");
    done.status.success().then_some(program)
}

/// Steps of each thread: 80 ms or more, where 20 ms are enough to compare. A run that is watched takes 15 times as many.
const STEPS: &str = "13000000";

/// `cpu sharing` of that, in a group of its own before which all others wait, where that can be had.
fn sharing(options: &[&str], program: &Path, how: &str) -> Value {
    let own = cachewise(["sharing", "--json", "--rounds", "3"]);
    let mut command = Command::new("setsid");
    let first = "echo -20 2>/dev/null > /proc/self/autogroup; exec \"$@\"";
    command.args(["--wait", "sh", "-c", first, "sh"]);
    command.arg(own.get_program()).args(own.get_args());
    command
        .args(options)
        .arg("--")
        .arg(program)
        .args([how, STEPS]);
    if options.contains(&"--symbol") {
        // The command watches its first run, and compares the others.
        let place = program.parent().expect("it lies in a directory");
        command.arg(place.join(how));
    }
    let ended = Ended::of(&mut command).expect(0, "it can be looked at");
    serde_json::from_slice(&ended.err)
        .unwrap_or_else(|error| panic!("a document on standard error ({error}): {}", ended.err()))
}

/// Answers of a proof; one per line if it covers several lines.
fn answers(json: &Value, proof: &str) -> Vec<String> {
    let proofs = json["proofs"].as_array().expect("a list");
    let of = proofs.iter().filter(|one| one["proof"] == proof);
    of.map(|one| one["answer"].as_str().expect("a word").to_owned())
        .collect()
}

fn statics() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = counters(scratch.path(), &[]).expect("it compiles");
    for (how, symbol, wanted) in [
        ("side", "SIDE", "found"),
        ("same", "counters::SIDE", "not_found"),
        ("apart", "APART", "not_found"),
    ] {
        let json = sharing(&["--symbol", symbol, "--duration", "3"], &program, how);
        let seen = answers(&json, "breakpoints");
        let known = seen.iter().find(|answer| *answer != "unknown");
        match known {
            Some(answer) => assert_eq!(answer, wanted, "{how}: {json}"),
            None => {
                println!(
                    "skipped: cpu sharing --symbol: breakpoints tell nothing of {how}, as its threads hardly ran"
                )
            }
        }
        if wanted == "found" && known.is_some() {
            assert_eq!(json["verdict"], "found", "one proof is enough: {json}");
            let touches = json["touches"].as_array().expect("a list");
            let offsets: Vec<u64> = touches
                .iter()
                .filter_map(|touch| touch["offset"].as_u64())
                .collect();
            assert_eq!(offsets, [0, 8], "the two counters: {json}");
            assert_ne!(
                touches[0]["thread"], touches[1]["thread"],
                "a thread each: {json}"
            );
        }
        assert_ne!(
            answers(&json, "padded heap"),
            ["found"],
            "it is not on the heap: {json}"
        );
        assert!(
            wanted == "found" || json["verdict"] != "found",
            "{how}: {json}"
        );
    }
}

/// The answer of breakpoints on the line of two counters, of which there is one.
fn watched(how: &str, seconds: &str) -> (String, Value) {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = counters(scratch.path(), &[]).expect("it compiles");
    let json = sharing(&["--symbol", "SIDE", "--duration", seconds], &program, how);
    let mut answers = answers(&json, "breakpoints");
    assert_eq!(answers.len(), 1, "one line was watched: {json}");
    (answers.remove(0), json)
}

fn moving() {
    let (answer, json) = watched("swap", "4");
    match answer.as_str() {
        "found" => assert_eq!(json["verdict"], "found", "one proof is enough: {json}"),
        "unknown" => println!("skipped: cpu sharing of moving work: too little was seen"),
        other => panic!("padding mends it, and it says {other}: {json}"),
    }
}

fn byte_of_word() {
    let (answer, json) = watched("byte", "4");
    match answer.as_str() {
        "mixed" => assert_eq!(json["verdict"], "mixed", "a part is padding's: {json}"),
        "unknown" => println!("skipped: cpu sharing of a byte: too little was seen"),
        other => panic!("one thread reads what the other writes, and it says {other}: {json}"),
    }
}

fn heap() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = counters(scratch.path(), &[]).expect("it compiles");
    let json = sharing(&[], &program, "heap");
    match json["verdict"].as_str() {
        Some("found") => {
            assert_eq!(
                answers(&json, "padded heap"),
                ["found"],
                "by padding: {json}"
            );
            let advice = json["advice"].as_str().unwrap_or_default();
            assert!(
                advice.contains("CachePadded"),
                "and what to do is said: {json}"
            );
        }
        other => println!(
            "skipped: cpu sharing of a heap: its threads hardly ran at the same time: {other:?}"
        ),
    }
    assert_ne!(
        json["verdict"], "not_found",
        "that it is not there is never said: {json}"
    );
    assert_eq!(
        json["runs"].as_array().map(Vec::len),
        Some(4),
        "each way was run: {json}"
    );
    let json = sharing(&[], &program, "apart");
    assert_ne!(
        json["verdict"], "found",
        "that it is there is never said: {json}"
    );
}

fn process() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = counters(scratch.path(), &[]).expect("it compiles");
    let mut child = Command::new(&program)
        .args(["side", "100000000000"])
        .spawn()
        .expect("it runs");
    let pid = child.id().to_string();
    let mut command = cachewise([
        "sharing", "--check", "-d", "3", "--symbol", "SIDE", "-p", &pid,
    ]);
    let ended = Ended::of(&mut command);
    child.kill().expect("it is ours");
    child.wait().expect("it has ended");
    let text = ended.err();
    assert!(text.contains("breakpoints"), "{text}");
    match ended.code() {
        1 => assert!(
            text.contains("false sharing: found"),
            "--check is the status: {text}"
        ),
        0 => println!("skipped: cpu sharing -p: breakpoints tell nothing: {text}"),
        other => panic!("{other}: {text}"),
    }
}

fn refused() {
    for (arguments, code, says) in [
        (&["--", "/nowhere/program"][..], 127, "/nowhere/program"),
        (&["--", "/etc/passwd"], 126, "executable"),
        (&["--"], 2, "COMMAND"),
        (&["-p", "1"], 2, "--symbol"),
        (&["-p", "4194304", "--symbol", "X"], 2, "does not exist"),
        (
            &["--address", "0xffffffff81000000", "--", "true"],
            2,
            "0x55d0c0002040",
        ),
        (&["--address", "here", "--", "true"], 2, "0x55d0c0002040"),
        (&["--rounds", "1", "--", "true"], 2, "is not from 3 to 1000"),
        (&["--", "sh", "-c", "exit 3"], 2, "ended with"),
        (&["--", "sh", "-c", "kill -9 $$"], 2, "SIGKILL"),
        (
            &["--symbol", "X", "--", "sh", "-c", "exit 3"],
            2,
            "ended with",
        ),
        (
            &["--symbol", "NO_SUCH_VARIABLE", "--", "sleep", "4"],
            2,
            "NO_SUCH_VARIABLE",
        ),
        (&["-o", "openmetrics", "--", "true"], 2, "-o json"),
    ] {
        let mut command = cachewise(["sharing"]);
        Ended::of(command.args(arguments))
            .expect(code, "that cannot be done")
            .says(says, "it says what");
    }
}

fn cannot() {
    let sharing = |program: &Path| {
        let mut command = cachewise(["sharing", "--rounds", "3", "--"]);
        command.arg(program).args(["side", "4000000"]);
        command
    };
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = counters(scratch.path(), &[]).expect("it compiles");
    let mut pinned = on_one_cpu();
    let own = sharing(&program);
    pinned.arg(own.get_program()).args(own.get_args());
    Ended::of(&mut pinned)
        .expect(0, "one CPU is no error")
        .says("two CPUs are needed", "it says what is missing")
        .says("no proof has an answer", "and claims nothing");
    let mut without = sharing(&program);
    Ended::of(without.env("PATH", "/nowhere"))
        .expect(0, "perf is not needed")
        .says("apt-get install linux-perf", "how to get it");
    let Some(program) = counters(scratch.path(), &["-C", "target-feature=+crt-static"]) else {
        println!("skipped: cpu sharing of a static program: it cannot be linked here");
        return;
    };
    Ended::of(&mut sharing(&program))
        .expect(0, "the rest is shown")
        .says("linked statically", "and why padding is not");
}

/// A command on one CPU, which compares no runs.
fn on_one_cpu() -> Command {
    let status = fs::read_to_string("/proc/self/status").expect("proc is there");
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("a list");
    let first: String = cpus
        .trim()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let mut command = Command::new("taskset");
    command.args(["-c", &first]);
    command
}

/// A program that ends only by itself, or by what cannot be ignored.
fn unheeding_for(seconds: u32) -> [String; 3] {
    let sleep = format!("trap '' TERM INT; exec /bin/sleep {seconds}");
    ["/bin/sh".into(), "-c".into(), sleep]
}

fn unheeding() {
    let own = cachewise(["sharing", "--symbol", "NO_SUCH_VARIABLE", "--"]);
    let mut command = on_one_cpu();
    // Without perf, which would run it to its end.
    command.args(["env", "PATH=/nowhere"]);
    command.arg(own.get_program()).args(own.get_args());
    command.args(unheeding_for(300));
    let begin = Instant::now();
    Ended::of(&mut command)
        .expect(2, "there is no such variable")
        .says("NO_SUCH_VARIABLE", "it says what");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(120), "it waited: {took:?}");
}

fn interrupted() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let left = || fs::read_dir(scratch.path()).expect("it is there").count();
    let mut command = cachewise(["sharing", "--rounds", "3", "--"]);
    command.args(unheeding_for(4));
    command
        .env("PATH", "/nowhere")
        .env("TMPDIR", scratch.path());
    let sharing = Started::of(&mut command);
    // The allocator writes a letter for each program that it is in: the shell, and what that becomes.
    let programs =
        |place: fs::DirEntry| Some(fs::metadata(place.path().join("padded")).ok()?.len());
    let runs = || {
        let mut places = fs::read_dir(scratch.path()).expect("it is there");
        places.any(|place| place.ok().and_then(programs) >= Some(2))
    };
    until("it runs with the padding allocator", || {
        runs().then_some(())
    });
    assert_eq!(left(), 1, "that has a directory");
    // Not SIGINT, which stays ignored where these tests are a shell's background job.
    sharing.signal(Signal::TERM);
    // Closer together they are one wish.
    std::thread::sleep(Duration::from_millis(300));
    sharing.signal(Signal::TERM);
    sharing.wait().expect(143, "two of them end it");
    assert_eq!(left(), 0, "it is taken away");
}
