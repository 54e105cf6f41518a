//! [`meta`]: a published object as a mount of any origin knows it.

use std::time::{Duration, SystemTime};

use super::leaf::ItemKind;
use super::stat::Stat;
use crate::{Kind, Meta, Version};

/// Returns the metadata of an object with these numbers, without its blocks and its target.
pub(crate) fn meta(kind: Kind, stat: &Stat, inode: u64, has_acl: bool, version: Version) -> Meta {
    Meta {
        inode,
        links: stat.links,
        blocks: Some(stat.blocks),
        modified: time(stat.modified),
        mode: stat.mode,
        owner: Some(stat.owner),
        has_acl,
        ..Meta::plain(kind, stat.size, version)
    }
}

/// Returns a kind as other origins have it.
pub(crate) fn kind(kind: ItemKind) -> Kind {
    match kind {
        ItemKind::File => Kind::File,
        ItemKind::Directory => Kind::Directory,
        ItemKind::Link => Kind::Link,
        ItemKind::Other => Kind::Other,
    }
}

/// Returns a time of seconds since 1970 and nanoseconds, if this machine can express it.
fn time((seconds, nanos): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}
