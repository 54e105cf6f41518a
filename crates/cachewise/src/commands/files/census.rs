//! `--all` and `--evicted`: every file of the machine, by the census in the kernel, or by a walk where that
//! cannot be had.

use cachewise_model::Reason;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Kernel, Mounts};
use cachewise_probe::census::{CachedInode, Census, Name, Options, Select, Summary, Sums};
use cachewise_residency::{Counts, States, Tree, WalkedFile};
use cachewise_sys::page_size;
use cachewise_units::{Bytes, Pages, grouped};

use super::arguments::{Files, SortKey};
use super::counting::Answer;
use super::culprits::Culprits;
use super::listed_file::{Identity, ListedFile, MEMORY, told_by};
use super::ncdu::{self, Sized};
use super::show::{Listing, Show};
use super::walk;
use crate::machine;

/// Takes the census and shows it.
pub fn show(arguments: &Files, kernel: &Kernel, show: &mut Show) -> Result<Answer> {
    let mut census = match Census::open() {
        Ok(census) => census,
        Err(error) if arguments.evicted => {
            bail!(
                "only the census knows which files reclaim threw out: {}",
                machine::why_no_probe(error)
            );
        }
        Err(error) => {
            show.note(&format!(
                "note: this is {}, because {}",
                Reason::ByWalk.words().trim_start_matches("by "),
                machine::why_inexact(error)
            ));
            return walk::walked(arguments, &[PathBuf::from("/")], show, Some(Reason::ByWalk));
        }
    };
    let culprits = arguments.culprits.as_deref().map(Culprits::read);
    let culprits = culprits.transpose()?.unwrap_or_default();
    let mounts = kernel.mounts(None).context("cannot read what is mounted")?;
    let options = Options {
        select: if arguments.evicted {
            Select::Evicted
        } else {
            Select::Cached
        },
        ..Options::default()
    };
    let mut look = || -> Result<_> {
        let report = census.take(&options).context("cannot take the census")?;
        let sums = Sums::of_kernel(kernel).context("cannot read the kernel's own sums")?;
        Ok((report, sums))
    };
    let (mut report, mut sums) = look()?;
    let adds_up = |summary: &Summary, sums: &Sums| {
        set_beside(summary, sums).is_none_or(|all| all.iter().all(|(_, one, other)| one == other))
    };
    if !arguments.evicted && !adds_up(&report.summary, &sums) {
        // More often than not something came or went that moment.
        (report, sums) = look()?;
    }
    let patterns = arguments.select.patterns()?;
    let seen = Seen {
        kernel,
        mounts: &mounts,
        culprits,
    };
    let inodes = report.inodes.iter().filter(|inode| {
        patterns
            .as_ref()
            .is_none_or(|patterns| patterns.takes(&seen.shown(inode).path))
    });
    let answer = if arguments.ncdu {
        browsed(inodes, &seen, show)?
    } else if arguments.tree {
        summed(arguments, inodes, &seen, show.begin()?)?
    } else {
        listed(arguments, inodes, &seen, show.begin()?)?
    };
    if !arguments.evicted {
        compare(&report.summary, &sums, show)?;
    }
    told(&report.summary, show)?;
    Ok(answer)
}

/// Each file.
fn listed<'a>(
    arguments: &Files,
    inodes: impl Iterator<Item = &'a CachedInode>,
    seen: &Seen<'_>,
    mut listing: Listing<'_>,
) -> Result<Answer> {
    let by_states = matches!(arguments.sort, Some(SortKey::Dirty | SortKey::Evicted));
    for inode in inodes {
        if listing.stop().is_asked() {
            break;
        }
        let counts = if arguments.evicted {
            // How many pages it had is not in the inode.
            seen.remembered(inode).ok_or(Reason::NoPathLeads)
        } else {
            let mut counts = counts(inode);
            if by_states && counts.states.is_none() {
                // Its place in the order depends on them.
                counts.states = seen.remembered(inode).and_then(|told| told.states);
            }
            Ok(counts)
        };
        let (size, counted) = in_sums(inode, counts);
        listing.counting().add(size, counted);
        listing.again(inode.size.0, counts, || seen.found(inode, counts))?;
    }
    if arguments.evicted {
        // Files that cannot be queried are known to be evicted.
        listing.counting().expect_unknown();
    }
    listing.finish()
}

