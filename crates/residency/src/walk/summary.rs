//! [`Summary`]: the counts of a walk.

use std::collections::BTreeMap;

use crate::Unknown;

/// Counts of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Files that were asked about, the unknown ones included.
    pub files: u64,
    /// Files of those whose residency is unknown, by the reason.
    pub unknown: BTreeMap<&'static str, u64>,
    /// Directories that were looked into.
    pub directories: u64,
    /// Further names of files that were met already.
    pub links: u64,
    /// Symbolic links, FIFOs, sockets and devices in directories, which have no pages.
    pub special: u64,
    /// Files and directories that the patterns leave out.
    pub excluded: u64,
    /// Directories on other file systems that were left out, or on ones that the kernel makes up.
    pub elsewhere: u64,
    /// Files and directories that were gone when their turn came. They were handed over as skipped.
    pub vanished: u64,
    /// Roots, files and directories that could not be looked at for another reason; handed over as skipped.
    pub failed: u64,
}

impl Summary {
    pub(super) fn count_unknown(&mut self, why: Unknown) {
        *self.unknown.entry(why.id()).or_default() += 1;
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        for (id, count) in other.unknown {
            *self.unknown.entry(id).or_default() += count;
        }
        self.files += other.files;
        self.directories += other.directories;
        self.links += other.links;
        self.special += other.special;
        self.excluded += other.excluded;
        self.elsewhere += other.elsewhere;
        self.vanished += other.vanished;
        self.failed += other.failed;
        self
    }
}
