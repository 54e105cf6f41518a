//! Functions of interpreted programs: with their names where a perf map has them, and marked where none does.

use super::*;

/// The tests.
pub(super) fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "python_functions_have_names_with_perf_support",
            python_functions_have_names_with_perf_support,
        ),
        needs_root(
            "python_functions_without_names_are_marked",
            python_functions_without_names_are_marked,
        ),
    ]
}

const PYTHON: &str = "import os, sys, time
def load_index(fd, place):
    return len(os.pread(fd, 4096, place))
def reads(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    return sum(load_index(fd, i * 64 * 4096) for i in range(64))
print(os.getpid(), reads(sys.argv[1]))
# On a busy machine its mappings are read late.
time.sleep(0.3)
";

/// The newest Python that this machine has: a version of pyenv, or `python3`; and whether it has perf support.
fn python() -> Option<(PathBuf, bool)> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let versions = Path::new(&home).join(".pyenv/versions");
    let mut found: Vec<PathBuf> = std::fs::read_dir(versions)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin/python3")))
        .filter(|python| python.exists())
        .collect();
    found.push("/usr/bin/python3".into());
    let has_support = |python: &PathBuf| {
        let test = "import sys; sys.exit(not getattr(sys, 'activate_stack_trampoline', None))";
        let ended = Command::new(python).args(["-c", test]).status().ok()?;
        Some((python.clone(), ended.success()))
    };
    let mut found: Vec<(PathBuf, bool)> = found.iter().filter_map(has_support).collect();
    found.sort_by_key(|(_, support)| *support);
    found.pop()
}

fn report_of_python(scratch: &Scratch, python: &Path, options: &[&str]) -> Report {
    let (script, file) = (scratch.path("reads.py"), cold(scratch));
    std::fs::write(&script, PYTHON).expect("there is room");
    let words = options.iter().map(std::ffi::OsStr::new);
    let words = std::iter::once(python.as_os_str()).chain(words);
    let words = words.chain([script.as_os_str(), file.as_os_str()]);
    let report = report_of(&["--stacks"], words);
    assert_eq!(report.ended.code(), 0, "{}", report.ended.err());
    report
}

/// Missed pages whose own function is accepted.
fn pages(report: &Report, is_it: impl Fn(&Value) -> bool) -> f64 {
    let of_event = stacks(report)
        .iter()
        .filter(|stack| stack["event"] == "read");
    let own = of_event.filter(|stack| {
        let own = stack["own_frame"].as_u64().unwrap_or(u64::MAX) as usize;
        is_it(&stack["frames"][own])
    });
    own.filter_map(|stack| stack["pages"].as_f64()).sum()
}

fn python_functions_have_names_with_perf_support() {
    let scratch = Scratch::new();
    let Some((python, true)) = python() else {
        println!("skipped: names of Python functions: no Python with perf support (3.12)");
        return;
    };
    let report = report_of_python(&scratch, &python, &["-X", "perf"]);
    let out = report.ended.out();
    let pid = out.split_whitespace().next().expect("its id");
    std::fs::remove_file(format!("/tmp/perf-{pid}.map")).expect("it was written");
    let found = pages(&report, |frame| {
        let file = frame["file"].as_str().unwrap_or_default();
        frame["function"] == "load_index" && file.ends_with("/reads.py")
    });
    is_mostly(found, 64, "the script's function", &report);
}

fn python_functions_without_names_are_marked() {
    let scratch = Scratch::new();
    let Some((python, _)) = python() else {
        println!("skipped: marks of interpreters: no Python");
        return;
    };
    let report = report_of_python(&scratch, &python, &[]);
    let found = pages(&report, |frame| frame["unknown_code"] == "interpreter");
    assert!(
        found >= 0.95 * 64.0,
        "{found} of 64 pages, in {:#}",
        report.json["stacks"]
    );
    let mut run = cachewise(["run", "--stacks", "--"]);
    run.arg(&python).arg(scratch.path("reads.py"));
    let ended = Ended::of(run.arg(cold(&scratch)));
    assert!(
        ended.err().contains("PYTHONPERFSUPPORT=1"),
        "the option is named: {}",
        ended.err()
    );
}