/// Sums by directory.
fn summed<'a>(
    arguments: &Files,
    inodes: impl Iterator<Item = &'a CachedInode>,
    seen: &Seen<'_>,
    mut listing: Listing<'_>,
) -> Result<Answer> {
    let mut tree = Tree::new(arguments.depth);
    for inode in inodes {
        if listing.stop().is_asked() {
            break;
        }
        let shown = seen.shown(inode);
        let (size, counts) = in_sums(inode, Ok(counts(inode)));
        listing.counting().add(size, counts);
        let Ok(counts) = counts else { continue };
        tree.add(&WalkedFile {
            root: &shown.root,
            directory: shown.path.parent().unwrap_or(&shown.root),
            name: shown.path.file_name().unwrap_or_default(),
            size: Bytes(size),
            counts: Ok(counts),
        });
    }
    super::tree::summed(arguments, tree, listing)
}

/// For ncdu, which shows one tree: files without a path in it get a directory below the root.
fn browsed<'a>(
    inodes: impl Iterator<Item = &'a CachedInode>,
    seen: &Seen<'_>,
    show: &mut Show,
) -> Result<Answer> {
    let mut counting = show.count();
    let files = inodes.map(|inode| {
        let (size, counts) = in_sums(inode, Ok(counts(inode)));
        counting.add(size, counts);
        Sized {
            path: Path::new(ROOT).join(seen.shown(inode).path),
            size: inode.size.0,
            resident: inode.pages.bytes(page_size()).0,
            unknown: false,
        }
    });
    let files = files.collect();
    counting.all_came();
    show.raw(|out| ncdu::write(out, Path::new(ROOT), files))?;
    Ok(counting.finish())
}

fn counts(inode: &CachedInode) -> Counts {
    // Pages may lie beyond the end: reserved on tmpfs, or the rest of a large folio.
    let total = inode.size.pages_ceil(page_size()).max(inode.pages);
    Counts {
        total,
        cached: inode.pages,
        states: inode.clean.then(States::default),
    }
}

/// Size and pages as sums have them: of a block device only what is resident, for a disk is no file that could be
/// in memory as a whole, and what is on it is counted already.
fn in_sums(inode: &CachedInode, counts: Result<Counts, Reason>) -> (u64, Result<Counts, Reason>) {
    match inode.is_block_device() {
        false => (inode.size.0, counts),
        true => {
            let resident = |counts: Counts| Counts {
                total: counts.cached,
                ..counts
            };
            (0, counts.map(resident))
        }
    }
}

const ROOT: &str = "/";

/// A path to be put below a root.
fn below(path: &Path) -> PathBuf {
    path.strip_prefix(ROOT).unwrap_or(path).to_owned()
}

/// The mounts through which files are seen from here.
struct Seen<'a> {
    kernel: &'a Kernel,
    mounts: &'a Mounts,
    /// Known with a recording.
    culprits: Culprits,
}

/// The displayed name of a file.
struct Shown {
    path: PathBuf,
    /// The tree that the path is in: what can be seen from here, or a name for what cannot.
    root: Cow<'static, Path>,
    /// Where no path leads to it, the reason.
    unseen: Option<&'static str>,
}

