//! Groups of programs that a kernel may do without, and what is missing then.

use cachewise_kstat::{Kernel, Mounts};
use cachewise_model::{Counter, Reason};

use crate::back_end::BackEnd;
use crate::options::Options;

/// A tracepoint whose program learns from a cookie which of its two it is at. It is younger than cookies are.
pub(crate) const ASYNC_READAHEAD: &str = "page_cache_async_ra";

/// Programs that a kernel may do without, and what is not counted then.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// The ways to have what they tell, best first.
    pub(crate) means: &'static [Means],
    /// Counters that mean nothing without it.
    pub(crate) counters: &'static [Counter],
    /// Shown to the user as the reason.
    pub(crate) reason: Reason,
    /// Only needed for files of this file system.
    file_system: Option<FileSystem>,
}

/// One way to have what a group tells.
pub(crate) struct Means {
    pub(crate) back_end: BackEnd,
    /// Each program with the tracepoint or function that it hooks into.
    pub(crate) programs: &'static [(&'static str, &'static str)],
    /// Programs for functions that not every kernel with the others has.
    pub(crate) where_there: &'static [(&'static str, &'static str)],
    /// A name among the kernel's types without which its events do not mean what they are taken for.
    pub(crate) wants: Option<&'static str>,
    /// Shown to the user where it is used.
    pub(crate) note: Option<&'static str>,
}

impl Means {
    const fn new(back_end: BackEnd, programs: &'static [(&'static str, &'static str)]) -> Self {
        Means {
            back_end,
            programs,
            where_there: &[],
            wants: None,
            note: None,
        }
    }

    const fn and_where_there(mut self, programs: &'static [(&'static str, &'static str)]) -> Self {
        self.where_there = programs;
        self
    }

    const fn wanting(mut self, name: &'static str) -> Self {
        self.wants = Some(name);
        self
    }

    const fn noting(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }

    pub(crate) fn has(&self, program: &str) -> bool {
        let all = self.programs.iter().chain(self.where_there);
        all.map(|(name, _)| *name).any(|name| name == program)
    }

    /// The tracepoints or functions that a program of the group hooks into.
    pub(crate) fn targets(&self, program: &str) -> impl Iterator<Item = &'static str> {
        let all = self.programs.iter().chain(self.where_there);
        all.filter(move |(name, _)| *name == program)
            .map(|(_, target)| *target)
    }
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
    /// Counters that are missing without the group. None if no file system of its kind is mounted: a kernel without the
    /// module has neither files nor tracepoints of it.
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

    pub(crate) fn is_reads(&self) -> bool {
        self.name == READS
    }

    pub(crate) fn has(&self, program: &str) -> bool {
        self.means.iter().any(|means| means.has(program))
    }
}

const FAULTS: &[Counter] = &[
    Counter::FaultRequests,
    Counter::FaultMissPages,
    Counter::FaultReadaheadPages,
];
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

const TIMES_GROUP: &str = "times of tasks";

/// Without it there is no probe.
const READS: &str = "reads";

