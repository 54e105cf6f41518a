//! Files whose new pages are dropped: what was resident of each before.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cachewise_residency::{Baseline, ByteRange, Error, Inode, WalkItem, open};
use pyo3::prelude::*;

use crate::act::interruptible;
use crate::file::Named;
use crate::raise::raise;
use crate::walk::copy;
use crate::{file, path_name};

/// The resident pages of files at one moment.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Baselines(Vec<(PathBuf, Baseline)>);

/// A file: its path, the major and minor number of its device, its inode, its size in bytes, its resident pages.
type FileParts = (Py<PyAny>, u32, u32, u64, u64, u64);

/// Pages inserted since and pages dropped; `None` if the file is another one or was written.
type DropParts = Option<(u64, u64)>;

#[pymethods]
impl Baselines {
    /// Looks at files, and at those below directories, in the order of the roots and of the paths. Returns what could not
    /// be looked at too.
    #[staticmethod]
    fn of(roots: &Bound<'_, PyAny>, one_file_system: bool) -> PyResult<(Self, Vec<PyErr>)> {
        let py = roots.py();
        let roots = file::paths(roots)?;
        let (mut found, mut skipped) = (Vec::new(), Vec::new());
        let looked = interruptible(py, |cancel| {
            for root in &roots {
                let paths = match root.is_dir() {
                    true => below(root, one_file_system, cancel, &mut skipped),
                    false => vec![root.clone()],
                };
                for path in paths {
                    if cancel.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    match baseline(&path) {
                        Ok(baseline) => found.push((path, baseline)),
                        Err(error) => skipped.push(error),
                    }
                }
            }
            Ok::<(), Error>(())
        })?;
        looked.map_err(|error| raise(py, &error))?;
        let skipped = skipped.iter().map(|error| raise(py, error)).collect();
        Ok((Self(found), skipped))
    }

    fn files(&self, py: Python<'_>) -> PyResult<Vec<FileParts>> {
        let file = |(path, baseline): &(PathBuf, Baseline)| {
            let Inode {
                device: (major, minor),
                number,
                size,
                ..
            } = *baseline.inode();
            let name = path_name::name(py, path)?;
            Ok((name, major, minor, number, size.0, baseline.resident().0))
        };
        self.0.iter().map(file).collect()
    }

    /// Drops the new pages of a range of a file, named by its number, by way of its path or an open file.
    fn drop_inserted(
        &self,
        number: usize,
        file: &Bound<'_, PyAny>,
        start: u64,
        end: u64,
    ) -> PyResult<DropParts> {
        let py = file.py();
        let Some((_, baseline)) = self.0.get(number) else {
            return Ok(None);
        };
        let named = Named::of(file)?;
        let range = ByteRange {
            start,
            len: end.saturating_sub(start),
        };
        let dropped = py.detach(|| named.look(|file| baseline.drop_inserted(file, range)));
        let dropped = dropped.map_err(|error| raise(py, &error))?;
        Ok(dropped.map(|pages| (pages.inserted.0, pages.dropped.0)))
    }
}

fn baseline(path: &Path) -> Result<Baseline, Error> {
    let file = open(path)?;
    Baseline::of(file.as_fd()).map_err(|error| error.with_path(path))
}

/// The files below a directory, by path.
fn below(
    root: &Path,
    one_file_system: bool,
    cancel: &AtomicBool,
    skipped: &mut Vec<Error>,
) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let walk = cachewise_residency::Walk::new([root]).one_file_system(one_file_system);
    walk.run(|one| {
        match one {
            WalkItem::File(file) => paths.push(file.path()),
            WalkItem::Skipped(error) => skipped.push(copy(error)),
        }
        match cancel.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    paths.sort_unstable();
    paths
}
