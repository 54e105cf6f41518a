//! Files by path, and files of directories.

use cachewise_model::Reason;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_residency::{Inode, NamedFiles, Unknown, WalkItem};

use super::arguments::Files;
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
        Some(_) => !arguments.paths.iter().any(|path| path.is_dir()),
    };
    if are_files && show.keeps_order() && !arguments.tree && !arguments.ncdu {
        let mut listing = show.begin()?;
        let (mut seen, not_opened) = (HashSet::new(), NotOpened::default());
        let mut files = NamedFiles::default();
        for path in &arguments.paths {
            if listing.stop().is_asked() {
                break;
            }
            named(path, &mut files, &not_opened, &mut seen, &mut listing)?;
        }
        return listing.finish();
    }
    walked(arguments, &arguments.paths, show, None)
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

/// One file; named again, or by another of its names, it is shown again and counted once.
fn named(
    path: &Path,
    files: &mut NamedFiles,
    not_opened: &NotOpened,
    seen: &mut HashSet<((u32, u32), u64)>,
    listing: &mut Listing<'_>,
) -> Result<()> {
    let asked = match files.look(path) {
        Err(error) if is_not_opened(&error) => Inode::at(path).map(|inode| (inode, Err(error))),
        looked => looked,
    };
    let (inode, counts) = match asked {
        Ok(told) => told,
        Err(error) => {
            listing.failed(&error.with_path(path).to_string());
            return Ok(());
        }
    };
    let counts = match counts {
        Ok(counts) => Ok(counts),
        Err(error) => match error.unknown() {
            Some(Unknown::FuseNotOpened) => not_opened.counts(&inode),
            Some(why) => Err(unknown_reason(why)),
            None => {
                listing.failed(&error.with_path(path).to_string());
                return Ok(());
            }
        },
    };
    let found = || ListedFile {
        identity: Some(Identity::from(&inode)),
        ..ListedFile::new(path.to_owned(), inode.size.0, counts)
    };
    if seen.insert((inode.device, inode.number)) {
        listing.file(inode.size.0, counts, found)
    } else {
        listing.again(inode.size.0, counts, found)
    }
}
