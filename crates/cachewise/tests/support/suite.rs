//! Trials that need root, and those that do not.

use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion};
use memchr::memmem;

use super::program;

/// A test of the binary.
#[derive(Clone)]
pub struct Trial {
    name: String,
    needs_root: bool,
    test: fn(),
}

/// The trials of a module, below its name.
pub fn part(module: &str, mut trials: Vec<Trial>) -> Vec<Trial> {
    for trial in &mut trials {
        trial.name = format!("{module}::{}", trial.name);
    }
    trials
}

/// Runs the trials one after the other: two at once in one process would each see what the other has open.
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
    let trials = trials.into_iter().map(Trial::for_libtest).collect();
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
    Trial {
        name: name.to_owned(),
        needs_root: false,
        test,
    }
}

/// A trial that is ignored, with the reason, where the probe cannot be had.
pub fn needs_root(name: &str, test: fn()) -> Trial {
    Trial {
        needs_root: true,
        ..plain(name, test)
    }
}

impl Trial {
    fn for_libtest(self) -> libtest_mimic::Trial {
        let Trial {
            name,
            needs_root,
            test,
        } = self;
        libtest_mimic::Trial::ignorable_test(name, move || {
            if needs_root && let Some(reason) = why_not_root() {
                return Ok(Completion::ignored_with(reason));
            }
            test();
            Ok(Completion::Completed)
        })
    }
}

/// Why exact numbers, loop devices and other users cannot be had here, if they cannot.
pub fn why_not_root() -> Option<String> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    WHY.get_or_init(missing).clone()
}

fn missing() -> Option<String> {
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
    memmem::find(&types, b"btf_trace_mm_filemap_get_pages")
        .is_none()
        .then(|| {
            "needs the tracepoint mm_filemap_get_pages, Linux 6.12 or later, and BTF".to_owned()
        })
}
