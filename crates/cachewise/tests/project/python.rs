//! The Python package: built and installed as its users do it, into an environment of its own, and tested by its own
//! tests, which are in python/tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tools that build and test it; mypy says whether the types are true.
const TOOLS: [&str; 3] = ["maturin>=1.8,<2", "pytest>=8", "mypy"];

/// Packages that are optional: without them their tests are skipped.
const OPTIONAL: [&str; 2] = ["fsspec", "pyarrow"];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2);
    root.expect("the crate lies two below the root").to_owned()
}

fn run(command: &mut Command) -> Result<String, String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().map_err(|error| error.to_string())?;
    let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let said = said.concat();
    match status.success() {
        true => Ok(said),
        false => Err(format!("{status}: {said}")),
    }
}

/// The last line that says something.
fn last(text: &str) -> &str {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.next_back().unwrap_or("no reason was given").trim()
}

/// An environment of our own with the tools in it, kept from one run to the next; or why it cannot be had.
fn environment(place: &Path) -> Result<PathBuf, String> {
    let version = "import sys; sys.exit(sys.version_info < (3, 10))";
    run(Command::new("python3").args(["-c", version]))
        .map_err(|why| format!("python3 of 3.10 or later: {}", last(&why)))?;
    let python = place.join("bin/python");
    let has_tools = || run(Command::new(&python).args(["-c", "import maturin, pytest, mypy, pip"]));
    if has_tools().is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(place))
            .map_err(|why| format!("python3 -m venv: {}", last(&why)))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(TOOLS))
        .map_err(|why| format!("pip install {}: {}", TOOLS.join(" "), last(&why)))?;
    }
    for name in OPTIONAL {
        let import = format!("import {name}");
        if run(Command::new(&python).args(["-c", &import])).is_err() {
            // Their tests say that they are skipped.
            let _ = run(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--only-binary",
                ":all:",
                name,
            ]));
        }
    }
    Ok(python)
}

#[test]
fn pip_installs_it_and_its_tests_pass() {
    let root = root();
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        // Relative to where `make test` was called.
        Some(target) => root.join(target),
        None => root.join("target"),
    };
    let python = match environment(&target.join("python-venv")) {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: python: {why}");
            return;
        }
    };
    let mut install = Command::new(&python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--force-reinstall",
        ])
        // The tools are there.
        .arg("--no-build-isolation")
        .arg(root.join("python"))
        // The build of the tests already has the dependencies.
        .env("CARGO_TARGET_DIR", &target)
        .env(
            "MATURIN_PEP517_ARGS",
            "--profile dev --locked --features as-workspace",
        );
    let bin = python.parent().expect("it lies in a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = vec![bin.to_owned()];
    paths.extend(std::env::split_paths(&path));
    install.env("PATH", std::env::join_paths(paths).expect("it was one"));
    // Variables that cargo sets for this test would describe another crate there.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_")
            || name.to_string_lossy().starts_with("CARGO_MANIFEST")
        {
            install.env_remove(name);
        }
    }
    run(&mut install).unwrap_or_else(|why| panic!("pip install ./python: {why}"));

    let mut tests = Command::new(&python);
    tests
        .args([
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-q",
            "-rs",
            "--color=no",
        ])
        .current_dir(root.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let said = run(&mut tests).unwrap_or_else(|why| {
        println!("{why}");
        let is_reason = |line: &&str| line.starts_with("FAILED ") || line.starts_with("E  ");
        let reasons: Vec<&str> = why.lines().filter(is_reason).collect();
        panic!("python/tests: {}", reasons.join("\n"));
    });
    // SKIPPED [1] tests/test_sampler.py:78: could not import ...
    for line in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        let (_, what) = line.split_once("] ").unwrap_or(("", line));
        println!("skipped: python: {what}");
    }
    println!("python: {}", last(&said));
    assert!(said.contains(" passed"), "some were run: {said}");
}

/// Each crate from a registry that is linked, with its version and features.
fn crates(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--quiet", "--locked", "--prefix", "none"]);
    // Crates of build scripts and macros are the same by name, with features of their own.
    command.args(["--edges", "no-build,no-proc-macro"]);
    command.args(["--format", "{p}\t{f}"]).args(arguments);
    let listed = run(command.current_dir(root())).expect("cargo lists the crates");
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in listed.lines() {
        // A crate that is listed above has this mark.
        let line = line.trim_end_matches(" (*)");
        if let Some((name, features)) = line.split_once('\t')
            && !name.contains(" (/")
        {
            let of = crates.entry(name.to_owned()).or_default();
            of.insert(features.to_owned());
        }
    }
    crates
}

#[test]
fn shared_crates_have_the_features_of_the_workspace() {
    // As scripts/test builds it.
    let here = crates(&["--workspace", "--features", "cachewise-web/otlp"]);
    let package = crates(&[
        "--manifest-path",
        "python/Cargo.toml",
        "--features",
        "as-workspace",
    ]);
    let mut shared = 0;
    for (name, features) in &package {
        let Some(built) = here.get(name) else {
            continue;
        };
        shared += 1;
        assert!(
            features.is_subset(built),
            "{name} would be built again for the Python package, and all that uses it: it has the features {features:?} \
             there, and {built:?} here; make the feature `as-workspace` in python/Cargo.toml enable those that are missing"
        );
    }
    assert!(shared > 100, "most crates are shared: {shared}");
}
