//! `-p`: the files that processes hold, in their own mount namespaces.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_kstat::{ErrorKind, Hold, Kernel, ProcessFile};
use cachewise_residency::{Inode, open, query};
use cachewise_sys::ErrorKind as SysKind;
use cachewise_units::{ByteRange, escaped};

use super::arguments::Files;
use super::counting::Answer;
use super::fuse::{NotOpened, is_not_opened};
use super::listed_file::{Identity, ListedFile, MEMORY};
use super::show::{Listing, Show};
use super::unknown::unknown_reason;
use crate::machine;

/// Shows each file once, however many descriptors and mappings it has.
pub fn show(arguments: &Files, kernel: &Kernel, show: &mut Show) -> Result<Answer> {
    let patterns = arguments.select.patterns()?.unwrap_or_default();
    let mut listing = show.begin()?;
    let (mut seen, not_opened) = (HashSet::new(), NotOpened::default());
    for pid in &arguments.pid {
        let files = match kernel.process_files(*pid) {
            Ok(files) => files.files,
            Err(error) => {
                listing.failed(&why(*pid, &error));
                continue;
            }
        };
        let files = files.iter().filter(|file| patterns.takes(&file.path));
        for file in files {
            if listing.stop().is_asked() {
                break;
            }
            held(file, &not_opened, &mut seen, &mut listing)?;
        }
    }
    listing.finish()
}

/// Why the files of a process are not known, and what to do.
fn why(pid: u32, error: &cachewise_kstat::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => format!("process {pid} does not exist; `pgrep NAME` finds it"),
        ErrorKind::Denied => {
            format!(
                "cannot list the files of process {}: {error}; {}",
                machine::named(pid),
                machine::who_may_look(pid)
            )
        }
        _ => format!("cannot list the files of process {pid}: {error}"),
    }
}

fn held(
    file: &ProcessFile,
    not_opened: &NotOpened,
    seen: &mut HashSet<((u32, u32), u64)>,
    listing: &mut Listing<'_>,
) -> Result<()> {
    let opened = match open(&file.link) {
        Ok(opened) => Some(opened),
        Err(error) if is_not_opened(&error) => None,
        // Pipes, sockets, terminals, /proc: a process has many of them, which are skipped without a note.
        Err(error) if error.unknown().is_some() => return Ok(()),
        Err(error) if error.kind() == SysKind::NotFound => return Ok(()),
        Err(error) => {
            listing.failed(&format!("{}: {error}", escaped(&file.path)));
            return Ok(());
        }
    };
    let inode = match &opened {
        Some(opened) => Inode::of_fd(opened.as_fd()),
        None => Inode::at(&file.link),
    };
    let Ok(inode) = inode else {
        return Ok(());
    };
    if !seen.insert((inode.device, inode.number)) {
        return Ok(());
    }
    let asked = opened.map(|opened| query(&opened, ByteRange::starting_at(0)));
    let counts = match asked {
        None => not_opened.counts(&inode),
        Some(Ok(counts)) => Ok(counts),
        Some(Err(error)) => match error.unknown() {
            Some(cachewise_residency::Unknown::MadeUp) => return Ok(()),
            Some(why) => Err(unknown_reason(why)),
            None => {
                listing.failed(&format!("{}: {error}", escaped(&file.path)));
                return Ok(());
            }
        },
    };
    listing.file(inode.size.0, counts, || {
        let how = match file.hold {
            Hold::Descriptor(number) => format!("descriptor {number}"),
            Hold::Mapping => "mapped".to_owned(),
        };
        ListedFile {
            identity: Some(Identity::from(&inode)),
            link: Some(file.link.clone()),
            note: Some(match (file.deleted, counts) {
                (_, Err(reason)) => format!("{how}; {reason}"),
                (true, _) => format!("{how}, deleted"),
                (false, _) => how,
            }),
            ..ListedFile::new(shown(file, &inode), inode.size.0, counts)
        }
    })
}

/// Its path; of memory that never had one, what the census calls it.
fn shown(file: &ProcessFile, inode: &Inode) -> PathBuf {
    const LABELS: [&[u8]; 3] = [b"/memfd:", b"/dev/zero", b"/SYSV"];
    let path = file.path.as_os_str().as_bytes();
    let is_label = LABELS.iter().any(|label| path.starts_with(label));
    match file.path.strip_prefix("/") {
        Ok(label) if is_label && file.deleted && inode.links == 0 => Path::new(MEMORY).join(label),
        _ => file.path.clone(),
    }
}
