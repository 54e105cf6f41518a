//! [`Figures`]: results of an interval or a whole measurement; [`Summary`]: a measurement.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_model::Ledger;
use cachewise_model::{
    Count, Labels, Latencies, Measured, Measurement, Missing, NOT_APPLICABLE, Reason, Row, Subject,
    System,
};
use serde::{Deserialize, Serialize};

use crate::Workload;

/// Source of hits and misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HitSource {
    /// The kernel reported residency before each operation, and whether the operation waited.
    Exact,
    /// Only whether the operation waited: a fast device looks like the page cache.
    Nowait,
    /// Major faults of the thread.
    Faults,
    /// Device reads of the thread.
    Device,
    /// There is no cache, or hits were not recorded.
    None,
}

/// Results of an interval, or of a whole measurement. `None` is an unknown value;
/// [`row`](Self::row) has the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Its length.
    pub seconds: f64,
    /// Number of operations.
    pub operations: u64,
    /// Requested bytes that were returned.
    pub useful_bytes: u64,
    /// Source of the next three figures.
    pub hit_source: HitSource,
    /// Operations that found all pages in the page cache.
    pub hit_operations: Option<u64>,
    /// Operations that waited.
    pub miss_operations: Option<u64>,
    /// Bytes that were cached when requested.
    pub hit_bytes: Option<u64>,
    /// Bytes that devices read for this process.
    pub device_read_bytes: Option<u64>,
    /// Bytes that this process wrote to devices, or made dirty.
    pub device_write_bytes: Option<u64>,
    /// CPU time of this process.
    pub cpu_seconds: f64,
    /// Faults of this process that waited for a device.
    pub major_faults: u64,
    /// All other faults.
    pub minor_faults: u64,
    /// Whether refaults and memory are those of a control group with a limit; otherwise the
    /// machine's.
    pub is_of_group: bool,
    /// File pages that were refaulted soon after their eviction.
    pub file_refault_pages: Option<u64>,
    /// Anonymous pages that were swapped in soon after they had been swapped out.
    pub anon_refault_pages: Option<u64>,
    /// Of the machine.
    pub swap_in_pages: Option<u64>,
    /// Of the machine.
    pub swap_out_pages: Option<u64>,
    /// Memory charged to the control group at the end.
    pub memory_used_bytes: Option<u64>,
    /// Number of times the control group hit its limit.
    pub limit_reached: Option<u64>,
    /// OOM kills.
    pub oom_kills: Option<u64>,
    /// Time in which some task waited for a CPU (PSI).
    pub psi_cpu_some_seconds: Option<f64>,
    /// The same for memory.
    pub psi_memory_some_seconds: Option<f64>,
    /// Time in which all tasks waited for memory.
    pub psi_memory_full_seconds: Option<f64>,
    /// Time in which some task waited for I/O.
    pub psi_io_some_seconds: Option<f64>,
    /// Time in which all tasks waited for I/O.
    pub psi_io_full_seconds: Option<f64>,
    /// Memory of the bloating process.
    pub bloat_bytes: Option<u64>,
    /// Latencies, if recorded.
    pub latency: Option<Latency>,
}

/// Latencies of operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// All operations; `None` if there were none, here and below.
    pub all: Option<Percentiles>,
    /// Operations that found all pages in the page cache.
    pub hits: Option<Percentiles>,
    /// Operations that waited.
    pub misses: Option<Percentiles>,
}

/// Percentiles of latencies, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is named after its share")]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// End of the bloating process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BloatEnd {
    /// Its memory at the end.
    pub bytes: u64,
    /// The signal that killed it early, and its time in seconds; the run went on.
    pub killed: Option<(i32, f64)>,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The workload.
    pub workload: Workload,
    /// The results, without preparation and warm-up.
    pub figures: Figures,
    /// The size of the file.
    pub file_size_bytes: u64,
    /// Pages of it in the page cache at the start; `None` if unknown.
    pub resident_before_pages: Option<u64>,
    /// Pages of it in the page cache at the end.
    pub resident_after_pages: Option<u64>,
    /// Its control group, if that has a memory limit.
    pub cgroup: Option<PathBuf>,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// The end of the bloating process.
    pub bloat: Option<BloatEnd>,
    /// Reasons to trust the figures less.
    pub warnings: Vec<String>,
}

const NOT_TOLD: Missing = Missing::NotOffered(Reason::NotByKernel);
const NO_LATENCY: Missing = Missing::NotOffered(Reason::NoLatencies);
const NONE_SUCH: Missing = Missing::NotOffered(Reason::NoSuchOperation);
const NO_GROUP: Missing = Missing::NotOffered(Reason::NoLimitedGroup);
const MICROSECONDS: f64 = 1e6;

fn told(number: Option<u64>) -> Count {
    number.map_or(Measured::Missing(NOT_TOLD), Measured::Exact)
}

/// A number of the whole machine, where a part of it is meant.
fn of_machine(number: Option<u64>) -> Count {
    number.map_or(Measured::Missing(NOT_TOLD), |number| {
        Measured::Estimated(number, Reason::WholeMachine)
    })
}

/// A time in microseconds, the unit of rows.
fn time(seconds: Option<f64>) -> Count {
    told(seconds.map(|seconds| (seconds * MICROSECONDS).round() as u64))
}

