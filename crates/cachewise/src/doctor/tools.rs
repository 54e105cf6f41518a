//! Other programs that go well with this one.

use std::os::unix::fs::PermissionsExt;

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

/// Where a program is, if it is.
pub fn find(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Tools of the administrator are not in everybody's path.
    let more = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(more)
        .map(|directory| directory.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}
