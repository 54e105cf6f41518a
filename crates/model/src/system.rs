//! Numbers of the machine, or of one control group: memory, and memory events.
//!
//! Counters grow from boot or from the creation of the group. [`System::since`] returns their
//! increase in an interval, and the gauges at its end.

use crate::kind::Kind;
use crate::measured::{Count, Measured, Missing, NOT_APPLICABLE};
use crate::reason::Reason;
use crate::sparse::FieldGroup;

/// Rows: member, id, header, unit, kind, meaning. Times are in microseconds, as in the kernel.
macro_rules! numbers {
    ($($name:ident, $id:literal, $header:literal, $unit:ident, $kind:ident, $help:literal;)+) => {
        /// Numbers of the machine or of a control group at one moment, or over an interval.
        #[derive(Debug, Clone, PartialEq)]
        pub struct System {
            $(#[doc = $help] pub $name: Count,)+
        }

        impl System {
            /// The ids of all numbers, in the order of [`System::numbers`].
            pub const IDS: &'static [&'static str] = &[$($id),+];

            /// All numbers missing, for one reason.
            #[must_use]
            pub const fn all_missing(missing: Missing) -> System {
                System { $($name: Measured::Missing(missing),)+ }
            }

            /// The increase of the counters since `earlier`; gauges are unchanged.
            #[must_use]
            pub fn since(&self, earlier: &System) -> System {
                System { $($name: match Kind::$kind {
                    Kind::Counter => self.$name.minus(earlier.$name),
                    Kind::Gauge | Kind::Label => self.$name,
                },)+ }
            }

            /// This interval and the next as one: counters are summed, gauges are the later ones.
            #[must_use]
            pub fn followed_by(&self, later: &System) -> System {
                System { $($name: match Kind::$kind {
                    Kind::Counter => self.$name.plus(later.$name),
                    Kind::Gauge | Kind::Label => later.$name,
                },)+ }
            }

            /// The same with gauges marked as estimates, for this reason.
            #[must_use]
            pub fn with_estimated_gauges(&self, how: Reason) -> System {
                System { $($name: match (Kind::$kind, self.$name) {
                    (Kind::Gauge, Measured::Exact(number)) => Measured::Estimated(number, how),
                    (_, number) => number,
                },)+ }
            }

            /// Every number; times in microseconds.
            #[must_use]
            pub const fn numbers(&self) -> [Count; System::IDS.len()] {
                [$(self.$name),+]
            }

            /// Sets all numbers, in the order of [`System::IDS`].
            #[must_use]
            pub const fn from_numbers(numbers: [Count; System::IDS.len()]) -> System {
                let [$($name),+] = numbers;
                System { $($name,)+ }
            }
        }
    };
}

