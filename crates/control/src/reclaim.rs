//! [`reclaim`]: has the kernel take memory from a group now.

use std::io;
use std::path::Path;

use cachewise_kstat::{CgroupFiles, Hierarchy};
use cachewise_units::Bytes;

use crate::{Error, file};

/// What came of asking for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// What was charged to the group before.
    pub before: Bytes,
    /// And after: others may have used more of it meanwhile.
    pub after: Bytes,
    /// The kernel says that it could not take all that was asked for.
    pub fell_short: bool,
}

impl Reclaimed {
    /// Returns how much less is charged to the group than before.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.before.saturating_sub(self.after)
    }
}

/// Takes so much memory from the group of this directory; all that can be had with version 1, which cannot
/// be asked for less.
///
/// # Errors
/// [`Error::Unsupported`] where this kernel has no file for it; else what writing to it says.
///
/// # Kernel
/// Version 2: `memory.reclaim`, since 5.19. Version 1: `memory.force_empty`. Both swap, where there is swap.
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
                reason: format!("there is no {name}; with version 2 it takes Linux 5.19"),
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
