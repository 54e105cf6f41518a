//! [`Results`]: a file with a line for each run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Contention, Plan, Trial};
use crate::{Error, Summary};

/// A finished trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The trial.
    #[serde(flatten)]
    pub trial: Trial,
    /// Load of other programs.
    pub contention: Contention,
    /// The results.
    pub summary: Summary,
}

/// The first line: the matrix and kernel of these results.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema_version: u32,
    kernel: String,
    plan: Plan,
}

const SCHEMA_VERSION: u32 = 1;

/// Finished trials, in a file that gets a line for each, so that an interrupted matrix can
/// continue.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    done: Vec<Done>,
}

impl Results {
    /// Opens or makes the file for this plan; cuts off an incomplete line.
    ///
    /// # Errors
    /// [`Error::Matrix`] if it has the results of another plan or kernel, or is another kind of
    /// file.
    pub fn open(path: &Path, plan: &Plan, kernel: &str) -> Result<Results, Error> {
        let failed = |operation| move |source| Error::file(operation, path, source);
        let wrong = |problem: String| Error::Matrix {
            problem: format!("{}: {problem}", path.display()),
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed("open"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed("read"))?;
        // A crash may have cut off the last line.
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let other = "it is not a results file: name another one with --results";
        if whole == 0 && !text.is_empty() && !text.starts_with(b"{\"schema_version\"") {
            return Err(wrong(other.to_owned()));
        }
        let mut lines = text[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let mut done = Vec::new();
        let is_new = match lines.next() {
            None => true,
            Some(first) => {
                let mut head: Head =
                    serde_json::from_slice(first).map_err(|_| wrong(other.to_owned()))?;
                let workloads = head.plan.workloads.values_mut();
                workloads.for_each(crate::Workload::upgrade);
                if head.schema_version != SCHEMA_VERSION
                    || head.plan != *plan
                    || head.kernel != kernel
                {
                    return Err(wrong(format!(
                        "it has the results of another matrix, or of kernel {} where this is {kernel}: remove it, or name \
                         another one with --results",
                        head.kernel
                    )));
                }
                for line in lines {
                    done.push(serde_json::from_slice(line).map_err(|error| {
                        wrong(format!(
                            "a line is not understood: {error}; remove that line, or the file"
                        ))
                    })?);
                }
                false
            }
        };
        file.set_len(whole as u64).map_err(failed("shorten"))?;
        file.seek(SeekFrom::End(0)).map_err(failed("seek in"))?;
        let mut results = Results {
            path: path.to_owned(),
            file,
            done,
        };
        if is_new {
            let head = Head {
                schema_version: SCHEMA_VERSION,
                kernel: kernel.to_owned(),
                plan: plan.clone(),
            };
            results.line(&head)?;
        }
        Ok(results)
    }

    /// The trials so far.
    #[must_use]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    /// Whether this trial is done.
    #[must_use]
    pub fn has(&self, trial: &Trial) -> bool {
        self.done.iter().any(|done| done.trial == *trial)
    }

    /// Adds a trial; it is on disk when this returns.
    ///
    /// # Errors
    /// Writing failed.
    pub fn add(&mut self, done: Done) -> Result<(), Error> {
        self.line(&done)?;
        self.done.push(done);
        Ok(())
    }

    fn line<T: Serialize>(&mut self, value: &T) -> Result<(), Error> {
        let failed = |source: std::io::Error| Error::file("write", &self.path, source);
        let mut line = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        written.and_then(|()| self.file.sync_data()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_with_keys_of_older_versions_continue() {
        let text = "[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n[workload.w]\nfile = \"/data\"\nseconds = 5\n\
            memory_max = \"64M\"\nunaligned = true\nfill = \"cold\"\n";
        let plan = Plan::parse(text).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results");
        Results::open(&path, &plan, "6.18").unwrap();
        let mut head = std::fs::read_to_string(&path).unwrap();
        for (new, old) in [
            ("\"seconds\":", "\"time\":"),
            ("\"memory_max\":", "\"memory-max\":"),
            ("\"unaligned\":true", "\"aligned\":false"),
            ("\"no_latency\":false", "\"latency\":true"),
        ] {
            assert!(head.contains(new), "{new} is in {head}");
            head = head.replace(new, old);
        }
        std::fs::write(&path, head).unwrap();
        Results::open(&path, &plan, "6.18").expect("it is the same matrix");
    }
}
