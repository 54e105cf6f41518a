//! [`reclaim`]: makes the kernel reclaim memory of a group now.

use std::io;
use std::path::Path;

use cachewise_kstat::{CgroupFiles, Hierarchy};
use cachewise_units::Bytes;

use crate::{Error, file};

/// Result of a reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// Memory charged to the group before.
    pub before: Bytes,
    /// Memory charged to the group after; others may have used more of it meanwhile.
    pub after: Bytes,
    /// The kernel reports that it could not reclaim the requested amount.
    pub fell_short: bool,
}

impl Reclaimed {
    /// Returns by how much the charge fell.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.before.saturating_sub(self.after)
    }
}

/// Reclaims this much memory of the group in this directory; version 1 reclaims all it can, because
/// its file takes no amount.
///
/// # Errors
/// [`Error::Unsupported`] if this kernel has no file for it; [`Error::Io`] if writing to it fails.
///
/// # Kernel
/// Version 2: `memory.reclaim`, since 5.19. Version 1: `memory.force_empty`. Both swap if there is
/// swap.
pub fn reclaim(hierarchy: &Hierarchy, group: &Path, bytes: Bytes) -> Result<Reclaimed, Error> {
    let (name, value) = match hierarchy {
        Hierarchy::V1Memory { .. } => ("memory.force_empty", "0".to_owned()),
        _ => ("memory.reclaim", bytes.0.to_string()),
    };
    let path = group.join(name);
    let used = || {
        Ok::<_, Error>(
            CgroupFiles::once(group)
                .memory_used(hierarchy)?
                .unwrap_or_default(),
        )
    };
    let before = used()?;
    let fell_short = match file::write(&path, &value) {
        Ok(()) => false,
        Err(Error::Io { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
            ) =>
        {
            true
        }
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Unsupported {
                what: format!("reclaim memory of {}", group.display()),
                reason: format!("it has no {name}; with version 2 this needs Linux 5.19"),
            });
        }
        Err(error) => return Err(error),
    };
    Ok(Reclaimed {
        before,
        after: used()?,
        fell_short,
    })
}
