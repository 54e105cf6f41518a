//! Lists of directories of published trees, as the kernel reads them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fuser::{Errno, FileType, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::attributes::file_type;
use super::filesystem::{GENERATION, errno};
use super::fixed::{Fixed, Place};
use super::inodes::{Inode, ROOT};
use super::report::REPORT;
use super::shared::{MountShared, own_meta};
use crate::Error;
use crate::published::address::Ref;
use crate::published::attributes::Attributes;
use crate::published::leaf::{Leaf, Leaves};
use crate::published::meta::kind;

/// Objects behind `.` and `..` are counted by offsets below this one. An offset behind them has the number of a part
/// and the number of an object in it.
const PARTS: u64 = 1 << 32;

/// Maximum bytes of the lists that are read ahead for one list.
const READ_AHEAD: u64 = 1 << 20;

/// Returns the objects that the kernel knows.
pub(super) fn fixed(shared: &MountShared) -> &Fixed {
    let fixed = shared.fixed.as_ref();
    fixed.unwrap_or_else(|| unreachable!("this file system serves published trees alone"))
}

pub(super) fn trees(shared: &MountShared) -> &dyn Leaves {
    let leaves = shared.cache.leaves();
    leaves.unwrap_or_else(|| unreachable!("this file system serves published trees alone"))
}

/// Returns an object of the mount itself.
pub(super) fn own(shared: &MountShared, number: u64) -> Option<Arc<Inode>> {
    shared.inodes.get(number)
}

/// Returns the topmost chunk of a directory; `None` for another object.
pub(super) async fn directory(shared: &MountShared, number: u64) -> Result<Option<Ref>, Error> {
    let root = shared.inodes.root();
    fixed(shared).directory(trees(shared), &root, number).await
}

/// Returns what a number stands for, as [`Fixed::place`] does.
pub(super) async fn place(shared: &MountShared, number: u64) -> Result<Option<Place>, Error> {
    let root = shared.inodes.root();
    fixed(shared).place(trees(shared), &root, number).await
}

/// Returns the extended attributes of an object.
pub(super) async fn attributes(shared: &MountShared, number: u64) -> Result<Attributes, Error> {
    let place = place(shared, number).await?;
    let Some(stored) = place.and_then(|place| place.view()?.attributes()) else {
        return Ok(Attributes::default());
    };
    trees(shared).attributes(&stored).await
}

/// Finds a name in a directory.
pub(super) async fn find(
    shared: &MountShared,
    parent: u64,
    name: &OsStr,
) -> Result<Option<Place>, Error> {
    let Some(top) = directory(shared, parent).await? else {
        return Ok(None);
    };
    let leaf = trees(shared).leaf_of(&top, name.as_bytes()).await?;
    Ok(leaf.and_then(|leaf| {
        let at = leaf.find(name.as_bytes())?;
        Place::new(leaf, at)
    }))
}

/// Answers with names and kinds.
pub(super) async fn list(
    shared: &MountShared,
    number: u64,
    parts: Option<&[Ref]>,
    offset: u64,
    mut reply: ReplyDirectory,
) {
    let dots = dots(shared, number);
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    for (at, (name, number)) in dots.into_iter().enumerate().skip(skipped) {
        let next = next_dot(at);
        let _ = reply.add(INodeNo(number), next, FileType::Directory, name);
    }
    let Some(parts) = parts else {
        if offset <= 2 && own(shared, number).is_some() {
            let _ = reply.add(INodeNo(1), PARTS, FileType::RegularFile, report_name());
        }
        return reply.ok();
    };
    let mut position = position(offset);
    let mut is_empty = offset >= 2;
    while let Some((leaf, from)) = match leaf_at(shared, parts, position).await {
        Ok(leaf) => leaf,
        Err(error) if is_empty => return reply.error(errno(&error)),
        // The next call begins with it, and gets the error.
        Err(_) => None,
    } {
        for view in leaf.views(from) {
            position.1 = position.1.saturating_add(1);
            let kind = file_type(kind(view.kind));
            let (number, name) = (INodeNo(view.inode), OsStr::from_bytes(view.name));
            if reply.add(number, offset_of(position), kind, name) {
                return reply.ok();
            }
            is_empty = false;
        }
        position = (position.0.saturating_add(1), 0);
    }
    reply.ok();
}

