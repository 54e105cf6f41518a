//! The bytes of a file of /sys/kernel/btf.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file's bytes: the kernel's own pages where it lets them be mapped (6.16 and later), which saves
/// copying 5 MiB; or a copy.
#[derive(Debug)]
pub(super) enum Contents {
    Mapped { start: *mut u8, length: usize },
    Copied(Vec<u8>),
}

// SAFETY: only this value owns the mapping, which is never written to.
unsafe impl Send for Contents {}
// SAFETY: as above.
unsafe impl Sync for Contents {}

impl Contents {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        // SAFETY: a new private mapping at a place of the kernel's choice touches nothing that exists.
        let mapped = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                &file,
                0,
            )
        };
        if let Ok(start) = mapped {
            return Ok(Self::Mapped {
                start: start.cast(),
                length,
            });
        }
        let mut bytes = Vec::with_capacity(length + 1);
        file.read_to_end(&mut bytes)?;
        Ok(Self::Copied(bytes))
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: mapped for reading over this length until `drop`; the kernel's description of
            // itself is never written after boot, and a module's goes with its file.
            Self::Mapped { start, length } => unsafe {
                std::slice::from_raw_parts(*start, *length)
            },
            Self::Copied(bytes) => bytes,
        }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        if let Self::Mapped { start, length } = *self {
            // SAFETY: made by `mmap` with this length, and all borrows ended with this value.
            // munmap fails only for wrong arguments.
            let _ = unsafe { munmap(start.cast(), length) };
        }
    }
}
