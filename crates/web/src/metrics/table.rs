//! The table of metrics: which fields of the model they are, under which names.
//!
//! Names follow Prometheus: what can be summed over a label is one family, counters grow, ratios are not
//! given out where their parts are. Pages have no suffix; bytes and seconds have theirs.

use std::fmt;
use std::fmt::Write;
use std::str::FromStr;

use cachewise_model::{Kind, Unit};

/// Where series come from, and what they can be switched on and off by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collector {
    /// What everybody asked of the page cache.
    PageCache,
    /// What memory is used for.
    Memory,
    /// Faults, reclaim, swap, as the kernel counts them by itself.
    Vmstat,
    /// Time lost to waiting.
    Pressure,
    /// By storage device.
    Devices,
    /// By control group: the busiest, and `other`.
    Cgroups,
    /// Sets of files.
    Filesets,
}

/// A collector that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no collector; there are: {names}", names = Collector::ALL.map(Collector::id).join(", "))]
pub struct UnknownCollector(String);

impl Collector {
    /// All of them.
    pub const ALL: [Collector; 7] = [
        Collector::PageCache,
        Collector::Memory,
        Collector::Vmstat,
        Collector::Pressure,
        Collector::Devices,
        Collector::Cgroups,
        Collector::Filesets,
    ];

    /// Those without labels whose values come and go with what runs on the machine.
    pub const DEFAULT: [Collector; 5] = [
        Collector::PageCache,
        Collector::Memory,
        Collector::Vmstat,
        Collector::Pressure,
        Collector::Devices,
    ];

    /// Its name.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Collector::PageCache => "page_cache",
            Collector::Memory => "memory",
            Collector::Vmstat => "vmstat",
            Collector::Pressure => "pressure",
            Collector::Devices => "devices",
            Collector::Cgroups => "cgroups",
            Collector::Filesets => "filesets",
        }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Collector {
    type Err = UnknownCollector;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Collector::ALL
            .into_iter()
            .find(|collector| collector.id() == name)
            .ok_or_else(|| UnknownCollector(name.to_owned()))
    }
}

/// Metrics of one name.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// After `cachewise_`, with the unit, without `_total`.
    pub name: &'static str,
    /// Who gives it; nobody in particular gives what is about the server itself.
    pub collector: Option<Collector>,
    /// What it is measured in, if its name says so.
    pub unit: Unit,
    /// Whether it grows.
    pub kind: Kind,
    /// One sentence; none where the field's own says it.
    pub help: Option<&'static str>,
    /// Its label.
    pub label: Option<&'static str>,
    /// What its series are.
    pub series: Series,
}

