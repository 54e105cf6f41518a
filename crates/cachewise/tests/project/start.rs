//! The start of each program: what runs before `main`, and the system calls of `--version`.

use std::fs;
use std::process::{Command, Stdio};

use object::read::{Object as _, ObjectSection as _};

use crate::siblings::programs;

/// The constructors of each program: `frame_dummy` of the C runtime, std's for the arguments, and `cachewise-sys`'s, which
/// reads the signals that the caller ignores.
const CONSTRUCTORS: u64 = 3;

/// System calls of `--version`: some hundred, most of them of the dynamic linker.
const MOST_CALLS: usize = 150;

#[test]
fn no_library_runs_code_before_main() {
    // A constructor runs at each start, whatever the command: one of a clock spins for 20 ms.
    for program in programs() {
        let bytes = fs::read(&program).expect("the program can be read");
        let file = object::File::parse(&*bytes).expect("the program is an ELF file");
        let pointer = if file.is_64() { 8 } else { 4 };
        let sections = [".init_array", ".preinit_array", ".ctors"];
        let sections = sections
            .iter()
            .filter_map(|name| file.section_by_name(name));
        let constructors: u64 = sections.map(|section| section.size() / pointer).sum();
        assert!(
            (1..=CONSTRUCTORS).contains(&constructors),
            "{} has {constructors} constructors: a new one needs a reason",
            program.display()
        );
    }
}

#[test]
fn a_version_takes_few_system_calls_and_no_thread() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: system calls of --version: strace is not installed");
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let list = scratch.path().join("calls");
    for program in programs() {
        let status = Command::new("strace")
            .args(["-f", "-o"])
            .arg(&list)
            .arg(&program)
            .arg("--version")
            // Cargo's list of directories is searched for each library.
            .env_remove("LD_LIBRARY_PATH")
            .stdout(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            println!("skipped: system calls of --version: strace may not trace here");
            return;
        }
        let text = fs::read_to_string(&list).expect("strace wrote its list");
        let calls = text.lines().count();
        let name = program.display();
        assert!(calls <= MOST_CALLS, "{name}: {calls} system calls\n{text}");
        for waits in ["clone", "nanosleep", "futex", "/sys/"] {
            assert!(
                !text.contains(waits),
                "{name} has no need of {waits}\n{text}"
            );
        }
    }
}

#[test]
fn the_version_is_the_one_of_the_whole_program() {
    for program in programs() {
        let output = |option: &str| {
            let output = Command::new(&program).arg(option).output();
            String::from_utf8_lossy(&output.expect("it can be run").stdout).into_owned()
        };
        let name = program.file_name().expect("it has a name");
        let expected = format!("{} {}\n", name.display(), env!("CARGO_PKG_VERSION"));
        for option in ["--version", "-V"] {
            assert_eq!(output(option), expected, "{}", program.display());
        }
    }
}
