//! `--all` and `--evicted`: every file of the machine, by the census in the kernel, or by a walk where that
//! cannot be had.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cachewise_kstat::{Kernel, Mounts};
use cachewise_probe::census::{CachedInode, Census, Name, Options, Select, Summary, Sums};
use cachewise_residency::{Counts, open, query};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Pages};

use super::found::{Found, Identity};
use super::show::{Answer, Show};
use super::walk;
use crate::cli::Files;
use crate::machine;
use crate::output::tell;

/// What a walk that stands in for the census leaves out: made up by the kernel, without pages.
const MADE_UP: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Takes the census and shows it.
pub fn show(arguments: &Files, kernel: &Kernel, show: &mut Show) -> Result<Answer> {
    let mut census = match Census::open() {
        Ok(census) => census,
        Err(error) if arguments.evicted => {
            return Err(error).context("only the census knows which files reclaim threw out");
        }
        Err(error) => {
            tell(&format!(
                "note: this is a walk of the file systems that are mounted here, without deleted files, \
                 shared memory, block devices and other mount namespaces, because {}",
                machine::why_no_probe(error)
            ));
            return walk::walked(
                arguments,
                walk::plan(&arguments.select, &["/"], &MADE_UP)?,
                show,
            );
        }
    };
    let mounts = kernel.mounts(None).context("cannot read what is mounted")?;
    let options = Options {
        select: if arguments.evicted {
            Select::Evicted
        } else {
            Select::Cached
        },
        ..Options::default()
    };
    let report = census.take(&options).context("cannot take the census")?;
    let sums = Sums::of_kernel(kernel).context("cannot read the kernel's own sums")?;
    let mut listing = show.begin()?;
    for inode in &report.inodes {
        let counts = if arguments.evicted {
            // How many pages it had is not in the inode.
            remembered(inode, kernel, &mounts).ok_or(UNREACHABLE)
        } else {
            Ok(Counts {
                total: Pages(inode.size.0.div_ceil(page_size().get())),
                cached: inode.pages,
                states: None,
            })
        };
        listing.file(inode.size.0, counts, || {
            found(inode, counts, kernel, &mounts)
        })?;
    }
    if arguments.evicted {
        // Of a file that cannot be asked, it is known that it is one of them.
        listing.counting().answer.unknown = 0;
    }
    let answer = listing.finish()?;
    if !arguments.evicted {
        compare(&report.summary, sums, show)?;
    }
    told(&report.summary, show)?;
    Ok(answer)
}

const UNREACHABLE: &str = "no path leads to the file from here, so it cannot be asked";

/// What the kernel remembers of an evicted file.
fn remembered(inode: &CachedInode, kernel: &Kernel, mounts: &Mounts) -> Option<Counts> {
    let path = inode.path(kernel, mounts).filter(|_| !inode.deleted)?;
    let file = open(&path).ok()?;
    query(&file, ByteRange::starting_at(0)).ok()
}

fn found(
    inode: &CachedInode,
    counts: Result<Counts, &'static str>,
    kernel: &Kernel,
    mounts: &Mounts,
) -> Found {
    let path = inode.path(kernel, mounts);
    let mut notes: Vec<&str> = Vec::new();
    if inode.deleted {
        notes.push("deleted");
    }
    let is_here = path.is_some() && !inode.deleted;
    let shown = path.unwrap_or_else(|| {
        notes.push(match (&inode.name, inode.is_block_device()) {
            (Name::Path(_), _) => "not seen from this mount namespace",
            (Name::Label(_), _) => "memory",
            (Name::Unknown, _) => "no name is in memory",
        });
        unseen(inode)
    });
    if inode.mapped {
        notes.push("mapped");
    }
    if inode.writers {
        notes.push("open for writing");
    }
    Found {
        identity: Some(Identity {
            device: (inode.id.major, inode.id.minor),
            inode: inode.id.inode,
            links: inode.links.into(),
        }),
        filesystem: Some(inode.file_system.to_string()),
        note: (!notes.is_empty()).then(|| notes.join(", ")),
        is_to_be_asked: is_here,
        ..Found::new(shown, inode.size.0, counts)
    }
}

/// What to call a file to which no path leads from here.
fn unseen(inode: &CachedInode) -> PathBuf {
    let (major, minor) = (inode.device.major, inode.device.minor);
    let place = format!("[{} {major}:{minor}]", inode.file_system);
    match &inode.name {
        Name::Path(path) => PathBuf::from(place).join(path.strip_prefix("/").unwrap_or(path)),
        Name::Label(label) => {
            let mut text = std::ffi::OsString::from("[");
            text.push(label);
            text.push("]");
            PathBuf::from(text)
        }
        Name::Unknown => PathBuf::from(place).join(format!("inode {}", inode.id.inode)),
    }
}

/// Sets the sums beside the kernel's own.
fn compare(summary: &Summary, kernel: Sums, show: &mut Show) -> Result<()> {
    let Some(census) = summary.sums else {
        return Ok(());
    };
    for (name, counted, told) in [
        ("Cached", census.cached, kernel.cached),
        ("Buffers", census.buffers, kernel.buffers),
    ] {
        let (counted, told) = (counted.0, told.0);
        show.line(&match i128::from(counted) - i128::from(told) {
            0 => format!("adds up: {counted} pages = the kernel's {name}"),
            difference => format!(
                "{counted} pages, the kernel's {name} has {told}: {difference:+}, which came, went or \
                 is on no list of files (aio rings, secret memory)"
            ),
        })?;
    }
    Ok(())
}

/// How the census went.
fn told(summary: &Summary, show: &mut Show) -> Result<()> {
    show.line(&format!(
        "census of {} inodes in {} file systems in {:.1} ms, at most {:.2} ms of it at a time in the kernel",
        summary.visited,
        summary.super_blocks,
        summary.elapsed.as_secs_f64() * 1e3,
        summary.longest_run.as_secs_f64() * 1e3,
    ))?;
    if summary.is_partial() {
        tell(
            "note: the census is not complete: files or file systems came and went faster than it walks",
        );
    }
    Ok(())
}
