//! Residency of files: the census, and sets of files by pattern.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cachewise_kstat::Kernel;
use cachewise_probe::census::{CachedInode, Census, Name, Options};
use cachewise_residency::{Walk, WalkItem};
use cachewise_sys::page_size;
use cachewise_web::{CacheTree, FileSet, Names, Surveying};

use super::arguments::NamedGlob;
use crate::machine;

/// Where in the tree files are that may not be named.
const NOT_TOLD: &str = "[not named here]";

/// Minimum (4 EiB) of sizes that mean no size.
const NO_SIZE: u64 = 1 << 62;

/// Looks at files.
pub struct Files {
    kernel: Kernel,
    names: Names,
    sets: Vec<NamedGlob>,
    /// Loaded at the first request, and not again after a failure, which would repeat.
    census: Option<Result<Census, String>>,
}

impl Files {
    pub fn new(names: Names, sets: Vec<NamedGlob>) -> Files {
        Files {
            kernel: Kernel::new(),
            names,
            sets,
            census: None,
        }
    }
}

impl Surveying for Files {
    fn cache(&mut self) -> Result<CacheTree, String> {
        let begin = Instant::now();
        let census = self.census.get_or_insert_with(|| {
            Census::open().map_err(|error| {
                format!(
                    "only the census can report the contents of the page cache: {}",
                    machine::why_no_probe(error)
                )
            })
        });
        let census = census.as_mut().map_err(|error| error.clone())?;
        let mounts = self
            .kernel
            .mounts(None)
            .map_err(|error| format!("cannot read the table of mounts: {error}"))?;
        let mut tree = CacheTree::new(machine::timestamp());
        let mut hidden = 0u64;
        let summary = census
            .stream(&Options::default(), |inode| {
                let path = inode.path(&self.kernel, &mounts);
                let path = match path {
                    Some(path) if self.names.tells(&path) => path,
                    Some(_) => {
                        hidden += 1;
                        NOT_TOLD.into()
                    }
                    None if self.names == Names::All => unseen(&inode),
                    None => {
                        hidden += 1;
                        NOT_TOLD.into()
                    }
                };
                let resident = inode.pages.bytes(page_size()).0;
                // Pages may lie beyond the end, and block devices are as large as they are. Where btrfs keeps
                // its trees has the largest size that there can be, which is none.
                let size = Some(inode.size.0).filter(|size| *size < NO_SIZE);
                tree.add(&path, resident, size.unwrap_or_default().max(resident));
            })
            .map_err(|error| format!("cannot take the census: {error}"))?;
        tree.seconds = begin.elapsed().as_secs_f64();
        if summary.is_partial() {
            tree.notes.push(
                "The census is not complete: files or file systems changed faster than it walks."
                    .into(),
            );
        }
        if hidden > 0 {
            tree.notes.push(format!(
                "{hidden} files are not under an allowed root: they are summed up, and not named (--root)."
            ));
        }
        Ok(tree)
    }

    fn file_sets(&mut self) -> Result<Vec<FileSet>, String> {
        self.sets.iter().map(file_set).collect()
    }
}

/// A place in the tree for what no path leads to from here.
fn unseen(inode: &CachedInode) -> PathBuf {
    let (major, minor) = (inode.device.major, inode.device.minor);
    let place = PathBuf::from(format!(
        "[{} {major}:{minor}, not seen from here]",
        inode.file_system
    ));
    match &inode.name {
        Name::Path(path) => place.join(path.strip_prefix("/").unwrap_or(path)),
        Name::Label(label) => Path::new("[memory]").join(label.to_string_lossy().replace('/', "-")),
        Name::Unknown => place.join(format!("inode {}", inode.id.inode)),
    }
}

fn file_set(set: &NamedGlob) -> Result<FileSet, String> {
    let failed = |error| format!("--fileset {}: {error}", set.name);
    let root = fixed_part(&set.glob);
    let mut sums = FileSet {
        name: set.name.clone(),
        files: 0,
        unknown: 0,
        size_bytes: 0,
        resident_bytes: 0,
    };
    let mut problem = None;
    let walk = Walk::new([&root]).include(&set.glob).map_err(failed)?;
    walk.run(|found| {
        match found {
            WalkItem::File(file) => {
                sums.files += 1;
                sums.size_bytes += file.size.0;
                match file.counts {
                    Ok(counts) => sums.resident_bytes += counts.cached.bytes(page_size()).0,
                    Err(_) => sums.unknown += 1,
                }
            }
            // A set without files is empty; a set that cannot be read is unknown.
            WalkItem::Skipped(error) if error.kind() == cachewise_sys::ErrorKind::NotFound => {}
            WalkItem::Skipped(error) => problem = Some(failed_text(&set.name, error)),
        }
        ControlFlow::Continue(())
    });
    match problem {
        Some(problem) => Err(problem),
        None => Ok(sums),
    }
}

fn failed_text(name: &str, error: &cachewise_residency::Error) -> String {
    format!("--fileset {name}: {error}")
}

/// The directory, or the file, up to where the pattern begins.
fn fixed_part(glob: &str) -> PathBuf {
    let mut root = PathBuf::from("/");
    let parts = glob.split('/').filter(|part| !part.is_empty());
    // Without any pattern in it, it is a single file, which is the root itself.
    root.extend(parts.take_while(|part| !part.contains(['*', '?', '[', '{', '\\'])));
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_begin_where_the_pattern_does() {
        for (glob, root) in [
            ("/var/lib/pg/**", "/var/lib/pg"),
            ("/var/*/x", "/var"),
            ("/etc/passwd", "/etc/passwd"),
            ("/**", "/"),
            ("/a[b]/c", "/"),
        ] {
            assert_eq!(fixed_part(glob), PathBuf::from(root), "{glob}");
        }
    }
}
