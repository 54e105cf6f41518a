//! Profile-guided optimisation, by the compilers that are here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::experiment::{Check, Experiment, Outcome};
use super::rounds::{Rounds, seen};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pgo",
    about: "handlers behind pointers and divisions, compiled with and without a profile of its own run",
    why: "With a profile the compiler knows which way branches go, which function a pointer mostly leads to and what a divisor mostly is: it inlines the one, divides by a constant, and puts cold code out of the way.",
    advice: "Try it on programs with much branching (parsers, interpreters, servers): cargo-pgo for Rust, -fprofile-generate and -fprofile-use for C; train on real input; simple loops gain nothing.",
    run,
};

const ROUNDS: usize = 5;

/// Steps of the program, given to the program as its argument.
const STEPS: usize = 20_000_000;

const SOURCE: &str = include_str!("pgo.c");

/// A compiler, and how it makes and uses a profile.
struct Compiler {
    name: &'static str,
    /// The tool that converts raw profiles for the compiler.
    merge: Option<&'static str>,
}

const COMPILERS: [Compiler; 2] = [
    Compiler {
        name: "gcc",
        merge: None,
    },
    Compiler {
        name: "clang",
        merge: Some("llvm-profdata"),
    },
];

/// Runs a command to its end; its standard output.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("it says nothing");
        return Err(format!(
            "{name} failed ({}): {}",
            output.status,
            said.trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles without and with a profile; the two programs.
fn compiled(compiler: &Compiler, place: &Path) -> Result<[PathBuf; 2], String> {
    let file = |name: &str| place.join(format!("{}-{name}", compiler.name));
    let source = place.join("pgo.c");
    std::fs::write(&source, SOURCE)
        .map_err(|error| format!("cannot write to {}: {error}", place.display()))?;
    let compile = |options: &[String], to: &Path| {
        let mut command = Command::new(compiler.name);
        command
            .arg("-O2")
            .args(options)
            .arg(&source)
            .arg("-o")
            .arg(to)
            .current_dir(place);
        output(&mut command).map(drop)
    };
    let (plain, trained, guided) = (file("plain"), file("trained"), file("guided"));
    let profile = file("profile");
    // gcc looks for a profile by the name of what it makes: so both have one name at first.
    let made = file("program");
    let renamed = |to: &Path| {
        let renamed = std::fs::rename(&made, to);
        renamed.map_err(|error| format!("cannot write to {}: {error}", place.display()))
    };
    compile(&[], &plain)?;
    compile(
        &[format!("-fprofile-generate={}", profile.display())],
        &made,
    )?;
    renamed(&trained)?;
    output(
        Command::new(&trained)
            .arg((STEPS / 20).to_string())
            .current_dir(place),
    )?;
    match compiler.merge {
        None => compile(
            &[
                format!("-fprofile-use={}", profile.display()),
                "-Werror=missing-profile".into(),
            ],
            &made,
        )?,
        Some(merge) => {
            let merged = file("profile.merged");
            output(
                Command::new(merge)
                    .args(["merge", "-o"])
                    .arg(&merged)
                    .arg(&profile),
            )?;
            compile(&[format!("-fprofile-use={}", merged.display())], &made)?;
        }
    }
    renamed(&guided)?;
    Ok([plain, guided])
}

/// Returns the output of the program: nanoseconds per step, and its result.
fn step(program: &Path) -> Option<(f64, String)> {
    let text = output(Command::new(program).arg(STEPS.to_string())).ok()?;
    let (ns, result) = text.trim().split_once(' ')?;
    Some((ns.parse().ok()?, result.to_owned()))
}

fn run() -> Result<Outcome, String> {
    let place = tempfile::tempdir()
        .map_err(|error| format!("cannot make a directory to compile in: {error}"))?;
    let mut outcome = Outcome::default();
    let mut reasons = Vec::new();
    for compiler in &COMPILERS {
        let programs = match compiled(compiler, place.path()) {
            Ok(programs) => programs,
            Err(reason) => {
                reasons.push(reason);
                continue;
            }
        };
        let results = programs
            .each_ref()
            .map(|program| step(program).map(|(_, result)| result));
        outcome.checks.push(Check {
            holds: results[0].is_some() && results[0] == results[1],
            what: format!("{}: both programs give the same result", compiler.name),
        });
        let [plain, guided] = &programs;
        let ns = |program: &Path| step(program).map_or(f64::NAN, |(ns, _)| ns);
        let mut rounds = Rounds::new("step");
        rounds.case(format!("{} -O2", compiler.name), || ns(plain));
        rounds.case(format!("{} -O2 with a profile", compiler.name), || {
            ns(guided)
        });
        rounds.run(ROUNDS);
        outcome.cases.extend(rounds.cases());
        outcome.effects.extend(rounds.ratio(
            format!("{}: without against with a profile", compiler.name),
            0,
            1,
        ));
    }
    if outcome.effects.is_empty() {
        return Err(format!(
            "no compiler here can do it: {}",
            reasons.join("; ")
        ));
    }
    outcome.not_tried = reasons;
    let nothing = "this compiler found no better layout";
    outcome
        .checks
        .push(seen(&outcome.effects, 0, 1.02, nothing));
    Ok(outcome)
}
