//! [`Figures`]: what an interval or a whole measurement gave; [`Summary`]: a measurement.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_model::Ledger;
use cachewise_model::{
    Count, Labels, Latencies, Measured, Measurement, Missing, NOT_HERE, Row, Subject, System,
};
use serde::{Deserialize, Serialize};

use crate::Workload;

/// How hits are told from misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HitSource {
    /// The kernel said of each operation what was there, and whether it had to wait.
    Exact,
    /// Only whether it had to wait: a device that is fast enough passes for the page cache.
    Nowait,
    /// From major faults of the thread.
    Faults,
    /// From what the thread had devices read.
    Device,
    /// There is no cache to hit, or nobody looked.
    None,
}

/// What an interval, or a whole measurement, gave. `None` is what nobody told here; [`row`](Self::row) has the reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How long it was.
    pub seconds: f64,
    /// How many times something was asked for.
    pub operations: u64,
    /// What was asked for and came.
    pub useful_bytes: u64,
    /// How the next three are known.
    pub hit_source: HitSource,
    /// Operations that found all in the page cache.
    pub hit_operations: Option<u64>,
    /// Operations that had to wait.
    pub miss_operations: Option<u64>,
    /// Bytes that were there when they were asked for.
    pub hit_bytes: Option<u64>,
    /// What devices read on behalf of this process.
    pub device_read_bytes: Option<u64>,
    /// What this process had devices write, or made dirty.
    pub device_write_bytes: Option<u64>,
    /// Processor time of this process.
    pub cpu_seconds: f64,
    /// Faults of this process that waited for a device.
    pub major_faults: u64,
    /// All other faults.
    pub minor_faults: u64,
    /// Whether refaults and memory are those of a control group with a limit; of the machine otherwise.
    pub is_of_group: bool,
    /// Pages of files that came back soon after they were thrown out.
    pub file_refault_pages: Option<u64>,
    /// Memory of processes likewise.
    pub anon_refault_pages: Option<u64>,
    /// Of the machine.
    pub swap_in_pages: Option<u64>,
    /// Of the machine.
    pub swap_out_pages: Option<u64>,
    /// Charged to the control group at the end.
    pub memory_used_bytes: Option<u64>,
    /// How often the control group came up against its limit.
    pub limit_reached: Option<u64>,
    /// Processes killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Time in which tasks waited, by PSI.
    pub psi_cpu_some_seconds: Option<f64>,
    /// Likewise for memory.
    pub psi_memory_some_seconds: Option<f64>,
    /// Likewise, all at once.
    pub psi_memory_full_seconds: Option<f64>,
    /// Likewise for I/O.
    pub psi_io_some_seconds: Option<f64>,
    /// Likewise, all at once.
    pub psi_io_full_seconds: Option<f64>,
    /// What the process has that takes memory.
    pub bloat_bytes: Option<u64>,
    /// How long operations took, where that was taken.
    pub latency: Option<Latency>,
}

/// How long operations took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// All of them; `None` where there were none, here and below.
    pub all: Option<Percentiles>,
    /// Those that found all in the page cache.
    pub hits: Option<Percentiles>,
    /// Those that had to wait.
    pub misses: Option<Percentiles>,
}

/// So many of 100 took no longer, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is named after its share")]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// How the process ended that took memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BloatEnd {
    /// What it had at the end.
    pub bytes: u64,
    /// The signal that killed it before its time, and after how many seconds; the run went on.
    pub killed: Option<(i32, f64)>,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What was asked for.
    pub workload: Workload,
    /// What came of it, without preparation and warm-up.
    pub figures: Figures,
    /// The size of the file.
    pub file_size_bytes: u64,
    /// Pages of it that were in the page cache when the measurement began; `None` where nobody tells.
    pub resident_before_pages: Option<u64>,
    /// And when it ended.
    pub resident_after_pages: Option<u64>,
    /// The control group it ran in, where that has a limit of memory.
    pub cgroup: Option<PathBuf>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// What became of the process that took memory.
    pub bloat: Option<BloatEnd>,
    /// What makes the figures mean less than they seem to.
    pub warnings: Vec<String>,
}

const NOT_TOLD: Missing = Missing::NotOffered("this kernel does not tell it");
const NO_LATENCY: Missing = Missing::NotOffered("the time of operations was not taken");
const NONE_SUCH: Missing = Missing::NotOffered("there was no such operation");
const NO_GROUP: Missing = Missing::NotOffered("it ran in no control group with a limit of memory");
const MICROSECONDS: f64 = 1e6;

fn told(number: Option<u64>) -> Count {
    number.map_or(Measured::Missing(NOT_TOLD), Measured::Exact)
}

/// A number of the whole machine where only a part of it is meant.
fn of_machine(number: Option<u64>) -> Count {
    number.map_or(Measured::Missing(NOT_TOLD), |number| {
        Measured::Estimated(number, "of the whole machine, not of this run alone")
    })
}

/// A time in microseconds, as rows keep it.
fn time(seconds: Option<f64>) -> Count {
    told(seconds.map(|seconds| (seconds * MICROSECONDS).round() as u64))
}

impl HitSource {
    /// A number that was found this way.
    fn count(self, number: Option<u64>) -> Count {
        match (self, number) {
            (HitSource::Exact, Some(number)) => Measured::Exact(number),
            (HitSource::Nowait, Some(number)) => Measured::Estimated(
                number,
                "from RWF_NOWAIT alone, for which a device that is done at once is a hit: cachestat(2), since Linux 6.5, does not \
                 tell what was there",
            ),
            (HitSource::Faults, Some(number)) => Measured::Estimated(
                number,
                "from major faults of the thread, looked at after operations that took long",
            ),
            (HitSource::Device, Some(number)) => Measured::Estimated(
                number,
                "from what the thread had devices read, looked at after operations that took long; engine nowait tells exactly",
            ),
            (HitSource::None, _) => Measured::not_offered(
                "it goes around the page cache, writes, or takes no times: nothing tells hits apart",
            ),
            (_, None) => {
                Measured::not_offered("this engine does not tell parts of an operation apart")
            }
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
    /// Bytes read from devices for each useful byte; `None` where nobody tells, or nothing was useful.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        let read = self.device_read_bytes?;
        (self.useful_bytes > 0).then(|| read as f64 / self.useful_bytes as f64)
    }

    /// As a line of a table; what it was done with comes from the workload.
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
            ledger: Ledger::all_missing(NOT_HERE),
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
                    Measured::not_offered("nothing was to take memory"),
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
    /// As a line of a table.
    #[must_use]
    pub fn row(&self) -> Row {
        let mut row = self.figures.row_of(&self.workload, "total");
        let resident = |pages: Option<u64>| {
            pages.map_or(
                Measured::unknown("nobody tells this user what is resident"),
                Measured::Exact,
            )
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
