//! The programs of cachewise: the one of this package, and those beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of the package whose test this is.
pub const PROGRAM: &str = match (
    option_env!("CARGO_BIN_EXE_cachewise"),
    option_env!("CARGO_BIN_EXE_cachewise-cpu"),
    option_env!("CARGO_BIN_EXE_cachewise-tier"),
) {
    (Some(program), _, _) | (_, Some(program), _) | (_, _, Some(program)) => program,
    (None, None, None) => panic!("the package of this test has a program"),
};

/// The program of the package `cachewise`, `cachewise-cpu` or `cachewise-tier`, in the directory of this package's.
///
/// `cargo test --workspace` has built all of them. Where tests of one package run alone, a missing one is built.
pub fn sibling(name: &str) -> PathBuf {
    let own = Path::new(PROGRAM);
    let directory = own.parent().expect("a program lies in a directory");
    let program = directory.join(name);
    if !program.exists() {
        let target = directory.parent().expect("target/debug has a parent");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--locked", "-p", name, "--target-dir"])
            .arg(target)
            .status();
        assert!(
            built.is_ok_and(|status| status.success()) && program.exists(),
            "cargo build -p {name} makes {}",
            program.display()
        );
    }
    program
}

/// All three.
pub fn programs() -> [PathBuf; 3] {
    ["cachewise", "cachewise-cpu", "cachewise-tier"].map(sibling)
}
