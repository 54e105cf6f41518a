//! Result of a census: [`Report`], [`Summary`], and the sums of the kernel.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cachewise_kstat::Kernel;
use cachewise_units::Pages;

use super::inode::{self, CachedInode, Identity};
use crate::error::Error;

/// The page cache as a whole, as `/proc/meminfo` divides it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Files, shared memory included: `Cached`.
    pub cached: Pages,
    /// Block devices: `Buffers`.
    pub buffers: Pages,
}

impl Sums {
    /// The kernel's own sums, to be set beside those of a census. Each CPU keeps small changes to itself;
    /// root can have them added up first (`vm.stat_refresh`), for others they are off by some dozens of pages
    /// for each CPU.
    ///
    /// # Errors
    /// What reading `/proc/meminfo` says.
    pub fn of_kernel(kernel: &Kernel) -> Result<Sums, cachewise_kstat::Error> {
        // Reading the setting makes the kernel add up its counters. Without permission they are slightly off.
        drop(kernel.setting("vm.stat_refresh"));
        let memory = kernel.meminfo()?;
        let page = cachewise_sys::page_size();
        Ok(Sums {
            cached: memory.cached.pages_floor(page),
            buffers: memory.buffers.pages_floor(page),
        })
    }

    fn add(&mut self, inode: &CachedInode) {
        match &*inode.file_system {
            "bdev" => self.buffers += inode.pages,
            // Huge pages are taken from a pool, and are not in any of the kernel's sums.
            "hugetlbfs" => {}
            _ => self.cached += inode.pages,
        }
    }
}

/// Parts of the machine that a census could not visit. None, unless file systems or files change faster than it walks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Missed {
    /// Some file systems were not visited: there are more than 16,384, or they changed all the time.
    pub super_blocks: bool,
    /// The walk was broken off: it had to go back so often that it visited eight times the inodes there are.
    pub rest: bool,
}

impl Missed {
    /// Returns whether nothing was missed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Missed::default()
    }
}

/// A census in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Selected inodes that were found.
    pub found: u64,
    /// Their pages, summed up as the kernel does; `None` for [`Select::Evicted`](super::Select::Evicted).
    pub sums: Option<Sums>,
    /// Parts that were not visited; their pages are missing in the sums.
    pub missed: Missed,
    /// Super blocks of this machine: file systems, mounted or the kernel's own.
    pub super_blocks: u64,
    /// Inodes visited, with and without pages; once more for each time that the walk went back over them.
    pub visited: u64,
    /// Inodes found more than once, and left out.
    pub duplicates: u64,
    /// Times that an inode was deleted just where the walk was, so that it went back a little.
    pub recoveries: u64,
    /// Number of returns to the beginning of a list, because too many inodes were deleted.
    pub restarts: u64,
    /// Runs in the kernel.
    pub runs: u64,
    /// The time of all of them.
    pub kernel_time: Duration,
    /// The longest of them.
    pub longest_run: Duration,
    /// Duration of the census.
    pub elapsed: Duration,
}

impl Summary {
    /// Returns whether the census missed something.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.missed.is_nothing()
    }
}

/// A whole census.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// In no particular order.
    pub inodes: Vec<CachedInode>,
    /// In numbers.
    pub summary: Summary,
}

/// Takes the records as they come, leaves out duplicates, and passes the others on.
pub(super) struct Receiver<F> {
    each: F,
    /// Inodes of the super block being walked; those of other super blocks cannot come again.
    seen: HashSet<Identity>,
    super_block: u32,
    file_system: Arc<str>,
    sums: Sums,
    found: u64,
    duplicates: u64,
    bad: Option<Error>,
}

impl<F: FnMut(CachedInode)> Receiver<F> {
    pub(super) fn new(each: F) -> Self {
        Receiver {
            each,
            seen: HashSet::new(),
            super_block: u32::MAX,
            file_system: "".into(),
            sums: Sums::default(),
            found: 0,
            duplicates: 0,
            bad: None,
        }
    }

    /// One record of the ring. Returns 0, as libbpf wants it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> i32 {
        match inode::record(bytes) {
            Err(error) => self.bad = Some(error),
            Ok(raw) => {
                let head = inode::head(raw);
                if head.super_block != self.super_block {
                    self.super_block = head.super_block;
                    self.seen.clear();
                    self.file_system = inode::file_system(raw);
                }
                if self.seen.insert(head.identity) {
                    let inode = inode::inode(raw, Arc::clone(&self.file_system));
                    self.found += 1;
                    self.sums.add(&inode);
                    (self.each)(inode);
                } else {
                    self.duplicates += 1;
                }
            }
        }
        0
    }

    pub(super) fn finish(self) -> Result<Summary, Error> {
        if let Some(error) = self.bad {
            return Err(error);
        }
        Ok(Summary {
            found: self.found,
            duplicates: self.duplicates,
            sums: Some(self.sums),
            ..Summary::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::super::skeleton::types;
    use super::*;

    fn record(super_block: u32, address: u64, generation: u32, fs_type: &str) -> Vec<u8> {
        let mut bytes = vec![0; offset_of!(types::cached_inode, names)];
        let mut put = |offset: usize, value: &[u8]| {
            bytes[offset..offset + value.len()].copy_from_slice(value);
        };
        put(
            offset_of!(types::cached_inode, super_block),
            &super_block.to_ne_bytes(),
        );
        put(
            offset_of!(types::cached_inode, address),
            &address.to_ne_bytes(),
        );
        put(
            offset_of!(types::cached_inode, id.generation),
            &generation.to_ne_bytes(),
        );
        put(offset_of!(types::cached_inode, pages), &3u64.to_ne_bytes());
        put(offset_of!(types::cached_inode, fs_type), fs_type.as_bytes());
        bytes
    }

    #[test]
    fn an_inode_that_comes_again_is_counted_once() {
        let mut found = Vec::new();
        let mut receiver = Receiver::new(|inode: CachedInode| found.push(inode.file_system));
        for (super_block, address, generation, fs_type) in [
            (0, 8, 1, "ext4"),
            (0, 16, 1, "ext4"),
            (0, 8, 1, "ext4"),
            // The same memory: another file by now, and one of another file system.
            (0, 8, 2, "ext4"),
            (1, 8, 1, "bdev"),
            (2, 8, 1, "hugetlbfs"),
        ] {
            receiver.take(&record(super_block, address, generation, fs_type));
        }
        let summary = receiver.finish().unwrap();
        assert_eq!(
            (summary.found, summary.duplicates),
            (5, 1),
            "one came twice"
        );
        let sums = summary.sums.unwrap();
        assert_eq!(
            (sums.cached, sums.buffers),
            (Pages(9), Pages(3)),
            "block devices are Buffers, huge pages are neither"
        );
        assert_eq!(&*found[3], "bdev", "the type is that of the inode's own");
    }

    #[test]
    fn a_record_that_is_too_short_makes_it_fail() {
        let mut receiver = Receiver::new(|_| panic!("there is nothing to pass on"));
        receiver.take(&[0; 10]);
        assert!(receiver.finish().is_err(), "a bug is not passed over");
    }
}
