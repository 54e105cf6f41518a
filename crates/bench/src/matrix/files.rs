//! [`Files`]: the workloads' files, made once for all runs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cachewise_units::Bytes;

use super::Plan;
use crate::prepare::make_as;
use crate::{Engine, Error, Fill};

/// Temporary files, removed on drop.
#[derive(Debug, Default)]
pub struct Files(Vec<PathBuf>);

impl Files {
    /// Makes missing files of workloads with a size. Each takes its name when it is complete, so
    /// that a file left by a killed matrix is whole, and the next one uses it. Files for writing
    /// are left to each run.
    ///
    /// # Errors
    /// Making a file failed; those made so far are removed.
    pub fn make(
        plan: &Plan,
        tell: &mut dyn FnMut(&Path, Bytes, Bytes),
        cancel: &AtomicBool,
    ) -> Result<Files, Error> {
        let mut files = Files::default();
        for workload in plan.workloads.values() {
            let path = &workload.file;
            let is_written = workload.engine == Engine::Write || workload.fill == Fill::Write;
            let Some(size) = workload.size.filter(|_| !is_written && !path.exists()) else {
                continue;
            };
            let mut draft = OsString::from(path);
            draft.push(".cachewise-new");
            let draft = PathBuf::from(draft);
            // Left by a killed matrix.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    // Only we use that name, so report it.
                    return Err(Error::file("remove", &draft, error));
                }
                _ => {}
            }
            let made = make_as(
                path,
                &draft,
                size,
                workload.compress_pct,
                &mut |done| tell(path, done, size),
                cancel,
            )?;
            fs::rename(&draft, path).map_err(|error| Error::file("create", path, error))?;
            made.keep();
            files.0.push(path.clone());
        }
        Ok(files)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in &self.0 {
            // Another program may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}