pub(crate) const GROUPS: [Group; 11] = [
    Group {
        name: READS,
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[("on_get_pages", "mm_filemap_get_pages")],
            ),
            Means::new(
                BackEnd::Fentry,
                &[
                    ("on_read_fentry", "filemap_read"),
                    ("on_read_fexit", "filemap_read"),
                ],
            )
            .and_where_there(&[
                ("on_splice_fentry", "filemap_splice_read"),
                ("on_splice_fexit", "filemap_splice_read"),
            ]),
            Means::new(
                BackEnd::Kprobes,
                &[
                    ("on_read_kprobe", "filemap_read"),
                    ("on_read_kretprobe", "filemap_read"),
                ],
            )
            .and_where_there(&[
                ("on_splice_kprobe", "filemap_splice_read"),
                ("on_splice_kretprobe", "filemap_splice_read"),
            ]),
            Means::new(BackEnd::SysExit, &[("on_sys_exit", "sys_exit")]).noting(
                "reads are counted at the end of system calls: those by libaio, of 32-bit programs, on \
                 overlayfs, and direct ones that fall back to the cache are not seen",
            ),
        ],
        counters: &[],
        reason: Reason::NoReadEvent,
        file_system: None,
    },
    Group {
        name: "faults on mapped files",
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_map_pages", "mm_filemap_map_pages"),
                    ("on_fault", "mm_filemap_fault"),
                ],
            ),
            Means::new(
                BackEnd::Fentry,
                &[
                    ("on_map_pages_fentry", "filemap_map_pages"),
                    ("on_fault_fentry", "filemap_fault"),
                ],
            ),
            Means::new(
                BackEnd::Kprobes,
                &[
                    ("on_map_pages_kprobe", "filemap_map_pages"),
                    ("on_fault_kprobe", "filemap_fault"),
                ],
            ),
        ],
        counters: FAULTS,
        reason: Reason::NoFaultEvent,
        file_system: None,
    },
    Group {
        name: "read-ahead ranges",
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_readahead", "page_cache_sync_ra"),
                    ("on_readahead", ASYNC_READAHEAD),
                ],
            ),
            Means::new(
                BackEnd::Fentry,
                &[
                    ("on_sync_ra_fentry", "page_cache_sync_ra"),
                    ("on_async_ra_fentry", "page_cache_async_ra"),
                ],
            ),
            Means::new(
                BackEnd::Kprobes,
                &[
                    ("on_sync_ra_kprobe", "page_cache_sync_ra"),
                    ("on_async_ra_kprobe", "page_cache_async_ra"),
                ],
            ),
        ],
        counters: &[],
        reason: Reason::NoReadaheadEvent,
        file_system: None,
    },
    Group {
        name: "direct I/O on files",
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_direct_begin", "iomap_dio_rw_begin"),
                    ("on_direct_complete", "iomap_dio_complete"),
                ],
            ),
            Means::new(
                BackEnd::Kprobes,
                &[
                    ("on_direct_begin_kprobe", "__iomap_dio_rw"),
                    ("on_direct_complete_kprobe", "iomap_dio_complete"),
                ],
            ),
        ],
        counters: DIRECT,
        reason: Reason::NoDirectIoEvent,
        file_system: None,
    },
    Group {
        name: "direct I/O on block devices",
        means: &[
            // The flag's number meant something else before 6.5.
            Means::new(BackEnd::Tracepoints, &[("on_bio", "block_bio_queue")])
                .wanting("BIO_PAGE_PINNED"),
            Means::new(
                BackEnd::Fentry,
                &[
                    ("on_device_read_fentry", "blkdev_read_iter"),
                    ("on_device_read_fexit", "blkdev_read_iter"),
                    ("on_device_write_fentry", "blkdev_write_iter"),
                    ("on_device_write_fexit", "blkdev_write_iter"),
                ],
            ),
            Means::new(
                BackEnd::Kprobes,
                &[
                    ("on_device_read_kprobe", "blkdev_read_iter"),
                    ("on_device_read_kretprobe", "blkdev_read_iter"),
                    ("on_device_write_kprobe", "blkdev_write_iter"),
                    ("on_device_write_kretprobe", "blkdev_write_iter"),
                ],
            ),
        ],
        counters: DIRECT,
        reason: Reason::NoBlockEvent,
        file_system: None,
    },
    Group {
        name: "io_uring requests",
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_uring_submit", "io_uring_submit_req"),
                    ("on_uring_complete", "io_uring_complete"),
                ],
            ),
            // Its name before 6.4.
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_uring_submit", "io_uring_submit_sqe"),
                    ("on_uring_complete", "io_uring_complete"),
                ],
            ),
        ],
        counters: &[],
        reason: Reason::NoIoUringEvent,
        file_system: None,
    },
    Group {
        name: "causes of reclaim",
        means: &[
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_group_reclaim", "mm_vmscan_memcg_reclaim_begin"),
                    ("on_reclaim_end", "mm_vmscan_memcg_reclaim_end"),
                    ("on_direct_reclaim", "mm_vmscan_direct_reclaim_begin"),
                    ("on_reclaim_end", "mm_vmscan_direct_reclaim_end"),
                    ("on_direct_reclaim", "mm_vmscan_node_reclaim_begin"),
                    ("on_reclaim_end", "mm_vmscan_node_reclaim_end"),
                ],
            ),
            // Without control groups for memory.
            Means::new(
                BackEnd::Tracepoints,
                &[
                    ("on_direct_reclaim", "mm_vmscan_direct_reclaim_begin"),
                    ("on_reclaim_end", "mm_vmscan_direct_reclaim_end"),
                ],
            ),
        ],
        counters: &[],
        reason: Reason::NoReclaimEvent,
        file_system: None,
    },
    Group {
        name: TIMES_GROUP,
        means: &[Means::new(
            BackEnd::Tracepoints,
            &[
                ("on_switch", "sched_switch"),
                ("on_wake", "sched_wakeup"),
                ("on_throttle", "balance_dirty_pages"),
            ],
        )],
        counters: &Counter::TIMES,
        reason: Reason::NoSwitchEvent,
        file_system: None,
    },
    Group {
        name: "writes on ext4",
        means: &[Means::new(
            BackEnd::Tracepoints,
            &[
                ("on_ext4_write", "ext4_da_write_begin"),
                ("on_ext4_write", "ext4_write_begin"),
            ],
        )],
        counters: WRITES,
        reason: Reason::NoExt4Event,
        file_system: Some(FileSystem {
            types: &["ext2", "ext3", "ext4"],
            magic: 0xEF53,
        }),
    },
    Group {
        name: "writes on xfs",
        means: &[Means::new(
            BackEnd::Tracepoints,
            &[("on_xfs_write", "xfs_file_buffered_write")],
        )],
        counters: WRITES,
        reason: Reason::NoXfsEvent,
        file_system: Some(FileSystem {
            types: &["xfs"],
            magic: 0x5846_5342,
        }),
    },
    Group {
        name: "writes on btrfs",
        means: &[Means::new(
            BackEnd::Tracepoints,
            &[
                ("on_btrfs_write", "btrfs_set_extent_bit"),
                ("on_btrfs_dirty", "writeback_dirty_folio"),
            ],
        )],
        counters: WRITES,
        reason: Reason::NoBtrfsEvent,
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

/// The way that is taken to have what a group tells.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) group: &'static Group,
    pub(crate) means: &'static Means,
}

impl Chosen {
    pub(crate) fn is_reads(&self) -> bool {
        self.group.is_reads()
    }
}