impl HitSource {
    /// A number from this source.
    fn count(self, number: Option<u64>) -> Count {
        match (self, number) {
            (HitSource::Exact, Some(number)) => Measured::Exact(number),
            (HitSource::Nowait, Some(number)) => Measured::Estimated(number, Reason::ByNowait),
            (HitSource::Faults, Some(number)) => Measured::Estimated(number, Reason::ByMajorFaults),
            (HitSource::Device, Some(number)) => Measured::Estimated(number, Reason::ByDeviceReads),
            (HitSource::None, _) => Measured::not_offered(Reason::HitsUnknown),
            (_, None) => Measured::not_offered(Reason::PartsNotReported),
        }
    }
}

impl Percentiles {
    fn latencies(found: Option<Percentiles>) -> Latencies {
        let Some(found) = found else {
            return Latencies::all(Measured::Missing(NONE_SUCH));
        };
        Latencies {
            p50: Measured::Exact(found.p50),
            p90: Measured::Exact(found.p90),
            p99: Measured::Exact(found.p99),
            p999: Measured::Exact(found.p999),
            max: Measured::Exact(found.max),
        }
    }
}

impl Figures {
    /// Bytes read from devices per useful byte; `None` if unknown, or without useful bytes.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let read = self.device_read_bytes?;
        (self.useful_bytes > 0).then(|| read as f64 / self.useful_bytes as f64)
    }

    /// The row of a table, with the workload's settings.
    #[must_use]
    pub fn row(&self, workload: &Workload) -> Row {
        self.row_of(workload, "interval")
    }

    fn row_of(&self, workload: &Workload, part: &str) -> Row {
        let group = |number: Option<u64>| match self.is_of_group {
            true => told(number),
            false => Measured::Missing(NO_GROUP),
        };
        let group_or_machine = |number| match self.is_of_group {
            true => told(number),
            false => of_machine(number),
        };
        let latency = |pick: fn(&Latency) -> Option<Percentiles>| match &self.latency {
            Some(latency) => Percentiles::latencies(pick(latency)),
            None => Latencies::all(Measured::Missing(NO_LATENCY)),
        };
        let hits = |number| self.hit_source.count(number);
        Row {
            labels: Labels {
                path: Measured::Exact(workload.file.clone()),
                ..Labels::default()
            },
            ledger: Ledger::all_missing(NOT_APPLICABLE),
            subject: Subject {
                cpu_seconds: Measured::Exact(self.cpu_seconds),
                device_read_bytes: told(self.device_read_bytes),
                device_write_bytes: told(self.device_write_bytes),
                ..Subject::default()
            },
            system: System {
                memory_used_bytes: group(self.memory_used_bytes),
                memory_limit_reached: group(self.limit_reached),
                page_faults: Measured::Exact(self.major_faults + self.minor_faults),
                major_faults: Measured::Exact(self.major_faults),
                file_refault_pages: group_or_machine(self.file_refault_pages),
                anon_refault_pages: group_or_machine(self.anon_refault_pages),
                swap_in_pages: of_machine(self.swap_in_pages),
                swap_out_pages: of_machine(self.swap_out_pages),
                oom_kills: group_or_machine(self.oom_kills),
                psi_cpu_some_seconds: time(self.psi_cpu_some_seconds),
                psi_memory_some_seconds: time(self.psi_memory_some_seconds),
                psi_memory_full_seconds: time(self.psi_memory_full_seconds),
                psi_io_some_seconds: time(self.psi_io_some_seconds),
                psi_io_full_seconds: time(self.psi_io_full_seconds),
                ..System::default()
            }
            .into(),
            measurement: Measurement {
                part: Measured::Exact(part.into()),
                minor_faults: Measured::Exact(self.minor_faults),
                engine: Measured::Exact(workload.engine.word().into()),
                access: Measured::Exact(workload.access.to_string()),
                seed: Measured::Exact(workload.seed),
                chunk_bytes: Measured::Exact(workload.chunk.0),
                threads: Measured::Exact(workload.threads as u64),
                operations: Measured::Exact(self.operations),
                useful_bytes: Measured::Exact(self.useful_bytes),
                hit_operations: hits(self.hit_operations),
                miss_operations: hits(self.miss_operations),
                hit_bytes: hits(self.hit_bytes),
                bloat_bytes: self.bloat_bytes.map_or(
                    Measured::not_offered(Reason::NoMemoryTaken),
                    Measured::Exact,
                ),
                all: latency(|latency| latency.all),
                hits: latency(|latency| latency.hits),
                misses: latency(|latency| latency.misses),
            }
            .into(),
            elapsed: Duration::try_from_secs_f64(self.seconds).unwrap_or_default(),
            ..Row::default()
        }
    }
}

impl Summary {
    /// The row of a table.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = self.figures.row_of(&self.workload, "total");
        let resident = |pages: Option<u64>| {
            pages.map_or(Measured::unknown(Reason::HiddenFromUser), Measured::Exact)
        };
        row.subject.file_size_bytes = Measured::Exact(self.file_size_bytes);
        row.subject.resident_before_pages = resident(self.resident_before_pages);
        row.subject.resident_after_pages = resident(self.resident_after_pages);
        if let Some(cgroup) = &self.cgroup {
            row.labels.cgroup = Measured::Exact(cgroup.to_string_lossy().into_owned());
        }
        if !self.warnings.is_empty() {
            row.labels.note = Measured::Exact(self.warnings.join("; "));
        }
        row
    }
}
