//! This program again, as a user who has nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The file that the test inside looks at.
const LOOK_AT: &str = "CACHEWISE_LOOK_AT";
const ANSWER: &str = "answer: ";

/// A directory on a disk that every user may look into, with a copy of this program.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let parent = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
        let directory = tempfile::tempdir_in(parent).expect("there is room");
        let open_to_all = || Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open_to_all()).expect("it is ours");
        let program = directory.path().join("program");
        std::fs::copy(std::env::current_exe().expect("there is /proc"), &program).expect("room");
        std::fs::set_permissions(&program, open_to_all()).expect("it is ours");
        Place(directory)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs an ignored test as nobody, after commands of the shell, and returns what it answered; `None`,
    /// with a line that says why, where that cannot be.
    pub fn ask(&self, test: &str, prepare: &str, path: &Path) -> Option<String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{prepare} exec \"$@\""), "sh"])
            .args(["setpriv", "--no-new-privs", "--inh-caps=-all"]);
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let output = command
            .arg(self.path().join("program"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(LOOK_AT, path)
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: {test} as nobody: {error}");
                return None;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = text
            .lines()
            .find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
        if answer.is_none() {
            let said = String::from_utf8_lossy(&output.stderr).replace('\n', "; ");
            assert!(!said.contains("panicked"), "{test}: {said}");
            println!("skipped: {test} as nobody: {said}");
        }
        answer
    }
}

/// The file to look at, inside.
pub fn looked_at() -> Option<PathBuf> {
    std::env::var_os(LOOK_AT).map(PathBuf::from)
}

/// Tells what was found, inside.
pub fn answer(text: std::fmt::Arguments<'_>) {
    println!("{ANSWER}{text}");
}
