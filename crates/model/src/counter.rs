//! The counters, from one table.
//!
//! The order of the table is the order of the row in the kernel: `[u64; Counter::COUNT]` read from
//! a BPF map needs no translation. Add a counter at the end, on both sides; otherwise numbers
//! change places.
//!
//! # Layout
//! - `each_counter!`: the table.
//! - [`Counter`]: the enum made from it; `fields/counters.rs` makes columns of the same rows.

use crate::unit::Unit;

macro_rules! counters {
    ($($variant:ident, $id:literal, $header:literal, [$($also:literal),*], $unit:ident, $help:literal;)+) => {
        /// A number that is kept per process and file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $help] $variant,)+
        }

        impl Counter {
            /// Every counter, in the order of the kernel's row.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),+];

            /// The number of counters: the length of the kernel's row.
            pub const COUNT: usize = Counter::ALL.len();

            /// The name in machine formats, with its unit as suffix.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Counter::$variant => $id,)+ }
            }

            /// The unit.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Counter::$variant => Unit::$unit,)+ }
            }

            /// One sentence for help texts and the `HELP` line of a metric.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Counter::$variant => $help,)+ }
            }
        }
    };
}

/// Hands the table to a macro: variant, id, header, aliases, unit, help.
macro_rules! each_counter {
    ($use:ident) => {
        $use! {
            ReadRequests, "read_requests", "READS", [], Count,
                "Read requests on cached files: read, pread, readv, sendfile, splice, io_uring reads and the like";
            ReadRequestedPages, "read_requested_pages", "REQUESTED", ["read_pages", "total_pages", "total"], Pages,
                "Pages that reads requested, up to the end of the file: hits, misses and unserved pages";
            ReadRequestedBytes, "read_requested_bytes", "READ-REQ", [], Bytes,
                "Bytes that read calls requested through the page cache, up to the end of the file; unknown for the kernel's own reads (execve)";
            ReadMissedPages, "read_missed_pages", "MISSED", ["read_miss_pages", "miss_pages", "misses"], Pages,
                "Requested pages that were not in the page cache and were inserted for that request";
            ReadaheadPages, "readahead_pages", "RA-IN", [], Pages,
                "Pages that reads inserted beyond their request, or again for the same request";
            PrefetchPages, "prefetch_pages", "PREFETCH", [], Pages,
                "Pages inserted by advice: posix_fadvise, readahead, madvise";
            ReadaheadHitPages, "readahead_hit_pages", "AHEAD", ["readahead_used_pages", "readahead"], Pages,
                "Readahead hits: the first read of a page that readahead or prefetch inserted";
            ReadaheadWastedPages, "readahead_wasted_pages", "RA-WASTE", [], Pages,
                "Pages of readahead or prefetch that were evicted before any read";
            ReadaheadCancelledPages, "readahead_cancelled_pages", "RA-CANCEL", [], Pages,
                "Pages of readahead that the file system returned unread";
            FaultRequests, "fault_requests", "FAULTS", [], Count,
                "Page faults on file mappings that consulted the page cache";
            FaultMissPages, "fault_miss_pages", "FLT-MISS", [], Pages,
                "Faulting pages that were not in the page cache";
            FaultReadaheadPages, "fault_readahead_pages", "FLT-RA", [], Pages,
                "Other pages inserted by page faults";
            WriteRequests, "write_requests", "WRITES", [], Count,
                "Write requests through the page cache";
            WritePages, "write_pages", "WR-PAGES", [], Pages,
                "Pages touched by writes through the page cache";
            WriteBytes, "write_bytes", "WRITTEN", [], Bytes,
                "Bytes written through the page cache";
            WriteNewPages, "write_new_pages", "WR-NEW", [], Pages,
                "Pages newly allocated in the page cache by writes";
            DirtiedPages, "dirtied_pages", "DIRTIES", ["dirties_pages"], Pages,
                "Pages that went from clean to dirty";
            DirectReadRequests, "direct_read_requests", "DIO-READS", [], Count,
                "Direct reads (O_DIRECT): they bypass the page cache";
            DirectReadBytes, "direct_read_bytes", "DIO-READ", [], Bytes,
                "Bytes that direct reads moved (O_DIRECT)";
            DirectWriteRequests, "direct_write_requests", "DIO-WRITES", [], Count,
                "Direct writes (O_DIRECT): they bypass the page cache";
            DirectWriteBytes, "direct_write_bytes", "DIO-WRITTEN", [], Bytes,
                "Bytes that direct writes moved (O_DIRECT)";
            EvictedReclaimPages, "evicted_reclaim_pages", "RECLAIMED", [], Pages,
                "Pages that memory reclaim evicted from the page cache";
            EvictedOtherPages, "evicted_other_pages", "DROPPED", [], Pages,
                "Pages that left the page cache otherwise: truncate, unlink, POSIX_FADV_DONTNEED, drop_caches";
            RefaultPages, "refault_pages", "REFAULTS", [], Pages,
                "Refaults: pages inserted again after their eviction";
            MetadataPages, "metadata_pages", "META", [], Pages,
                "Pages inserted on a block device's own mapping: file-system metadata";
            OtherPages, "other_pages", "OTHER", [], Pages,
                "Pages inserted by no known request: kernel threads and the like";
            EventlessRequests, "eventless_requests", "EVENTLESS", [], Count,
                "Read requests known only from the pages that they inserted";
            ReadUnservedPages, "read_unserved_pages", "UNSERVED", [], Pages,
                "Pages requested by reads that ended before they reached them: failed, short or cancelled requests";
            ReadUnservedBytes, "read_unserved_bytes", "RD-UNSERVED", [], Bytes,
                "Bytes requested by reads that did not move: failed, short or cancelled requests";
            ReadFailedRequests, "read_failed_requests", "RD-FAILED", [], Count,
                "Read requests that moved no byte and returned an error";
            WriteUnservedBytes, "write_unserved_bytes", "WR-UNSERVED", [], Bytes,
                "Bytes that buffered writes requested and did not move: failed, short or cancelled requests";
            WriteFailedRequests, "write_failed_requests", "WR-FAILED", [], Count,
                "Buffered write requests that moved no byte and returned an error";
            DirectReadFailedRequests, "direct_read_failed_requests", "DIO-RD-FAIL", [], Count,
                "Direct reads that moved no byte and returned an error";
            DirectWriteFailedRequests, "direct_write_failed_requests", "DIO-WR-FAIL", [], Count,
                "Direct writes that moved no byte and returned an error";
            ReadHitPages, "read_hit_pages", "HITS", ["hit_pages"], Pages,
                "Requested pages that were in the page cache when the read reached them";
            WaitedMissed, "waited_missed_seconds", "W-MISS", [], Seconds,
                "Time that reads waited for pages that they had to fetch";
            WaitedRefault, "waited_refault_seconds", "W-REFAULT", [], Seconds,
                "Time that reads and page faults waited for pages that they had to fetch again after their eviction";
            WaitedInFlight, "waited_in_flight_seconds", "W-FLIGHT", [], Seconds,
                "Time that reads waited for pages that readahead or another task was fetching (delayed hits)";
            WaitedFault, "waited_fault_seconds", "W-FAULT", [], Seconds,
                "Time that page faults on file mappings waited";
            WaitedDirect, "waited_direct_seconds", "W-DIRECT", [], Seconds,
                "Time that direct I/O waited";
            WaitedSync, "waited_sync_seconds", "W-SYNC", [], Seconds,
                "Time that fsync and its like, and synchronous writes, waited";
            WaitedMetadata, "waited_metadata_seconds", "W-META", [], Seconds,
                "Time that tasks waited for a device to read directories, inodes and other metadata";
            WaitedFilesystem, "waited_filesystem_seconds", "W-FS", [], Seconds,
                "Time of other waits in file systems: locks, journals, writeback";
            WaitedThrottle, "waited_throttle_seconds", "W-DIRTY", [], Seconds,
                "Time that writers waited because too much memory was dirty";
            WaitedReclaim, "waited_reclaim_seconds", "W-RECLAIM", [], Seconds,
                "Time that tasks waited in direct reclaim, for themselves or their control group";
            WaitedSwap, "waited_swap_seconds", "W-SWAP", [], Seconds,
                "Time that page faults on other memory waited for a device: swap";
            WaitedAsync, "waited_async_seconds", "W-ASYNC", [], Seconds,
                "Time that tasks waited for asynchronous requests of any kind (io_uring, libaio)";
            WaitedChildren, "waited_children_seconds", "W-CHILD", [], Seconds,
                "Time that tasks waited for their child processes";
            WaitedLock, "waited_lock_seconds", "W-LOCK", [], Seconds,
                "Time that tasks waited for locks and other threads (futex, flock, semaphores)";
            WaitedPeer, "waited_peer_seconds", "W-PEER", [], Seconds,
                "Time that tasks waited for other programs: pipes, sockets, terminals, poll";
            Slept, "slept_seconds", "SLEPT", [], Seconds,
                "Time that tasks slept until a time of their choice";
            WaitedOther, "waited_other_seconds", "W-OTHER", [], Seconds,
                "Time of waits of no known kind";
            RunQueue, "run_queue_seconds", "W-CPU", [], Seconds,
                "Time that tasks waited for a CPU, as the kernel accounts it";
            FetchCpu, "fetch_cpu_seconds", "FETCH-CPU", [], Seconds,
                "CPU time of fetching pages, with the switch to other tasks and back: part of the CPU time";
            TaskSeconds, "task_seconds", "TASK-TIME", [], Seconds,
                "Time that tasks existed: the CPU time and all waits add up to it";
            ColdRunQueue, "cold_run_queue_seconds", "W-CPU-COLD", [], Seconds,
                "Part of W-CPU that follows a wait for cold data";
        }
    };
}

