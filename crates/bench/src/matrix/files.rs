//! [`Files`]: the files that workloads read, made once for all runs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use cachewise_units::Bytes;

use super::Plan;
use crate::prepare::make_as;
use crate::{Engine, Error, Fill};

/// Files that were made, and are gone when this is dropped.
#[derive(Debug, Default)]
pub struct Files(Vec<PathBuf>);

impl Files {
    /// Makes the files of workloads that give a size, where they are not there. Each takes its name when it is complete,
    /// so that one that a killed matrix left is whole, and used by the next. Files that are written to are left to each run.
    ///
    /// # Errors
    /// What making says; those that were made are gone again.
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
            // Of a matrix that was killed.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    // Nobody but us uses that name, so it is the one to tell.
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
            // Who removed it meanwhile has done our work.
            let _ = fs::remove_file(path);
        }
    }
}