/// Hands the table to a macro.
macro_rules! each_number {
    ($use:ident) => {
        $use! {
            memory_total_bytes, "memory_total_bytes", "MEM-TOTAL", Bytes, Gauge,
                "Memory that the kernel manages";
            memory_used_bytes, "memory_used_bytes", "MEM-USED", Bytes, Gauge,
                "Memory charged to the control group, page cache included";
            memory_limit_bytes, "memory_limit_bytes", "MEM-LIMIT", Bytes, Gauge,
                "Memory limit of the control group itself";
            free_bytes, "free_bytes", "FREE", Bytes, Gauge,
                "Unused memory";
            available_bytes, "available_bytes", "AVAILABLE", Bytes, Gauge,
                "Memory available without swapping, as the kernel estimates it";
            buffers_bytes, "buffers_bytes", "BUFFERS", Bytes, Gauge,
                "Page cache of block devices: file-system metadata and raw device access";
            cached_bytes, "cached_bytes", "PAGE-CACHE", Bytes, Gauge,
                "Page cache of files, shared memory and tmpfs included";
            dirty_bytes, "dirty_bytes", "DIRTY", Bytes, Gauge,
                "Page cache waiting to be written back";
            writeback_bytes, "writeback_bytes", "WRITEBACK", Bytes, Gauge,
                "Page cache being written back";
            active_file_bytes, "active_file_bytes", "ACT-FILE", Bytes, Gauge,
                "Page cache of files on the active list: used more than once";
            inactive_file_bytes, "inactive_file_bytes", "INACT-FILE", Bytes, Gauge,
                "Page cache of files on the inactive list, which reclaim scans first";
            mapped_bytes, "mapped_bytes", "MAPPED", Bytes, Gauge,
                "Page cache mapped by processes";
            shmem_bytes, "shmem_bytes", "SHMEM", Bytes, Gauge,
                "Shared memory and tmpfs: page cache not backed by a disk";
            anon_bytes, "anon_bytes", "ANON", Bytes, Gauge,
                "Anonymous memory of processes: not backed by a file";
            mlocked_bytes, "mlocked_bytes", "MLOCKED", Bytes, Gauge,
                "Memory locked by mlock";
            unevictable_bytes, "unevictable_bytes", "UNEVICTABLE", Bytes, Gauge,
                "Memory that cannot be reclaimed";
            slab_reclaimable_bytes, "slab_reclaimable_bytes", "SLAB-REC", Bytes, Gauge,
                "Reclaimable kernel memory: mostly cached names and inodes";
            swap_total_bytes, "swap_total_bytes", "SWAP-TOTAL", Bytes, Gauge,
                "Size of all swap space";
            swap_used_bytes, "swap_used_bytes", "SWAP-USED", Bytes, Gauge,
                "Swap space in use";
            page_faults, "page_faults", "ALL-FLT", Count, Counter,
                "Page faults of all kinds, anonymous memory included";
            major_faults, "major_faults", "MAJ-FAULTS", Count, Counter,
                "Page faults that waited for a device";
            file_refault_pages, "file_refault_pages", "WS-FILE", Pages, Counter,
                "Refaults of file pages: read again soon after they were reclaimed";
            anon_refault_pages, "anon_refault_pages", "WS-ANON", Pages, Counter,
                "Refaults of anonymous pages: swapped in soon after they were reclaimed";
            scanned_pages, "scanned_pages", "SCANNED", Pages, Counter,
                "Pages that reclaim scanned";
            reclaimed_pages, "reclaimed_pages", "STOLEN", Pages, Counter,
                "Reclaimed pages, of files and anonymous";
            swap_in_pages, "swap_in_pages", "SWAP-IN", Pages, Counter,
                "Pages read from swap";
            swap_out_pages, "swap_out_pages", "SWAP-OUT", Pages, Counter,
                "Pages written to swap";
            written_back_pages, "written_back_pages", "WR-BACK", Pages, Counter,
                "Pages written back";
            oom_kills, "oom_kills", "OOM", Count, Counter,
                "Processes killed by the OOM killer";
            psi_cpu_some_seconds, "psi_cpu_some_seconds", "CPU-SOME", Seconds, Counter,
                "Time in which some task waited for a CPU (PSI)";
            psi_memory_some_seconds, "psi_memory_some_seconds", "MEM-SOME", Seconds, Counter,
                "Time in which some task waited for memory (PSI)";
            psi_memory_full_seconds, "psi_memory_full_seconds", "MEM-FULL", Seconds, Counter,
                "Time in which all tasks waited for memory (PSI)";
            psi_io_some_seconds, "psi_io_some_seconds", "IO-SOME", Seconds, Counter,
                "Time in which some task waited for I/O (PSI)";
            psi_io_full_seconds, "psi_io_full_seconds", "IO-FULL", Seconds, Counter,
                "Time in which all tasks waited for I/O (PSI)";
            memory_limit_reached, "memory_limit_reached", "LIMIT-HIT", Count, Counter,
                "Times that the control group reached its own memory limit, so that pages were reclaimed";
            dirty_limit_bytes, "dirty_limit_bytes", "DIRTY-MAX", Bytes, Gauge,
                "Amount of dirty page cache above which writers are throttled";
            dirty_background_bytes, "dirty_background_bytes", "DIRTY-BG", Bytes, Gauge,
                "Amount of dirty page cache above which writeback starts";
        }
    };
}

pub(crate) use each_number;

each_number!(numbers);

static ABSENT: System = System::all_missing(NOT_APPLICABLE);

impl FieldGroup for System {
    fn absent() -> &'static Self {
        &ABSENT
    }
}

impl Default for System {
    fn default() -> Self {
        ABSENT.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(number: u64) -> System {
        System::from_numbers([Measured::Exact(number); System::IDS.len()])
    }

    #[test]
    fn since_subtracts_counters_and_keeps_gauges() {
        let interval = system(7).since(&system(4));
        assert_eq!(interval.oom_kills, Measured::Exact(3), "three were added");
        assert_eq!(interval.cached_bytes, Measured::Exact(7), "seven are there");
        let old = interval.with_estimated_gauges(Reason::ReadBefore);
        assert_eq!(
            old.oom_kills, interval.oom_kills,
            "what was added was added"
        );
        assert_eq!(
            old.cached_bytes,
            Measured::Estimated(7, Reason::ReadBefore),
            "what is there may be another number by now"
        );
        let unknown = system(7).since(&System::default());
        assert_eq!(
            unknown.oom_kills.missing(),
            Some(NOT_APPLICABLE),
            "since when is not known"
        );
    }

    #[test]
    fn numbers_round_trip_in_order() {
        let numbers = std::array::from_fn(|place| Measured::Exact(place as u64));
        let system = System::from_numbers(numbers);
        assert_eq!(system.numbers(), numbers, "there and back");
        let place = System::IDS.iter().position(|id| *id == "cached_bytes");
        assert_eq!(
            system.cached_bytes.exact().map(|number| number as usize),
            place,
            "the order of the ids"
        );
    }
}