/// What the series of a family are.
#[derive(Debug, Clone, Copy)]
pub enum Series {
    /// Fields of the machine's row, each with the value of the label.
    Fields(&'static [(&'static str, &'static str)]),
    /// A field of the row of each device or control group; the label is its name.
    Each(&'static str),
    /// Made by the server.
    Own,
}

const fn field(
    collector: Collector,
    kind: Kind,
    name: &'static str,
    unit: Unit,
    series: &'static [(&'static str, &'static str)],
) -> Family {
    Family {
        name,
        collector: Some(collector),
        unit,
        kind,
        help: None,
        label: None,
        series: Series::Fields(series),
    }
}

const fn pages(name: &'static str, series: &'static [(&'static str, &'static str)]) -> Family {
    field(
        Collector::PageCache,
        Kind::Counter,
        name,
        Unit::Count,
        series,
    )
}

const fn by(label: &'static str, help: &'static str, family: Family) -> Family {
    Family {
        help: Some(help),
        label: Some(label),
        ..family
    }
}

const fn each(
    collector: Collector,
    kind: Kind,
    label: &'static str,
    name: &'static str,
    unit: Unit,
    id: &'static str,
    help: &'static str,
) -> Family {
    Family {
        name,
        collector: Some(collector),
        unit,
        kind,
        help: Some(help),
        label: Some(label),
        series: Series::Each(id),
    }
}

const fn own(
    collector: Option<Collector>,
    label: Option<&'static str>,
    name: &'static str,
    unit: Unit,
    help: &'static str,
) -> Family {
    Family {
        name,
        collector,
        unit,
        kind: Kind::Gauge,
        help: Some(help),
        label,
        series: Series::Own,
    }
}

use Collector::{Cgroups, Devices, Filesets, Memory, PageCache, Pressure, Vmstat};
use Kind::{Counter, Gauge};

/// Every family, in the order in which they are given out.
pub static FAMILIES: &[Family] = &[
    pages("page_cache_requested", &[("", "read_pages")]),
    pages("page_cache_hits", &[("", "read_hit_pages")]),
    pages("page_cache_misses", &[("", "read_miss_pages")]),
    pages("page_cache_read_requests", &[("", "read_requests")]),
    field(
        PageCache,
        Counter,
        "page_cache_read_bytes",
        Unit::Bytes,
        &[("", "read_bytes")],
    ),
    pages("page_cache_readahead", &[("", "readahead_pages")]),
    pages("page_cache_prefetched", &[("", "prefetch_pages")]),
    pages("page_cache_readahead_used", &[("", "readahead_used_pages")]),
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
        "Pages that left the page cache: taken by memory reclaim, or otherwise (truncate, unlink, advice, drop_caches)",
        pages(
            "page_cache_evicted",
            &[
                ("reclaim", "evicted_reclaim_pages"),
                ("other", "evicted_other_pages"),
            ],
        ),
    ),
    by(
        "direction",
        "Requests that went around the page cache (O_DIRECT)",
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
        "Bytes that went around the page cache (O_DIRECT)",
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
        "What memory is used for; the states overlap, and are not to be summed: cached has shmem in it, and mapped is a part of it",
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
        "Pages that came back soon after reclaim had taken them",
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
        "Pages brought in from swap, and put out to it",
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
        "Bytes that storage devices read (in) and wrote (out), whoever asked",
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
        "Bytes that the device read, whoever asked",
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
        "read_pages",
        "Pages asked for by reads of files on the device, or of itself: hits plus misses",
    ),
    each(
        Devices,
        Counter,
        "device",
        "device_page_cache_misses",
        Unit::Count,
        "read_miss_pages",
        "Pages of those that were not in the page cache",
    ),
    each(
        Cgroups,
        Counter,
        "cgroup",
        "cgroup_page_cache_requested",
        Unit::Count,
        "read_pages",
        "Pages asked for by reads of the control group's tasks: hits plus misses",
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
        "read_miss_pages",
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
        "Bytes that the control group's tasks read and wrote around the page cache",
    ),
    each(
        Cgroups,
        Gauge,
        "cgroup",
        "cgroup_memory_used_bytes",
        Unit::Bytes,
        "memory_used_bytes",
        "Memory charged to the control group, page cache included; not of `other`",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_resident_bytes",
        Unit::Bytes,
        "What of the set of files is in the page cache",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_size_bytes",
        Unit::Bytes,
        "The sum of the sizes of the set's files",
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
        "Files of the set of which nobody can know what is resident",
    ),
    own(
        Some(Filesets),
        Some("set"),
        "fileset_age_seconds",
        Unit::Seconds,
        "How long ago the set was looked at: where that takes long, a scrape has what was known before",
    ),
    own(
        None,
        None,
        "page_size_bytes",
        Unit::Bytes,
        "Size of a page, by which pages become bytes",
    ),
    Family {
        kind: Counter,
        ..own(
            None,
            None,
            "lost_events",
            Unit::Count,
            "Events that were not counted as they should be; where it grows the page cache's counters are too low",
        )
    },
    own(
        None,
        Some("version"),
        "build_info",
        Unit::Count,
        "1, with the program's version, the kernel's release and what counts as labels",
    ),
    own(
        None,
        Some("collector"),
        "collector_success",
        Unit::Count,
        "1 if the collector had all that it gives, 0 if not",
    ),
    own(
        None,
        Some("collector"),
        "collector_left_out",
        Unit::Count,
        "Metrics and series that the collector left out as nobody knows their values, with the reason why as a label",
    ),
    own(
        None,
        Some("collector"),
        "scrape_duration_seconds",
        Unit::Seconds,
        "How long the collector took",
    ),
];

impl Family {
    /// Its name as Prometheus shows it.
    #[must_use]
    pub fn full_name(&self) -> String {
        let total = if self.kind == Kind::Counter {
            "_total"
        } else {
            ""
        };
        format!("cachewise_{}{total}", self.name)
    }

    /// Its one sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        let of_field = || match self.series {
            Series::Fields([(_, id)]) => cachewise_model::field(id).map(|field| field.help),
            _ => None,
        };
        self.help.or_else(of_field).unwrap_or("Not explained")
    }

    fn labels(&self) -> String {
        match (self.label, self.series) {
            (None, _) => String::new(),
            (Some("version"), _) => "`version`, `kernel`, `backend`".into(),
            (Some(_), _) if self.name == "collector_left_out" => "`collector`, `reason`".into(),
            (Some(label), Series::Fields(series)) => {
                let values: Vec<&str> = series.iter().map(|(value, _)| *value).collect();
                format!("`{label}`: {}", values.join(", "))
            }
            (Some(label), _) => format!("`{label}`"),
        }
    }
}

/// The table as a page of documentation has it.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    let groups = Collector::ALL.map(Some).into_iter().chain([None]);
    for collector in groups {
        let title = match collector {
            None => "Always".to_owned(),
            Some(collector) if Collector::DEFAULT.contains(&collector) => {
                format!("Collector `{collector}`")
            }
            Some(collector) => format!("Collector `{collector}` (asked for)"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "### {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|"
        );
        for family in FAMILIES
            .iter()
            .filter(|family| family.collector == collector)
        {
            let kind = match family.kind {
                Kind::Counter => "counter",
                _ => "gauge",
            };
            let help = family.help().replace('|', r"\|");
            let _ = writeln!(
                text,
                "| `{}` | {kind} | {} | {help} |",
                family.full_name(),
                family.labels()
            );
        }
        text.push('\n');
    }
    text
}

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
                Series::Own => Vec::new(),
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
            assert!(given.contains(counter.id()), "{} is a metric", counter.id());
        }
        let row = cachewise_model::Row::of_system();
        for field in FIELDS.iter().filter(|field| {
            field.kind == Kind::Counter && field.is_of(&row) && field.id.starts_with("psi_")
        }) {
            assert!(given.contains(field.id), "{} is a metric", field.id);
        }
    }
}
