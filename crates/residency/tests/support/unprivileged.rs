//! This program again, as a user who has nothing.

// Not every test file uses all of this.
#![allow(dead_code)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The file that the test inside looks at.
const LOOK_AT: &str = "CACHEWISE_LOOK_AT";
const ANSWER: &str = "answer: ";
/// Command that runs another one as the user `nobody`, without capabilities.
pub const NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--no-new-privs",
];

/// A directory on a disk that every user may look into, with a copy of this program.
pub struct PublicDirectory(TempDir);

impl PublicDirectory {
    pub fn new() -> Self {
        let parent = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
        let directory = tempfile::tempdir_in(parent).expect("there is room");
        let open_to_all = || Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open_to_all()).expect("it is ours");
        let program = directory.path().join("program");
        // Copied by another process: if this process had it open for writing, a child of another test could inherit
        // the descriptor, and a file that is open for writing cannot be executed.
        let own = std::env::current_exe().expect("there is /proc");
        let copied = Command::new("cp").arg(own).arg(&program).status();
        assert!(copied.is_ok_and(|status| status.success()), "there is room");
        std::fs::set_permissions(&program, open_to_all()).expect("it is ours");
        PublicDirectory(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs an ignored test as the user `nobody`, after shell commands, and returns its answer; `None`, with a `skipped`
    /// line, if that is not possible.
    pub fn ask(&self, test: &str, prepare: &str, path: &Path) -> Option<String> {
        let script = format!("{prepare} exec \"$@\"");
        let mut words = vec!["sh", "-c", &script, "sh"];
        match rustix::process::geteuid().is_root() {
            true => words.extend(NOBODY),
            false => words.extend(["setpriv", "--no-new-privs", "--inh-caps=-all"]),
        }
        told(
            &format!("{test} as nobody"),
            &mut self.command(&words, test, path),
        )
    }

    /// Runs an ignored test by a program that runs another.
    pub fn command(&self, words: &[&str], test: &str, path: &Path) -> Command {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(self.path().join("program"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(LOOK_AT, path);
        command
    }
}

/// The answer of a [`PublicDirectory::command`]; `None`, with a `skipped` line, if it could not run.
pub fn told(what: &str, command: &mut Command) -> Option<String> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {what}: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text
        .lines()
        .find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
    if answer.is_none() {
        let said = String::from_utf8_lossy(&output.stderr).replace('\n', "; ");
        assert!(!said.contains("panicked"), "{what}: {said}");
        println!("skipped: {what}: {said}");
    }
    answer
}

/// The file to look at, inside.
pub fn looked_at() -> Option<PathBuf> {
    std::env::var_os(LOOK_AT).map(PathBuf::from)
}

/// Tells what was found, inside.
pub fn answer(text: std::fmt::Arguments<'_>) {
    println!("{ANSWER}{text}");
}
