//! `perf c2c`, where the machine can sample accesses to memory.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use cachewise_cpu::sharing::{Answer, PERF_C2C, Proof, recorded, recorded_proof};

use super::Touched;
use super::runs::Runner;
use cachewise_cli::signals;
use cachewise_cli::tools;

/// Result of `perf c2c`.
pub struct Recording {
    pub proof: Proof,
    pub touches: Vec<Touched>,
}

fn cannot(reason: impl Into<String>) -> Recording {
    Recording {
        proof: Proof {
            name: PERF_C2C,
            answer: Answer::Unknown,
            ratio: None,
            says: reason.into(),
        },
        touches: Vec::new(),
    }
}

/// Records the program, if the machine can: whether it can is tried, as what perf lists proves nothing in a virtual
/// machine.
pub fn record(runner: &Runner<'_>, line_size: u64) -> Result<Recording> {
    let Some(perf) = tools::find("perf") else {
        return Ok(cannot("perf is not installed: apt-get install linux-perf"));
    };
    let place = tempfile::Builder::new().prefix("cachewise-").tempdir();
    let place = place.context("cannot make a temporary directory for perf")?;
    let _kept = signals::Leftover::at(place.path());
    let file = place.path().join("recording");
    let record = |command: &mut Command| {
        let options = ["c2c", "record", "-q", "-o"].map(OsString::from);
        command.args(options).arg(&file).arg("--");
    };
    let mut tried = Command::new(&perf);
    record(&mut tried);
    let tried = tried.arg("true").stdin(Stdio::null()).output();
    let tried = tried.with_context(|| format!("cannot run {}", perf.display()))?;
    if !tried.status.success() {
        return Ok(cannot(format!(
            "not offered here: {}",
            last_line(&tried.stderr)
        )));
    }
    let mut whole = Command::new(&perf);
    record(&mut whole);
    let ended = runner.by(whole)?;
    runner.succeed(&ended, "the recorded run")?;
    read(&perf, &file, line_size)
}

fn read(perf: &Path, file: &Path, line_size: u64) -> Result<Recording> {
    let script = Command::new(perf)
        .args(["script", "-F", "tid,addr,data_src", "-i"])
        .arg(file)
        .stdin(Stdio::null())
        .output();
    let script = script.with_context(|| format!("cannot run {}", perf.display()))?;
    if !script.status.success() {
        return Ok(cannot(format!(
            "perf script failed: {}",
            last_line(&script.stderr)
        )));
    }
    let found = recorded(&String::from_utf8_lossy(&script.stdout), line_size);
    let proof = recorded_proof(&found);
    let touched = |line: &cachewise_cpu::sharing::Recorded| {
        let start = line.line;
        let touches = line.touches.clone().into_iter();
        touches.map(move |touch| Touched {
            line: start,
            touch,
            name: None,
            by: PERF_C2C,
        })
    };
    let touches = found.worst().iter().flat_map(touched).collect();
    Ok(Recording { proof, touches })
}

/// The last line of a program's error output.
fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    cachewise_cli::output::printable(last.unwrap_or("it does not say why"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_perf_is_parsed() {
        let Some(perf) = tools::find("perf") else {
            println!("skipped: perf c2c: perf is not installed");
            return;
        };
        // Page faults have an address and a source of data in the same form, on every machine.
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("recording");
        let recorded = Command::new(&perf)
            .args(["record", "-q", "-d", "-c", "1", "-e", "page-faults:u", "-o"])
            .arg(&file)
            .args(["--", "true"])
            .output()
            .unwrap();
        if !recorded.status.success() {
            println!(
                "skipped: perf c2c: perf record: {}",
                last_line(&recorded.stderr)
            );
            return;
        }
        let found = read(&perf, &file, 64).unwrap();
        let says = &found.proof.says;
        assert!(says.contains("0 loads"), "it was read: {says}");
        assert_eq!(
            found.proof.answer,
            Answer::Unknown,
            "samples, none of which is a load that met a line: {}",
            found.proof.says
        );
        let none = read(&perf, Path::new("/nowhere"), 64).unwrap();
        assert!(
            none.proof.says.contains("perf script failed"),
            "{}",
            none.proof.says
        );
    }
}
