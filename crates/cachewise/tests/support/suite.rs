//! Trials that need root, and those that do not.

use std::fs;
use std::process::ExitCode;

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Completion};

use super::program;

/// Runs a test file's trials. Two at once would disturb each other's residency, so they go in turn.
pub fn run(what: &str, trials: Vec<Trial>) -> ExitCode {
    if let Some(code) = program::be_one() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    if let Some(reason) = why_not_root()
        && !arguments.list
    {
        println!("skipped: {what}: {reason}");
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Trials by their functions, whose names they have: `plain part::test, needs_root part::another`.
macro_rules! trials {
    ($($how:ident $part:ident :: $test:ident),+ $(,)?) => {
        vec![$($crate::support::$how(
            concat!(stringify!($part), "::", stringify!($test)),
            $part::$test,
        )),+]
    };
}
pub(crate) use trials;

/// A trial that anybody may run.
pub fn plain(name: &str, test: fn()) -> Trial {
    Trial::test(name, move || {
        test();
        Ok(())
    })
}

/// A trial that is ignored, with the reason, where the probe cannot be had.
pub fn needs_root(name: &str, test: fn()) -> Trial {
    Trial::ignorable_test(name, move || match why_not_root() {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => {
            test();
            Ok(Completion::Completed)
        }
    })
}

/// Why exact numbers, loop devices and other users cannot be had here, if they cannot.
pub fn why_not_root() -> Option<String> {
    /// By their numbers in linux/capability.h.
    const NEEDED: [(u32, &str); 4] = [
        (7, "CAP_SETUID"),
        (21, "CAP_SYS_ADMIN"),
        (38, "CAP_PERFMON"),
        (39, "CAP_BPF"),
    ];
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0);
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(number, _)| effective & (1 << number) == 0)
        .map(|(_, name)| *name)
        .collect();
    if !missing.is_empty() {
        return Some(format!("needs root ({})", missing.join(", ")));
    }
    let types = fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    let hook = b"btf_trace_mm_filemap_get_pages";
    (!types.windows(hook.len()).any(|window| window == hook)).then(|| {
        "needs the tracepoint mm_filemap_get_pages, Linux 6.12 or later, and BTF".to_owned()
    })
}
