//! Groups of programs that a kernel may do without, and what is missing then.

use cachewise_kstat::{Kernel, Mounts};
use cachewise_model::Counter;

use crate::options::Options;

/// Programs that a kernel may do without, and what is not counted then.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// Each program with the tracepoint that it needs.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// Counters that mean nothing without it.
    pub(crate) counters: &'static [Counter],
    /// Shown to the user as the reason.
    pub(crate) reason: &'static str,
    /// Only needed for files of this file system.
    file_system: Option<FileSystem>,
}

/// A file system whose own events tell of buffered writes.
struct FileSystem {
    /// Its types in mountinfo.
    types: &'static [&'static str],
    /// Its statfs(2) magic number.
    magic: u64,
}

impl FileSystem {
    fn is_mounted(&self, mounts: &Mounts) -> bool {
        mounts
            .as_slice()
            .iter()
            .any(|mount| self.types.contains(&mount.fs_type.as_str()))
    }
}

impl Group {
    /// Counters that mean nothing now. Of a file system that is not mounted nothing is missing: a kernel
    /// without its module has neither files of it nor its tracepoints.
    pub(crate) fn counters_missing(&self) -> &'static [Counter] {
        let Some(system) = &self.file_system else {
            return self.counters;
        };
        match Kernel::new().mounts(None) {
            Ok(mounts) if !system.is_mounted(&mounts) => &[],
            _ => self.counters,
        }
    }

    /// The statfs(2) magic number of the file system whose writes it tells of.
    pub(crate) fn file_system_magic(&self) -> Option<u64> {
        self.file_system.as_ref().map(|system| system.magic)
    }

    pub(crate) fn has(&self, program: &str) -> bool {
        self.programs.iter().any(|(name, _)| *name == program)
    }
}

const WRITES: &[Counter] = &[
    Counter::WriteRequests,
    Counter::WritePages,
    Counter::WriteBytes,
];
const DIRECT: &[Counter] = &[
    Counter::DirectReadRequests,
    Counter::DirectReadBytes,
    Counter::DirectWriteRequests,
    Counter::DirectWriteBytes,
];

pub(crate) const GROUPS: [Group; 7] = [
    Group {
        name: "read-ahead ranges",
        programs: &[
            ("on_sync_readahead", "page_cache_sync_ra"),
            ("on_async_readahead", "page_cache_async_ra"),
        ],
        counters: &[],
        reason: "without the readahead tracepoints (6.18) misses of io_uring's worker threads count as read-ahead",
        file_system: None,
    },
    Group {
        name: "direct I/O on files",
        programs: &[
            ("on_direct_begin", "iomap_dio_rw_begin"),
            ("on_direct_complete", "iomap_dio_complete"),
        ],
        counters: DIRECT,
        reason: "this kernel refuses the iomap_dio tracepoints (6.6 and later)",
        file_system: None,
    },
    Group {
        name: "direct I/O on block devices",
        programs: &[("on_bio", "block_bio_queue")],
        counters: DIRECT,
        reason: "this kernel refuses the block_bio_queue tracepoint",
        file_system: None,
    },
    Group {
        name: "io_uring requests",
        programs: &[("on_uring_submit", "io_uring_submit_req")],
        counters: &[],
        reason: "without the io_uring tracepoint reads through io_uring are counted by batch",
        file_system: None,
    },
    Group {
        name: "writes on ext4",
        programs: &[
            ("on_ext4_write", "ext4_da_write_begin"),
            ("on_ext4_write", "ext4_write_begin"),
        ],
        counters: WRITES,
        reason: "this kernel has no ext4 write tracepoints to attach to",
        file_system: Some(FileSystem {
            types: &["ext2", "ext3", "ext4"],
            magic: 0xEF53,
        }),
    },
    Group {
        name: "writes on xfs",
        programs: &[("on_xfs_write", "xfs_file_buffered_write")],
        counters: WRITES,
        reason: "this kernel has no xfs write tracepoint to attach to",
        file_system: Some(FileSystem {
            types: &["xfs"],
            magic: 0x5846_5342,
        }),
    },
    Group {
        name: "writes on btrfs",
        programs: &[
            ("on_btrfs_write", "btrfs_set_extent_bit"),
            ("on_btrfs_dirty", "writeback_dirty_folio"),
        ],
        counters: WRITES,
        reason: "this kernel has no btrfs extent tracepoint to attach to",
        file_system: Some(FileSystem {
            types: &["btrfs"],
            magic: 0x9123_683E,
        }),
    },
];

/// Groups that no mounted file system would need.
pub(crate) fn needless_groups(options: &Options) -> Vec<&'static Group> {
    // If the mounts cannot be read, everything may be mounted.
    let Some(mounts) = options
        .mounted_only
        .then(|| Kernel::new().mounts(None).ok())
        .flatten()
    else {
        return Vec::new();
    };
    let is_needless = |group: &&Group| {
        group
            .file_system
            .as_ref()
            .is_some_and(|system| !system.is_mounted(&mounts))
    };
    GROUPS.iter().filter(is_needless).collect()
}
