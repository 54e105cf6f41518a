//! Other programs that go well with this one.

use cachewise_cli::tools::find;
use cachewise_model::{Check, State};

const TOOLS: [(&str, &str, &str); 5] = [
    (
        "ncdu",
        "cachewise files --ncdu can be looked through with it",
        "apt-get install ncdu",
    ),
    (
        "perf",
        "where CPU time goes, and the CPU's own caches",
        "apt-get install linux-perf",
    ),
    (
        "valgrind",
        "cachewise cpu run simulates the CPU's caches with it where there are no counters",
        "apt-get install valgrind",
    ),
    (
        "bpftool",
        "which programs are in the kernel, and what they cost",
        "apt-get install bpftool",
    ),
    (
        "setcap",
        "lets this program count without root",
        "apt-get install libcap2-bin",
    ),
];

/// Whether they can be found.
pub fn checks() -> Vec<Check> {
    TOOLS
        .iter()
        .map(|(name, meaning, step)| match find(name) {
            Some(path) => Check::ok("tools", *name, path.display().to_string()),
            None => Check::ok("tools", *name, "not found in PATH")
                .is(State::Missing)
                .means(*meaning)
                .by(*step),
        })
        .collect()
}
