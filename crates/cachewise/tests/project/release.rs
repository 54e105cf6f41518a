//! `scripts/release` on a copy of the files that have the version.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "crates/cachewise/Cargo.toml",
    "python/Cargo.toml",
    "python/Cargo.lock",
    "python/pyproject.toml",
    "scripts/release",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git(directory: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    let status = Command::new("git")
        .current_dir(directory)
        .args(identity)
        .args(arguments)
        .status();
    assert!(status.expect("git runs").success(), "git {arguments:?}");
}

/// A repository with those files alone.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory can be made");
    for file in FILES {
        let to = copy.path().join(file);
        let parent = to.parent().expect("a file has a directory");
        std::fs::create_dir_all(parent).expect("a directory can be made");
        std::fs::copy(root().join(file), to).expect("a file can be copied");
    }
    git(copy.path(), &["init", "-q"]);
    git(copy.path(), &["add", "."]);
    git(copy.path(), &["commit", "-q", "-m", "all"]);
    copy
}

fn release(copy: &Path, arguments: &[&str]) -> Output {
    Command::new(copy.join("scripts/release"))
        .args(arguments)
        .arg("--no-packages")
        .output()
        .expect("the script runs")
}

fn text(copy: &Path, file: &str) -> String {
    std::fs::read_to_string(copy.join(file)).expect("a file can be read")
}

#[test]
fn release_sets_the_version_everywhere_and_dates_the_changelog() {
    let copy = copy();
    let ended = release(copy.path(), &["77.1.0"]);
    assert!(ended.status.success(), "{ended:?}");
    for file in FILES
        .iter()
        .filter(|file| file.ends_with(".toml") || file.ends_with(".lock"))
    {
        assert!(text(copy.path(), file).contains("77.1.0"), "{file}");
    }
    let manifest = text(copy.path(), "Cargo.toml");
    let own = manifest
        .lines()
        .filter(|line| line.starts_with("cachewise-"));
    for line in own {
        assert!(line.contains("version = \"77.1.0\""), "{line}");
    }
    let changelog = text(copy.path(), "CHANGELOG.md");
    let (_, after) = changelog
        .split_once("## Unreleased\n\n## 77.1.0 - 20")
        .expect("a dated section");
    assert!(
        after.contains("\n### Added\n"),
        "with what was not released"
    );
    // Another one, without a change between.
    git(copy.path(), &["commit", "-q", "-a", "-m", "release"]);
    let again = release(copy.path(), &["77.2.0"]);
    assert!(!again.status.success(), "nothing to release");
}

#[test]
fn release_refuses_a_version_that_is_not_above_and_a_changed_tree() {
    let copy = copy();
    for (version, why) in [
        ("0.0.1", "not above"),
        ("1.2", "X.Y.Z"),
        ("v9.0.0", "X.Y.Z"),
    ] {
        let ended = release(copy.path(), &[version]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            !ended.status.success() && said.contains(why),
            "{version}: {said}"
        );
    }
    std::fs::write(copy.path().join("CHANGELOG.md"), "changed").expect("a file can be written");
    let ended = release(copy.path(), &["77.0.0"]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(
        !ended.status.success() && said.contains("commit them first"),
        "{said}"
    );
}
