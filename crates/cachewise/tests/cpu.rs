//! `cpu`: the commands as they are typed.
//!
//! What the machine does to the numbers is told by the numbers' own marks: nothing here depends on its being quiet.

mod support;

use std::fs;
use std::process::{Command, ExitCode};

use serde_json::Value;
use support::*;

fn main() -> ExitCode {
    run(
        "the CPU's caches",
        vec![
            plain("topology::is_a_tree_and_a_document", topology),
            plain("topology::of_another_machine", topology_elsewhere),
            plain("topology::bad_input", topology_refused),
            plain("table::says_what_was_told_and_what_was_measured", table),
            plain("table::bad_input", table_refused),
            plain("lab::tells_effects_and_controls", lab),
            plain("lab::bad_input", lab_refused),
            plain("run::names_the_line_through_inlined_code", program),
            plain("run::samples_what_the_kernel_counts", sampled),
            plain("run::follows_by_samples", sampled_process),
            plain("run::samples::bad_input", sampled_refused),
            plain("run::bad_input", program_refused),
        ],
    )
}

fn cpu(arguments: &[&str]) -> Command {
    let mut command = cachewise(["cpu"]);
    command.args(arguments);
    command
}

fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out)
        .unwrap_or_else(|error| panic!("a JSON document ({error}): {}", ended.out()))
}

fn topology() {
    let text = Ended::of(&mut cpu(&["topology"]))
        .expect(0, "sysfs is there")
        .out();
    assert!(
        text.starts_with("machine: "),
        "the whole comes first: {text}"
    );
    let json = document(&Ended::of(&mut cpu(&["topology", "--json"])).expect(0, "as JSON"));
    let cpus = json["cpus"].as_array().map_or(0, Vec::len);
    assert!(cpus >= 1, "at least the one that this runs on: {json}");
    assert!(
        json["page_size_bytes"].is_u64(),
        "as every document: {json}"
    );
    let csv = Ended::of(&mut cpu(&["topology", "-o", "csv"]))
        .expect(0, "as CSV")
        .out();
    let caches = json["caches"].as_array().map_or(0, Vec::len);
    assert_eq!(csv.lines().count(), caches + 1, "a line a cache: {csv}");
}

fn topology_elsewhere() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let cpus = scratch.path().join("devices/system/cpu");
    fs::create_dir_all(&cpus).expect("it is ours");
    fs::write(cpus.join("online"), "0-127\n").expect("it is ours");
    let root = scratch.path().to_str().expect("a temporary name is text");
    let ended =
        Ended::of(&mut cpu(&["topology", "--sys", root])).expect(0, "no caches is no error");
    let text = ended.out();
    assert!(text.contains("128 cores"), "what is known is shown: {text}");
    assert!(
        text.contains("note: no cache information for CPU 0-127"),
        "and what is not: {text}"
    );
}

fn topology_refused() {
    Ended::of(&mut cpu(&["topology", "--sys", "/nowhere/at/all"]))
        .expect(2, "there is no such directory")
        .says("/nowhere/at/all", "the message names it");
    Ended::of(&mut cpu(&["topology", "-o", "openmetrics"]))
        .expect(2, "there are no metrics")
        .says("-o json", "and says what there is");
    Ended::of(&mut cpu(&[]))
        .expect(2, "cpu alone is not enough")
        .says("topology", "it lists the commands");
}

fn table() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let plot = scratch.path().join("curve.svg");
    let path = plot.to_str().expect("a temporary name is text");
    let arguments = [
        "table",
        "--json",
        "--largest",
        "96M",
        "--time",
        "1",
        "--plot",
        path,
    ];
    let json = document(&Ended::of(&mut cpu(&arguments)).expect(0, "it can be measured"));
    let levels = json["levels"].as_array().expect("a list");
    let named = |name: &str| levels.iter().find(|level| level["name"] == name);
    let memory = named("memory").expect("memory is there");
    let first = &levels[0];
    let latency = |level: &Value| level["local_low_seconds"].as_f64();
    match latency(memory) {
        Some(memory) => assert!(
            Some(memory) > latency(first).map(|first| 2.0 * first),
            "what is farther takes longer: {json}"
        ),
        None => assert_eq!(memory["read_at"], "not_reached", "a larger cache: {memory}"),
    }
    assert!(
        memory["size_bytes"].is_null(),
        "memory has no end here: {memory}"
    );
    for level in levels
        .iter()
        .filter(|level| level["read_at"] != "not_reached")
    {
        let trust = level["local_trust"].as_str().unwrap_or_default();
        assert!(
            ["good", "fair", "contended"].contains(&trust),
            "each figure says how far it is to be trusted: {level}"
        );
    }
    let svg = fs::read_to_string(&plot).expect("the plot was written");
    assert!(
        svg.contains("page-local") && svg.trim_end().ends_with("</svg>"),
        "it is whole"
    );

    let csv = Ended::of(&mut cpu(&[
        "table",
        "--csv",
        "--largest",
        "1M",
        "--time",
        "0.1",
    ]));
    let csv = csv.expect(0, "as CSV").out();
    assert!(csv.starts_with("name,told_size_bytes,"), "{csv}");
}

