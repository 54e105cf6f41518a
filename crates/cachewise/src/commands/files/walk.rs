//! Files by path, and files of directories.

use cachewise_model::Reason;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use cachewise_residency::{Counts, Error, FileKind, Inode, NamedFiles, Unknown, WalkItem};

use super::arguments::Files;
use super::batched::coarse_now;
use super::counting::Answer;
use super::fuse::{NotOpened, is_not_opened};
use super::listed_file::{Identity, ListedFile};
use super::plan::{counts_of, plan, skipped};
use super::show::{Listing, Show};
use super::unknown::unknown_reason;
use super::{ncdu, tree};

/// Shows files, or sums of directories.
pub fn show(arguments: &Files, show: &mut Show) -> Result<Answer> {
    // Named files are shown in that order, each as often as it is named.
    // While a list is repeated, a directory may take the place of a file.
    let are_files = match arguments.watch {
        None => show.are_files(),
        Some(_) => Some(!has_directory(&arguments.paths)),
    };
    let is_list = show.keeps_order() && !arguments.tree && !arguments.ncdu;
    match are_files {
        Some(true) | None if is_list => listed(arguments, show, are_files.is_some()),
        _ => walked(arguments, &arguments.paths, show, None),
    }
}

/// Time for which files of a list are held back, in case that it has a directory.
const HELD: Duration = Duration::from_millis(500);

/// Shows a list of files; of a list with a directory, if that is not excluded, a walk.
fn listed(arguments: &Files, show: &mut Show, are_files: bool) -> Result<Answer> {
    let mut named = Named::default();
    let mut paths = arguments.paths.iter();
    let mut held = Vec::new();
    if !are_files {
        // A call for each path that only finds directories costs as much as counting the pages.
        let until = coarse_now() + HELD;
        while coarse_now() < until
            && !show.stop().is_asked()
            && let Some(path) = paths.next()
        {
            let looked = named.look(path);
            if matches!(&looked, Err(error) if is_directory(error)) {
                return walked(arguments, &arguments.paths, show, None);
            }
            held.push((path, looked));
        }
        if !show.stop().is_asked() && has_directory(paths.as_slice()) {
            return walked(arguments, &arguments.paths, show, None);
        }
    }
    let mut listing = show.begin()?;
    for (path, looked) in held {
        named.add(path, looked, &mut listing)?;
    }
    for path in paths {
        if listing.stop().is_asked() {
            break;
        }
        let looked = named.look(path);
        named.add(path, looked, &mut listing)?;
    }
    listing.finish()
}

/// Whether one of the paths leads to a directory.
pub fn has_directory(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| path.is_dir())
}

fn is_directory(error: &Error) -> bool {
    error.unknown() == Some(Unknown::NotAFile(FileKind::Directory))
}

/// Shows the files of a walk; `partial` is the reason if other files are missing.
pub fn walked(
    arguments: &Files,
    roots: &[PathBuf],
    show: &mut Show,
    partial: Option<Reason>,
) -> Result<Answer> {
    let walk = show.stop().ends(plan(&arguments.select, roots)?);
    if arguments.ncdu {
        return ncdu::show(walk, roots, show);
    }
    let mut listing = show.begin()?;
    listing.counting().answer.partial = partial;
    if arguments.tree {
        return tree::show(arguments, walk, listing);
    }
    let mut result = Ok(());
    let not_opened = NotOpened::default();
    walk.run(|met| {
        result = match met {
            WalkItem::File(entry) => {
                let counts = counts_of(&entry, &not_opened);
                let size = entry.size.0;
                listing.file(size, counts, || ListedFile::new(entry.path(), size, counts))
            }
            WalkItem::Skipped(error) => {
                skipped(roots, error, listing.counting());
                Ok(())
            }
        };
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    result?;
    listing.finish()
}

/// A file that was looked at: small, as a list has many of them held back.
struct Known {
    identity: Identity,
    size: u64,
    counts: std::result::Result<Counts, Reason>,
}

type Looked = std::result::Result<Known, Box<Error>>;

/// Files of a list.
#[derive(Default)]
struct Named {
    files: NamedFiles,
    not_opened: NotOpened,
    seen: HashSet<((u32, u32), u64)>,
}

impl Named {
    /// Looks at a file.
    fn look(&mut self, path: &Path) -> Looked {
        let (inode, counts) = match self.files.look(path) {
            Err(error) if is_not_opened(&error) => {
                Inode::at(path).map(|inode| (inode, Err(error)))?
            }
            looked => looked?,
        };
        let counts = match counts {
            Ok(counts) => Ok(counts),
            Err(error) => match error.unknown() {
                Some(Unknown::FuseNotOpened) => self.not_opened.counts(&inode),
                Some(why) => Err(unknown_reason(why)),
                None => return Err(error.into()),
            },
        };
        Ok(Known {
            identity: Identity::from(&inode),
            size: inode.size.0,
            counts,
        })
    }

    /// Shows a file. Named again, or by another of its names, it is shown again and counted once.
    fn add(&mut self, path: &Path, looked: Looked, listing: &mut Listing<'_>) -> Result<()> {
        let Known {
            identity,
            size,
            counts,
        } = match looked {
            Ok(known) => known,
            Err(error) => {
                listing.failed(&error.with_path(path).to_string());
                return Ok(());
            }
        };
        let found = || ListedFile {
            identity: Some(identity),
            ..ListedFile::new(path.to_owned(), size, counts)
        };
        if self.seen.insert((identity.device, identity.inode)) {
            listing.file(size, counts, found)
        } else {
            listing.again(size, counts, found)
        }
    }
}
