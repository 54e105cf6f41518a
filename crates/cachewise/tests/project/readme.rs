//! The commands in README.md: every command in a `sh` block runs, and every target of `make`
//! exists.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::siblings::programs;

/// Commands of the README that run until interrupted.
const GO_ON: [&str; 1] = ["serve"];
/// Seconds before one is interrupted.
const WATCHED: &str = "2";
/// Far more than any command takes.
const LIMIT: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two below the root")
        .to_owned()
}

/// Lines of the `sh` blocks that start with this word, without comments.
fn lines_of(word: &str) -> Vec<String> {
    let readme = root().join("README.md");
    let text = std::fs::read_to_string(&readme).expect("there is a README.md");
    let mut inside = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), inside) {
            (Some(language), None) => inside = Some(language.trim() == "sh"),
            (Some(_), Some(_)) => inside = None,
            (None, Some(true)) => {
                let line = line.split(" #").next().unwrap_or_default().trim();
                let line = line.strip_prefix("$ ").unwrap_or(line);
                let command = line.strip_prefix("sudo ").unwrap_or(line);
                if command.split_whitespace().next() == Some(word) {
                    lines.push(line.to_owned());
                }
            }
            _ => {}
        }
    }
    assert_eq!(
        inside,
        None,
        "every block of {} is closed",
        readme.display()
    );
    lines
}

/// Only the probe can watch a part of the system, and it needs root.
fn needs_root(line: &str) -> bool {
    let part = |option: &str| line.split_whitespace().any(|word| word == option);
    line.starts_with("sudo ")
        || (line.contains("cachewise stat ")
            && ["-p", "--pid", "--file", "--cgroup"]
                .map(part)
                .contains(&true))
}

/// `PATH` with the directory of the programs first.
fn path() -> OsString {
    let [binary, ..] = programs();
    let mut path = binary
        .parent()
        .expect("it lies in a directory")
        .as_os_str()
        .to_owned();
    if let Some(others) = std::env::var_os("PATH") {
        path.push(":");
        path.push(others);
    }
    path
}

#[test]
fn every_command_of_the_readme_succeeds() {
    let lines = lines_of("cachewise");
    assert!(
        !lines.is_empty(),
        "the README shows how the program is used, in ```sh blocks"
    );
    let place = tempfile::tempdir().expect("a temporary directory can be made");
    std::fs::write(place.path().join("FILE"), vec![7; 1 << 20]).expect("the disk has room");
    let is_root = rustix::process::geteuid().is_root();
    for line in lines {
        if needs_root(&line) && !is_root {
            println!("skipped: README: `{line}`: needs root");
            continue;
        }
        let command = line.strip_prefix("sudo ").unwrap_or(&line);
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| match word {
                // This process, which belongs to the same user.
                "PID" => std::process::id().to_string(),
                word => word.to_owned(),
            })
            .collect();
        // A command without end gets Ctrl-C; the others end by themselves.
        let goes_on = words.get(1).is_some_and(|name| GO_ON.contains(&&**name));
        let mut command = match goes_on {
            true => assert_cmd::Command::new("timeout"),
            false => assert_cmd::Command::new("sh"),
        };
        if goes_on {
            command.args(["--preserve-status", "--signal=INT", WATCHED, "sh"]);
        }
        let output = command
            .arg("-c")
            .arg(format!("exec {}", words.join(" ")))
            .current_dir(place.path())
            .env("PATH", path())
            .timeout(LIMIT)
            .output()
            .expect("timeout of coreutils is there");
        assert!(
            output.status.success(),
            "`{line}` of the README succeeds: {}\n--- stdout\n{}\n--- stderr\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let said = output.stdout.len() + output.stderr.len();
        let made = std::fs::read_dir(place.path())
            .expect("it is there")
            .count()
            > 1;
        assert!(said > 0 || made, "`{line}` of the README shows something");
    }
}

#[test]
fn every_make_target_of_the_readme_exists() {
    let lines = lines_of("make");
    assert!(
        !lines.is_empty(),
        "the README shows how to build and test, in ```sh blocks"
    );
    for line in lines {
        let output = assert_cmd::Command::new("make")
            .arg("--dry-run")
            .args(line.split_whitespace().skip(1))
            .current_dir(root())
            .timeout(LIMIT)
            .output()
            .expect("make is there");
        assert!(
            output.status.success(),
            "`{line}` of the README can be made: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