/// Answers with names and attributes.
pub(super) async fn list_with_attributes(
    shared: &Arc<MountShared>,
    directory: u64,
    parts: Option<&[Ref]>,
    offset: u64,
    mut reply: ReplyDirectoryPlus,
) {
    let owner = shared.owner();
    let dots = dots(shared, directory);
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    for (at, (name, number)) in dots.into_iter().enumerate().skip(skipped) {
        // The kernel takes their numbers alone.
        let attributes = owner.attributes(number, &own_meta(&Bytes::new(), true));
        let (zero, next) = (Duration::ZERO, next_dot(at));
        let _ = reply.add(INodeNo(number), next, name, &zero, &attributes, GENERATION);
    }
    let Some(parts) = parts else {
        if offset <= 2
            && let Some(report) = shared.own(directory, report_name())
        {
            let attributes = shared.attributes(&report);
            let number = INodeNo(report.number);
            let (name, zero) = (report_name(), Duration::ZERO);
            let _ = reply.add(number, PARTS, name, &zero, &attributes, GENERATION);
        }
        return reply.ok();
    };
    let fixed = fixed(shared);
    let mut position = position(offset);
    let mut is_empty = offset >= 2;
    while let Some((leaf, from)) = match leaf_at(shared, parts, position).await {
        Ok(leaf) => leaf,
        Err(error) if is_empty => return reply.error(errno(&error)),
        // The next call begins with it, and gets the error.
        Err(_) => None,
    } {
        if from == 0 {
            read_ahead(shared, &leaf);
        }
        let mut nodes = fixed.nodes();
        for (at, view) in leaf.views(from).enumerate() {
            let at = from.saturating_add(at);
            let Some(place) = Place::new(Arc::clone(&leaf), at) else {
                return reply.error(Errno::EIO);
            };
            position.1 = position.1.saturating_add(1);
            let number = nodes.number(&place, &view);
            let attributes = fixed.attributes(owner, number, &view);
            let name = OsStr::from_bytes(view.name);
            let (next, time) = (offset_of(position), &shared.revalidate);
            if reply.add(INodeNo(number), next, name, time, &attributes, GENERATION) {
                // No room for this one: the kernel did not get it.
                drop(nodes);
                return reply.ok();
            }
            nodes.hold(number, &place, directory);
            is_empty = false;
        }
        position = (position.0.saturating_add(1), 0);
    }
    reply.ok();
}

fn report_name() -> &'static OsStr {
    OsStr::new(REPORT.rsplit('/').next().unwrap_or(REPORT))
}

/// Returns `.` and `..` with their numbers.
fn dots(shared: &MountShared, number: u64) -> [(&'static OsStr, u64); 2] {
    let above = fixed(shared).parent(number).unwrap_or(ROOT);
    [(OsStr::new("."), number), (OsStr::new(".."), above)]
}

/// Returns the offset behind `.` or `..`.
fn next_dot(at: usize) -> u64 {
    u64::try_from(at).unwrap_or(0).saturating_add(1)
}

/// Returns the number of a part, and of an object in it, at which an offset is.
fn position(offset: u64) -> (u64, u64) {
    match offset.checked_sub(PARTS) {
        Some(behind) => (behind / PARTS, behind % PARTS),
        None => (0, 0),
    }
}

/// Returns the offset of a position.
fn offset_of((part, at): (u64, u64)) -> u64 {
    part.saturating_add(1)
        .saturating_mul(PARTS)
        .saturating_add(at)
}

/// Returns a part of a directory, and the object in it to begin with; `None` behind the last.
async fn leaf_at(
    shared: &MountShared,
    parts: &[Ref],
    (part, at): (u64, u64),
) -> Result<Option<(Arc<Leaf>, usize)>, Error> {
    let part = usize::try_from(part).ok().and_then(|part| parts.get(part));
    let Some(part) = part else {
        return Ok(None);
    };
    let leaf = trees(shared).leaf(part).await?;
    Ok(Some((leaf, usize::try_from(at).unwrap_or(usize::MAX))))
}

/// Reads the lists of directories in the background: a program that has listed a directory often lists those in it next.
fn read_ahead(shared: &Arc<MountShared>, leaf: &Leaf) {
    let mut length = 0_u64;
    let directories = leaf.views(0).filter_map(|view| view.directory());
    let ahead: Vec<Ref> = directories
        .take_while(|top| {
            length = length.saturating_add(u64::from(top.len));
            length <= READ_AHEAD
        })
        .collect();
    if ahead.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    shared.runtime.clone().spawn(async move {
        for top in ahead {
            // A list that cannot be read fails again where it is needed.
            let _ = trees(&shared).leaf(&top).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_leads_to_the_object_behind_the_last_one() {
        for offset in [0, 1, 2] {
            assert_eq!(position(offset), (0, 0), "before the first object");
        }
        for place in [(0, 0), (0, 7), (3, 0), (4_000, 1_000)] {
            assert_eq!(position(offset_of(place)), place);
        }
        assert!(offset_of((u64::from(u16::MAX), 1_000)) < 1 << 63, "off_t");
    }
}