pub(crate) use each_counter;

each_counter!(counters);

impl Counter {
    /// The index of this counter in the kernel's row.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_order_matches_kernel_row() {
        let ids: Vec<&str> = Counter::ALL.iter().map(|counter| counter.id()).collect();
        let expected = "read_requests read_requested_pages read_requested_bytes read_missed_pages readahead_pages \
            prefetch_pages readahead_hit_pages readahead_wasted_pages readahead_cancelled_pages \
            fault_requests fault_miss_pages fault_readahead_pages write_requests write_pages \
            write_bytes write_new_pages dirtied_pages direct_read_requests direct_read_bytes \
            direct_write_requests direct_write_bytes evicted_reclaim_pages evicted_other_pages \
            refault_pages metadata_pages other_pages eventless_requests \
            read_unserved_pages read_unserved_bytes read_failed_requests write_unserved_bytes \
            write_failed_requests direct_read_failed_requests direct_write_failed_requests \
            read_hit_pages waited_missed_seconds waited_refault_seconds waited_in_flight_seconds waited_fault_seconds \
            waited_direct_seconds waited_sync_seconds waited_metadata_seconds waited_filesystem_seconds waited_throttle_seconds \
            waited_reclaim_seconds waited_swap_seconds waited_async_seconds waited_children_seconds \
            waited_lock_seconds waited_peer_seconds slept_seconds waited_other_seconds run_queue_seconds \
            fetch_cpu_seconds task_seconds cold_run_queue_seconds";
        assert_eq!(
            ids.join(" "),
            expected,
            "the BPF side fills the row by this order"
        );
        assert_eq!(Counter::COUNT, 56, "the BPF side's row has this length");
    }

    #[test]
    fn index_is_the_position_in_all() {
        for (place, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(
                counter.index(),
                place,
                "{} sits at its own index",
                counter.id()
            );
        }
    }
}
