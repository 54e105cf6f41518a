//! Other programs that go well with this one.

use cachewise_cli::tools::find;
use cachewise_model::{Check, State};

const TOOLS: [(&str, &str, &str); 5] = [
    (
        "ncdu",
        "browses the output of cachewise files --ncdu",
        "apt-get install ncdu",
    ),
    (
        "perf",
        "profiles CPU time and CPU caches",
        "apt-get install linux-perf",
    ),
    (
        "valgrind",
        "cachewise cpu run simulates the CPU caches with it if there are no counters",
        "apt-get install valgrind",
    ),
    (
        "bpftool",
        "lists the BPF programs in the kernel and their cost",
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
