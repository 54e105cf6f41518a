//! The other programs of cachewise, started by `cachewise NAME`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow};

/// Replaces this process with a program of the same installation.
///
/// The program is looked for beside this one, then in PATH, as git looks for its commands.
///
/// # Errors
/// It is not installed, or cannot be executed. It does not return otherwise.
pub fn start<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = &'a OsString>,
) -> Result<std::convert::Infallible> {
    let path = beside(program).unwrap_or_else(|| PathBuf::from(program));
    let error = cachewise_sys::exec_untouched(Command::new(&path).args(arguments));
    Err(match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!(
            "cannot start {program}: it is neither beside this program nor in PATH; the package {program} has it \
             (or: cargo install --locked --path crates/{})",
            program.trim_start_matches("cachewise-")
        ),
        _ => anyhow!("cannot start {}: {error}", path.display()),
    })
}

/// The path of a program in the directory of this one; symbolic links to this one are followed.
fn beside(program: &str) -> Option<PathBuf> {
    let own = std::fs::canonicalize(std::env::current_exe().ok()?).ok()?;
    let path = own.parent()?.join(Path::new(OsStr::new(program)));
    path.is_file().then_some(path)
}
