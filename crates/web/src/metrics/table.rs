//! The table of metrics: which fields of the model they are, under which names.
//!
//! Names follow Prometheus: what can be summed over a label is one family, counters grow, ratios are not
//! given out where their parts are. Pages have no suffix; bytes and seconds have theirs.

use cachewise_model::{Kind, Unit};

use super::collector::Collector;
use super::family::{Family, Series, by, each, field, own, pages};

use Collector::{Cgroups, Devices, Filesets, Memory, PageCache, Pressure, Vmstat};
use Kind::{Counter, Gauge};

/// Every family, in the order in which they are given out.
pub static FAMILIES: &[Family] = &[
    pages("page_cache_requested", &[("", "read_requested_pages")]),
    pages("page_cache_hits", &[("", "read_hit_pages")]),
    pages("page_cache_misses", &[("", "read_missed_pages")]),
    pages("page_cache_read_requests", &[("", "read_requests")]),
    field(
        PageCache,
        Counter,
        "page_cache_read_bytes",
        Unit::Bytes,
        &[("", "read_bytes")],
    ),
    field(
        PageCache,
        Counter,
        "page_cache_read_requested_bytes",
        Unit::Bytes,
        &[("", "read_requested_bytes")],
    ),
    pages("page_cache_read_unserved", &[("", "read_unserved_pages")]),
    field(
        PageCache,
        Counter,
        "page_cache_read_unserved_bytes",
        Unit::Bytes,
        &[("", "read_unserved_bytes")],
    ),
    pages(
        "page_cache_read_failed_requests",
        &[("", "read_failed_requests")],
    ),
    pages("page_cache_readahead", &[("", "readahead_pages")]),
    pages("page_cache_prefetched", &[("", "prefetch_pages")]),
    pages("page_cache_readahead_used", &[("", "readahead_hit_pages")]),
    pages(
        "page_cache_readahead_wasted",
        &[("", "readahead_wasted_pages")],
    ),
    pages(
        "page_cache_readahead_cancelled",
        &[("", "readahead_cancelled_pages")],
    ),
    pages("page_cache_fault_requests", &[("", "fault_requests")]),
    pages("page_cache_fault_misses", &[("", "fault_miss_pages")]),
    pages(
        "page_cache_fault_readahead",
        &[("", "fault_readahead_pages")],
    ),
    pages("page_cache_write_requests", &[("", "write_requests")]),
    pages("page_cache_written", &[("", "write_pages")]),
    field(
        PageCache,
        Counter,
        "page_cache_write_bytes",
        Unit::Bytes,
        &[("", "write_bytes")],
    ),
    field(
        PageCache,
        Counter,
        "page_cache_write_unserved_bytes",
        Unit::Bytes,
        &[("", "write_unserved_bytes")],
    ),
    pages(
        "page_cache_write_failed_requests",
        &[("", "write_failed_requests")],
    ),
    pages("page_cache_write_new", &[("", "write_new_pages")]),
    pages("page_cache_dirtied", &[("", "dirtied_pages")]),
    pages("page_cache_refaults", &[("", "refault_pages")]),
    pages("page_cache_metadata", &[("", "metadata_pages")]),
    pages("page_cache_other", &[("", "other_pages")]),
    pages(
        "page_cache_eventless_requests",
        &[("", "eventless_requests")],
    ),
    by(
        "reason",
        "Pages that left the page cache: reclaimed, or for another reason (truncate, unlink, advice, drop_caches)",
        pages(
            "page_cache_evicted",
            &[
                ("reclaim", "evicted_reclaim_pages"),
                ("other", "evicted_other_pages"),
            ],
        ),
    ),
    Family {
        name: "page_cache_evicted_by_cause",
        collector: Some(PageCache),
        unit: Unit::Count,
        kind: Counter,
        help: Some("Pages that left the page cache, by the cause of the eviction"),
        label: Some("cause"),
        series: Series::Causes,
    },
    by(
        "cause",
        "Time that tasks waited for storage, memory and CPUs, by the cause",
        field(
            PageCache,
            Counter,
            "task_wait_seconds",
            Unit::Seconds,
            &[
                ("missed", "waited_missed_seconds"),
                ("refault", "waited_refault_seconds"),
                ("in_flight", "waited_in_flight_seconds"),
                ("fault", "waited_fault_seconds"),
                ("direct", "waited_direct_seconds"),
                ("sync", "waited_sync_seconds"),
                ("metadata", "waited_metadata_seconds"),
                ("filesystem", "waited_filesystem_seconds"),
                ("throttle", "waited_throttle_seconds"),
                ("reclaim", "waited_reclaim_seconds"),
                ("swap", "waited_swap_seconds"),
                ("async", "waited_async_seconds"),
                ("cpu", "run_queue_seconds"),
            ],
        ),
    ),
    field(
        PageCache,
        Counter,
        "fetch_cpu_seconds",
        Unit::Seconds,
        &[("", "fetch_cpu_seconds")],
    ),
    field(
        PageCache,
        Counter,
        "cold_run_queue_seconds",
        Unit::Seconds,
        &[("", "cold_run_queue_seconds")],
    ),
    by(
        "direction",
        "Direct I/O requests that moved no byte and returned an error",
        pages(
            "direct_failed_requests",
            &[
                ("read", "direct_read_failed_requests"),
                ("write", "direct_write_failed_requests"),
            ],
        ),
    ),
    by(
        "direction",
        "Requests that bypassed the page cache (O_DIRECT)",
        pages(
            "direct_requests",
            &[
                ("read", "direct_read_requests"),
                ("write", "direct_write_requests"),
            ],
        ),
    ),
    by(
        "direction",
        "Bytes that bypassed the page cache (O_DIRECT)",
        field(
            PageCache,
            Counter,
            "direct_bytes",
            Unit::Bytes,
            &[
                ("read", "direct_read_bytes"),
                ("write", "direct_write_bytes"),
            ],
        ),
    ),
    by(
        "state",
        "Memory by use; the states overlap, so do not sum them: cached includes shmem and mapped",
        field(
            Memory,
            Gauge,
            "memory_bytes",
            Unit::Bytes,
            &[
                ("free", "free_bytes"),
                ("available", "available_bytes"),
                ("buffers", "buffers_bytes"),
                ("cached", "cached_bytes"),
                ("active_file", "active_file_bytes"),
                ("inactive_file", "inactive_file_bytes"),
                ("mapped", "mapped_bytes"),
                ("shmem", "shmem_bytes"),
                ("anon", "anon_bytes"),
                ("mlocked", "mlocked_bytes"),
                ("unevictable", "unevictable_bytes"),
                ("slab_reclaimable", "slab_reclaimable_bytes"),
            ],
        ),
    ),
    field(
        Memory,
        Gauge,
        "memory_size_bytes",
        Unit::Bytes,
        &[("", "memory_total_bytes")],
    ),
    field(
        Memory,
        Gauge,
        "dirty_bytes",
        Unit::Bytes,
        &[("", "dirty_bytes")],
    ),
    field(
        Memory,
        Gauge,
        "writeback_bytes",
        Unit::Bytes,
        &[("", "writeback_bytes")],
    ),
    field(
        Memory,
        Gauge,
        "swap_size_bytes",
        Unit::Bytes,
        &[("", "swap_total_bytes")],
    ),
    field(
        Memory,
        Gauge,
        "swap_used_bytes",
        Unit::Bytes,
        &[("", "swap_used_bytes")],
    ),
    field(
        Vmstat,
        Counter,
        "faults",
        Unit::Count,
        &[("", "page_faults")],
    ),
    field(
        Vmstat,
        Counter,
        "major_faults",
        Unit::Count,
        &[("", "major_faults")],
    ),
    by(
        "list",
        "Refaults: pages read again soon after they were reclaimed",
        field(
            Vmstat,
            Counter,
            "refaults",
            Unit::Count,
            &[
                ("file", "file_refault_pages"),
                ("anon", "anon_refault_pages"),
            ],
        ),
    ),
    field(
        Vmstat,
        Counter,
        "reclaim_scanned",
        Unit::Count,
        &[("", "scanned_pages")],
    ),
    field(
        Vmstat,
        Counter,
        "reclaim_taken",
        Unit::Count,
        &[("", "reclaimed_pages")],
    ),
    field(
        Vmstat,
        Counter,
        "written_back",
        Unit::Count,
        &[("", "written_back_pages")],
    ),
    by(
        "direction",
        "Pages read from swap (in) and written to swap (out)",
        field(
            Vmstat,
            Counter,
            "swapped",
            Unit::Count,
            &[("in", "swap_in_pages"), ("out", "swap_out_pages")],
        ),
    ),
    by(
        "direction",
        "Bytes that storage devices read (in) and wrote (out), for any requester",
        field(
            Vmstat,
            Counter,
            "paged_bytes",
            Unit::Bytes,
            &[("in", "device_read_bytes"), ("out", "device_write_bytes")],
        ),
    ),
    field(
        Vmstat,
        Counter,
        "oom_kills",
        Unit::Count,
        &[("", "oom_kills")],
    ),
    by(
        "resource",
        "Time in which some task waited for the resource (PSI, some)",
        field(
            Pressure,
            Counter,
            "pressure_waiting_seconds",
            Unit::Seconds,
            &[
                ("cpu", "psi_cpu_some_seconds"),
                ("memory", "psi_memory_some_seconds"),
                ("io", "psi_io_some_seconds"),
            ],
        ),
    ),
    by(
        "resource",
        "Time in which all tasks waited for the resource (PSI, full)",
        field(
            Pressure,
            Counter,
            "pressure_stalled_seconds",
            Unit::Seconds,
            &[
                ("memory", "psi_memory_full_seconds"),
                ("io", "psi_io_full_seconds"),
            ],
        ),
    ),
    each(
        Devices,
        Counter,
        "device",
        "device_read_bytes",
        Unit::Bytes,
        "device_read_bytes",
        "Bytes that the device read, for any requester",
    ),
    each(
        Devices,
        Counter,
        "device",
        "device_written_bytes",
        Unit::Bytes,
        "device_write_bytes",
        "Bytes that the device wrote",
    ),
    each(
        Devices,
        Counter,
        "device",
        "device_page_cache_requested",
        Unit::Count,
        "read_requested_pages",
        "Pages requested by reads of files on the device, or of the device itself: hits, misses and unserved pages",
    ),
    each(
        Devices,
        Counter,
        "device",
        "device_page_cache_misses",
        Unit::Count,
        "read_missed_pages",
        "Pages of those that were not in the page cache",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_requested",
        Unit::Count,
        "read_requested_pages",
        "Pages requested by reads of the control group's tasks: hits, misses and unserved pages",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_hits",
        Unit::Count,
        "read_hit_pages",
        "Pages of those that were in the page cache",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_misses",
        Unit::Count,
        "read_missed_pages",
        "Pages of those that were not in the page cache",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_dirtied",
        Unit::Count,
        "dirtied_pages",
        "Pages that the control group's tasks made dirty",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_direct_bytes",
        Unit::Bytes,
        "direct_bytes",
        "Bytes of direct I/O of the control group's tasks, which bypasses the page cache",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_evicted",
        Unit::Count,
        "evicted_pages",
        "Pages charged to the control group that left the page cache, evicted by any process or the kernel",
    ),
    Family {
        name: "cgroup_page_cache_evicted_as_culprit",
        collector: Some(Cgroups),
        unit: Unit::Count,
        kind: Counter,
        help: Some(
            "Pages of any control group that processes of this one evicted, by the cause; the groups that evict most have their own series",
        ),
        label: Some("cgroup"),
        series: Series::Culprits,
    },
    each(
        Cgroups,
        Gauge,
        "cgroup",
        "cgroup_memory_used_bytes",
        Unit::Bytes,
        "memory_used_bytes",
        "Memory charged to the control group, page cache included; not of `other`",
    ),
    Family {
        name: "cgroup_info",
        collector: Some(Cgroups),
        unit: Unit::Count,
        kind: Gauge,
        help: Some(
            "1, with the names of the control group; a name that it does not have is no label",
        ),
        label: Some("cgroup"),
        series: Series::Names(&["group_name", "unit", "container", "pod"]),
    },
    own(
        Some(Filesets),
        Some("set"),
        "fileset_resident_bytes",
        Unit::Bytes,
        "Bytes of the set that are in the page cache",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_size_bytes",
        Unit::Bytes,
        "Sum of the sizes of the files in the set",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_files",
        Unit::Count,
        "Files in the set",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_unknown_files",
        Unit::Count,
        "Files in the set whose residency is unknown",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_age_seconds",
        Unit::Seconds,
        "Age of the figures of the set: if a set takes long to query, scrapes get earlier figures",
    ),
    own(
        None,
        None,
        "page_size_bytes",
        Unit::Bytes,
        "Size of a page, to convert pages to bytes",
    ),
    Family {
        kind: Counter,
        ..own(
            None,
            Some("kind"),
            "lost_events",
            Unit::Count,
            "Events that were not counted, or only as part of a sum, by kind: if it grows, counters of the page cache are too low or lack names",
        )
    },
    own(
        None,
        None,
        "kernel_memory_bytes",
        Unit::Bytes,
        "Kernel memory of the maps and programs that count, without the storage of each task that uses files",
    ),
    Family {
        kind: Counter,
        ..own(
            None,
            None,
            "own_cpu_seconds",
            Unit::Seconds,
            "CPU time of this server: watching, the census and responses; programs in the kernel count for the tasks that they watch",
        )
    },
    own(
        None,
        None,
        "own_memory_bytes",
        Unit::Bytes,
        "Resident memory of this server",
    ),
    Family {
        kind: Counter,
        ..own(
            None,
            None,
            "kernel_program_seconds",
            Unit::Seconds,
            "CPU time of the programs in the kernel that count, in the tasks that they watch; only with the setting kernel.bpf_stats_enabled = 1, which itself costs time",
        )
    },
    Family {
        kind: Counter,
        ..own(
            None,
            None,
            "own_watch_seconds",
            Unit::Seconds,
            "Time that this server has spent taking counters from the kernel",
        )
    },
    own(
        None,
        Some("version"),
        "build_info",
        Unit::Count,
        "Always 1; labels are the version of the program, the release of the kernel and the backend that counts",
    ),
    own(
        None,
        Some("collector"),
        "collector_success",
        Unit::Count,
        "1 if the collector exported all its metrics, 0 if not",
    ),
    own(
        None,
        Some("collector"),
        "collector_left_out",
        Unit::Count,
        "Metrics and series that the collector omitted because their values are unknown, with the reason as a label",
    ),
    own(
        None,
        Some("collector"),
        "scrape_duration_seconds",
        Unit::Seconds,
        "Time that the collector took",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use cachewise_model::{Counter, FIELDS, field};

    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_rules() {
        let mut seen = HashSet::new();
        for family in FAMILIES {
            let name = family.full_name();
            assert!(seen.insert(name.clone()), "{name} stands there once");
            assert!(
                !family.name.ends_with("_ratio") && !family.name.ends_with("_pages"),
                "{name}: hits and what was asked for, no ratio; pages have no suffix"
            );
            assert!(family.help().len() > 12, "{name} is explained");
            assert!(
                family.label.is_none_or(|label| label != "type"),
                "{name}: `type` says nothing"
            );
            if let Some(suffix) = family.unit.suffix() {
                assert!(family.name.ends_with(suffix), "{name} has its unit");
            }
        }
    }

    #[test]
    fn fields_exist_and_are_of_the_family_s_kind_and_unit() {
        for family in FAMILIES {
            let ids: Vec<&str> = match family.series {
                Series::Fields(series) => series.iter().map(|(_, id)| *id).collect(),
                Series::Each(id) => vec![id],
                Series::Own | Series::Causes | Series::Culprits => Vec::new(),
                Series::Names(ids) => {
                    let is_label =
                        |id: &&str| field(id).is_some_and(|field| field.kind == Kind::Label);
                    assert!(ids.iter().all(is_label), "{}: labels", family.name);
                    Vec::new()
                }
            };
            for id in ids {
                let field = field(id).unwrap_or_else(|| panic!("there is no field {id}"));
                assert_eq!(field.kind, family.kind, "{id} in {}", family.name);
                let unit = match field.unit {
                    Unit::Pages => Unit::Count,
                    unit => unit,
                };
                assert_eq!(unit, family.unit, "{id} in {}", family.name);
            }
        }
    }

    #[test]
    fn every_counter_is_given_out() {
        let given: HashSet<&str> = FAMILIES
            .iter()
            .filter_map(|family| match family.series {
                Series::Fields(series) => Some(series.iter().map(|(_, id)| *id)),
                _ => None,
            })
            .flatten()
            .collect();
        for counter in Counter::ALL {
            // The whole machine has no times that only a run has.
            let is_of_machine = !Counter::OF_RUNS.contains(counter);
            assert_eq!(
                given.contains(counter.id()),
                is_of_machine,
                "{} is a metric",
                counter.id()
            );
        }
        let row = cachewise_model::Row::of_system();
        for field in FIELDS.iter().filter(|field| {
            field.kind == Kind::Counter && field.is_of(&row) && field.id.starts_with("psi_")
        }) {
            assert!(given.contains(field.id), "{} is a metric", field.id);
        }
    }
}
