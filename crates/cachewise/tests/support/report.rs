//! The JSON of a run.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::command::{Ended, cachewise};

/// One report, as the machine format has it.
#[derive(Debug)]
pub struct Report {
    /// All of it.
    pub json: Value,
    /// Result of the command.
    pub ended: Ended,
}

/// Runs a command under `cachewise run` with these options before it, and reads the report.
pub fn report_of<S: AsRef<OsStr>>(
    options: &[&str],
    command: impl IntoIterator<Item = S>,
) -> Report {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let mut run = cachewise(["run", "-o"]);
    let mut target = std::ffi::OsString::from("json=");
    target.push(file.path());
    run.arg(target).args(options).arg("--").args(command);
    let ended = Ended::of(&mut run);
    Report::read(file.path(), ended)
}

impl Report {
    /// Reads what was written to a file.
    pub fn read(path: &Path, ended: Ended) -> Report {
        let text = fs::read(path).expect("the report can be read");
        let json = serde_json::from_slice(&text).unwrap_or_else(|error| {
            panic!(
                "{}: the report is no JSON ({error}), its standard error is {}",
                ended.line,
                ended.err()
            )
        });
        Report { json, ended }
    }

    /// The row of a file.
    pub fn file(&self, path: &Path) -> &Value {
        let path = path
            .to_str()
            .expect("tests that call this have ordinary names");
        self.find_file(path).unwrap_or_else(|| {
            let names: Vec<&Value> = self.files().iter().map(|file| &file["path"]).collect();
            panic!("the report has no row for {path}: {names:?}")
        })
    }

    /// The row of a file by its name in the report, if there is one.
    pub fn find_file(&self, path: &str) -> Option<&Value> {
        self.files().iter().find(|file| file["path"] == path)
    }

    /// All files.
    pub fn files(&self) -> &[Value] {
        self.json["files"].as_array().expect("a report has files")
    }

    /// All processes.
    pub fn processes(&self) -> &[Value] {
        self.json["processes"]
            .as_array()
            .expect("a report has processes")
    }

    /// The findings with evidence of a rule.
    pub fn findings(&self, id: &str) -> Vec<&Value> {
        let findings = self.json["findings"]
            .as_array()
            .expect("a report has findings");
        findings
            .iter()
            .filter(|finding| {
                let rules = finding["rules"].as_array().expect("a finding has rules");
                rules.iter().any(|rule| rule == id)
            })
            .collect()
    }

    /// How often something of this kind was lost.
    pub fn lost(&self, id: &str) -> u64 {
        let lost = self.json["lost"]
            .as_array()
            .expect("a report says what was lost");
        lost.iter()
            .find(|lost| lost["id"] == id)
            .map_or(0, |lost| number(lost, "count"))
    }

    /// Fails unless the numbers are exact and every law holds.
    #[track_caller]
    pub fn adds_up(&self) {
        assert_eq!(
            self.json["backend"]["exact"], true,
            "the probe counted: {}",
            self.json["backend"]
        );
        let laws = self.json["laws"].as_array().expect("a report has laws");
        assert!(laws.len() >= 2, "a report states its laws: {laws:?}");
        for law in laws {
            assert_eq!(law["holds"], true, "the law holds: {law}");
        }
    }
}

/// A number of a row that must be known.
#[track_caller]
pub fn number(row: &Value, id: &str) -> u64 {
    row[id]
        .as_u64()
        .unwrap_or_else(|| panic!("{id} is a known number in {row}"))
}

/// The means of a field without the fix and with it, as `cachewise try` answers in JSON.
#[track_caller]
pub fn means(answer: &Value, fix: &str, id: &str) -> (f64, f64) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let fixes = list(&answer["fixes"]);
    let of_fix = fixes.iter().find(|found| found["fix"] == fix);
    let changes = of_fix.map(|found| list(&found["changes"]));
    let changes = changes.unwrap_or_else(|| panic!("{fix} is in {answer}"));
    let change = changes.iter().find(|change| change["field"] == id);
    let change = change.unwrap_or_else(|| panic!("{fix} has {id}: {answer}"));
    let mean = |of: &str| change[of]["mean"].as_f64().expect("a number");
    (mean("old"), mean("new"))
}