impl Seen<'_> {
    fn shown(&self, inode: &CachedInode) -> Shown {
        if let Some(path) = inode.path(self.kernel, self.mounts) {
            return Shown {
                path,
                root: Path::new(ROOT).into(),
                unseen: None,
            };
        }
        let (major, minor) = (inode.device.major, inode.device.minor);
        let place = PathBuf::from(format!("[{} {major}:{minor}]", inode.file_system));
        let (root, path, reason) = match &inode.name {
            Name::Path(path) => (place, below(path), "not seen from this mount namespace"),
            Name::Label(label) => (MEMORY.into(), below(Path::new(label)), "memory"),
            Name::Unknown => (
                place,
                PathBuf::from(format!("inode {}", inode.id.inode)),
                "no name is in memory",
            ),
        };
        Shown {
            path: root.join(path),
            root: root.into(),
            unseen: Some(reason),
        }
    }

    fn found(&self, inode: &CachedInode, counts: Result<Counts, Reason>) -> ListedFile {
        let shown = self.shown(inode);
        let notes = [
            inode.deleted.then_some("deleted"),
            shown.unseen,
            inode.mapped.then_some("mapped"),
            inode.writers.then_some("open for writing"),
        ];
        let identity = identity(inode);
        let culprit = self.culprits.of(identity.device, identity.inode);
        let notes = notes.into_iter().flatten().chain(culprit.as_deref());
        let notes: Vec<&str> = notes.collect();
        ListedFile {
            identity: Some(identity),
            filesystem: Some(inode.file_system.to_string()),
            note: (!notes.is_empty()).then(|| notes.join(", ")),
            is_to_be_asked: shown.unseen.is_none()
                && !inode.deleted
                && counts.is_ok_and(|counts| counts.states.is_none()),
            ..ListedFile::new(shown.path, inode.size.0, counts)
        }
    }

    /// Evicted pages of a file that the kernel remembers.
    fn remembered(&self, inode: &CachedInode) -> Option<Counts> {
        let path = inode
            .path(self.kernel, self.mounts)
            .filter(|_| !inode.deleted)?;
        told_by(&path, &identity(inode), Some(&inode.file_system))
    }
}

fn identity(inode: &CachedInode) -> Identity {
    Identity {
        device: (inode.id.major, inode.id.minor),
        inode: inode.id.inode,
        links: inode.links.into(),
    }
}

/// The counted sums, each with that of the kernel.
fn set_beside(summary: &Summary, kernel: &Sums) -> Option<[(&'static str, Pages, Pages); 2]> {
    let census = summary.sums?;
    Some([
        ("Cached", census.cached, kernel.cached),
        ("Buffers", census.buffers, kernel.buffers),
    ])
}

/// Sets the sums beside the kernel's own.
fn compare(summary: &Summary, kernel: &Sums, show: &mut Show) -> Result<()> {
    for (name, counted, told) in set_beside(summary, kernel).into_iter().flatten() {
        let bytes = counted.bytes(page_size());
        let difference = grouped(counted.0.abs_diff(told.0));
        let pages = grouped(counted.0);
        show.line(&if counted == told {
            format!("adds up: {pages} pages ({bytes}) = the kernel's {name}")
        } else {
            let sign = if counted > told { "+" } else { "-" };
            format!(
                "{pages} pages ({bytes}), the kernel's {name} is {}: {sign}{difference}, pages that changed \
                 meanwhile or belong to no listed file (aio rings, secret memory)",
                grouped(told.0)
            )
        })?;
    }
    Ok(())
}

/// How the census went.
fn told(summary: &Summary, show: &mut Show) -> Result<()> {
    show.line(&format!(
        "census of {} inodes in {} file systems in {:.1} ms, at most {:.2} ms of it at a time in the kernel",
        grouped(summary.visited),
        summary.super_blocks,
        summary.elapsed.as_secs_f64() * 1e3,
        summary.longest_run.as_secs_f64() * 1e3,
    ))?;
    if summary.is_partial() {
        show.note(
            "note: the census is not complete: files or file systems changed faster than it walks",
        );
    }
    Ok(())
}