fn table_refused() {
    for (arguments, says) in [
        (&["table", "--cpu", "60000"][..], "CPU 60000"),
        (&["table", "--largest", "1K"], "at least"),
        (&["table", "--largest", "1E"], "cannot get"),
        (
            &[
                "table",
                "--largest",
                "1M",
                "--time",
                "0.1",
                "--plot",
                "/nowhere/x.svg",
            ],
            "/nowhere/x.svg",
        ),
        (&["table", "--csv", "--json"], "--json"),
        (&["table", "--sys", "/nowhere"], "/nowhere"),
    ] {
        Ended::of(&mut cpu(arguments))
            .expect(2, "that cannot be done")
            .says(says, "the message says on what");
    }
}

fn lab() {
    let list = Ended::of(&mut cpu(&["lab", "--list"]))
        .expect(0, "a list")
        .out();
    let json = document(
        &Ended::of(&mut cpu(&["lab", "--json", "rows", "branches"])).expect(0, "they can be done"),
    );
    let experiments = json["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), 2, "those that were asked for: {json}");
    for one in experiments {
        let name = one["name"].as_str().expect("a name");
        assert!(list.contains(name), "{name} is in the list: {list}");
        assert!(
            one["checks"][0]["holds"] == true,
            "the same sum in every way: {one}"
        );
        let effects = one["effects"].as_array().expect("a list");
        assert!(
            effects.iter().any(|effect| effect["control"] == true),
            "{name} has a control: {one}"
        );
        // How large it is depends on the neighbours; that it is there does not.
        assert!(
            effects[0]["ratio"].as_f64() > Some(1.2),
            "{name} shows its effect: {one}"
        );
    }
    let text = Ended::of(&mut cpu(&["lab", "branches"]))
        .expect(0, "for people")
        .out();
    for part in ["branches:", "why:", "do:", "holds:"] {
        assert!(text.contains(part), "{part} is told: {text}");
    }
}

fn lab_refused() {
    Ended::of(&mut cpu(&["lab", "branchs"]))
        .expect(2, "there is no such experiment")
        .says("branches", "it says what there is");
}

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

fn program() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: cpu run, simulated: valgrind is not installed");
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let (source, program) = (
        scratch.path().join("matrix.rs"),
        scratch.path().join("matrix"),
    );
    fs::write(&source, MATRIX).expect("it is ours");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(compiler)
        .args(["-O", "-g", "-o"])
        .args([&program, &source])
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "rustc, which built this, compiles it"
    );
    let program = program.to_str().expect("a temporary name is text");
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

/// Compiles a program of Rust, with lines.
fn compiled(place: &std::path::Path, name: &str, text: &str) -> String {
    let (source, program) = (place.join(format!("{name}.rs")), place.join(name));
    fs::write(&source, text).expect("it is ours");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(compiler)
        .args(["-O", "-g", "-o"])
        .args([&program, &source])
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "rustc, which built this, compiles it"
    );
    let program = program.to_str().expect("a temporary name is text");
    program.to_owned()
}

/// Touches a hundred pages a line of input has, by an iterator, which is inlined; ends as the first argument says.
const TOUCHING: &str = r#"
use std::hint::black_box;
fn touched(pages: usize) -> Vec<u8> {
    let mut memory: Vec<u8> = Vec::with_capacity(pages * 4096);
    memory.spare_capacity_mut().iter_mut().step_by(4096).for_each(|byte| { byte.write(1); });
    memory
}
fn main() {
    println!("ready");
    for _ in std::io::stdin().lines() {
        black_box(touched(100));
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

fn sampled() {
    if !can_sample() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let program = compiled(scratch.path(), "touching", TOUCHING);
    let input = scratch.path().join("input");
    fs::write(&input, "\n\n\n").expect("it is ours");
    let run = |options: &[&str]| {
        let mut command = cpu(&["run", "--sample", "page-faults"]);
        let input = fs::File::open(&input).expect("it is there");
        command
            .args(options)
            .args(["--", &program, "7"])
            .stdin(input);
        Ended::of(&mut command).expect(7, "the program's own status")
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
    let own = lines.iter().find(|line| line["line"] == 5);
    let own = own.unwrap_or_else(|| panic!("a line of one's own: {sampled}"));
    let file = own["file"].as_str().unwrap_or_default();
    assert!(file.ends_with("touching.rs"), "not the library's: {own}");
    if lost == 0 {
        // A freed block may come back as it is, and huge pages need fewer.
        let events = own["events"].as_u64().unwrap_or_default();
        assert!(
            (1..=310).contains(&events),
            "about a hundred each time: {own}"
        );
    }
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

fn sampled_process() {
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

fn sampled_refused() {
    for (arguments, says) in [
        (
            &["run", "--sample", "page-fault", "--", "true"][..],
            "page-faults",
        ),
        (&["run", "--period", "0", "--", "true"], "0 is not in"),
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

fn program_refused() {
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
