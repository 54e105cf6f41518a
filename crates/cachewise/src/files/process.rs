//! `-p`: the files that processes hold, in their own mount namespaces.

use std::collections::HashSet;
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use cachewise_kstat::{ErrorKind, Hold, Kernel, ProcessFile};
use cachewise_residency::{Inode, open, query};
use cachewise_sys::ErrorKind as SysKind;
use cachewise_units::ByteRange;

use super::found::{Found, Identity};
use super::show::{Answer, Listing, Show};
use super::walk::reason;
use crate::cli::Files;

/// Shows each file once, however many descriptors and mappings it has.
pub fn show(arguments: &Files, kernel: &Kernel, show: &mut Show) -> Result<Answer> {
    let mut listing = show.begin()?;
    let mut seen = HashSet::new();
    for pid in &arguments.pid {
        let files = kernel
            .process_files(*pid)
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => anyhow::anyhow!("process {pid} does not exist"),
                _ => anyhow::Error::from(error),
            })
            .with_context(|| format!("cannot list the files of process {pid}"))?;
        for file in &files.files {
            held(file, &mut seen, &mut listing)?;
        }
    }
    listing.finish()
}

fn held(
    file: &ProcessFile,
    seen: &mut HashSet<((u32, u32), u64)>,
    listing: &mut Listing<'_>,
) -> Result<()> {
    let opened = match open(&file.link) {
        Ok(opened) => opened,
        // Pipes, sockets, terminals, /proc: a process has many, and nobody wants to hear of each.
        Err(error) if error.unknown().is_some() => return Ok(()),
        Err(error) if error.kind() == SysKind::NotFound => return Ok(()),
        Err(error) => {
            listing.failed(&format!("{}: {error}", file.path.display()));
            return Ok(());
        }
    };
    let Ok(inode) = Inode::of(opened.as_fd()) else {
        return Ok(());
    };
    if !seen.insert((inode.device, inode.number)) {
        return Ok(());
    }
    let counts = match query(&opened, ByteRange::starting_at(0)) {
        Ok(counts) => Ok(counts),
        Err(error) => match error.unknown() {
            Some(cachewise_residency::Unknown::MadeUp) => return Ok(()),
            Some(why) => Err(reason(why)),
            None => {
                listing.failed(&format!("{}: {error}", file.path.display()));
                return Ok(());
            }
        },
    };
    listing.file(inode.size.0, counts, || {
        let how = match file.hold {
            Hold::Descriptor(number) => format!("descriptor {number}"),
            Hold::Mapping => "mapped".to_owned(),
        };
        Found {
            identity: Some(Identity::from(&inode)),
            link: Some(file.link.clone()),
            note: Some(match (file.deleted, counts) {
                (_, Err(reason)) => format!("{how}; {reason}"),
                (true, _) => format!("{how}, deleted"),
                (false, _) => how,
            }),
            ..Found::new(file.path.clone(), inode.size.0, counts)
        }
    })
}
