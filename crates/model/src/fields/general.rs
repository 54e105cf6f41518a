//! Fields other than counters: labels, derived numbers, gauges.
//!
//! Ratios are calculated only here. Ratios cannot be summed, so exporters also export hits and
//! totals.

use crate::counter::Counter;
use crate::field::{Field, fields};
use crate::kind::Kind;
use crate::measured::NOT_APPLICABLE;
use crate::unit::Unit;
use crate::value::{Datum, Value};

pub(crate) const LABEL_FIELDS: [Field; 19] = fields! {
    "time", "TIME", ["timestamp"], Time, Label,
        |row| row.labels.time.clone().map(Datum::Time),
        "Time of the row, RFC 3339";
    "pid", "PID", [], Id, Label,
        |row| row.labels.pid.map(|pid| Datum::Id(pid.into())),
        "Process id (thread group)";
    "ppid", "PPID", [], Id, Label,
        |row| row.labels.ppid.map(|pid| Datum::Id(pid.into())),
        "Process id of the parent";
    "command", "COMMAND", ["comm"], Text, Label,
        |row| row.labels.command.clone().map(Datum::Text),
        "Name of the program";
    "command_line", "ARGS", ["cmdline"], Text, Label,
        |row| row.labels.command_line.clone().map(Datum::Text),
        "The program with its arguments";
    "started", "STARTED", [], Id, Label,
        |row| row.labels.started.map(Datum::Id),
        "Start of the process in nanoseconds since boot: distinguishes processes that reuse an id";
    "path", "PATH", ["file"], Text, Label,
        |row| row.labels.path.clone().map(Datum::Path),
        "Path of the file; the last known path if it was deleted";
    "label", "LABEL", [], Text, Label,
        |row| row.labels.label.clone().map(Datum::Text),
        "Label of the file, from the list of --label";
    "cgroup", "CGROUP", [], Text, Label,
        |row| row.labels.cgroup.clone().map(Datum::Text),
        "Control group of the task";
    "group_name", "NAME", [], Text, Label,
        |row| row.labels.group.shown().map(Datum::Text),
        "Name that people use for the control group: pod/container, container, pod, or systemd unit";
    "unit", "UNIT", [], Text, Label,
        |row| row.labels.group.unit.clone().map(Datum::Text),
        "systemd unit of the control group: a service, scope, socket or mount";
    "container", "CONTAINER", [], Text, Label,
        |row| row.labels.group.container.clone().map(Datum::Text),
        "Name of the container of the control group";
    "container_id", "CONTAINER-ID", [], Text, Label,
        |row| row.labels.group.container_id.clone().map(Datum::Text),
        "Id of the container of the control group";
    "pod", "POD", [], Text, Label,
        |row| row.labels.group.pod.clone().map(Datum::Text),
        "Pod of the control group, with its namespace: NAMESPACE/NAME";
    "filesystem", "FILESYSTEM", ["fs"], Text, Label,
        |row| row.labels.filesystem.clone().map(Datum::Text),
        "Type of the file system";
    "device", "DEVICE", [], Text, Label,
        |row| row.labels.device.clone().map(Datum::Text),
        "Device of the file system, major:minor";
    "inode", "INODE", [], Id, Label,
        |row| row.labels.inode.map(Datum::Id),
        "Inode number of the file";
    "exit_status", "EXIT", [], Text, Label,
        |row| row.labels.exit.clone().map(Datum::Text),
        "Exit status or signal of the process, or that it still runs";
    "note", "NOTE", [], Text, Label,
        |row| row.labels.note.clone().map(Datum::Text),
        "Notes on the row: deleted, the reason why pages stayed or a number is unknown";
};

pub(crate) const DERIVED_FIELDS: [Field; 13] = fields! {
    "read_bytes", "READ", [], Bytes, Counter,
        |row| row.ledger.read_bytes().bytes(),
        "Bytes that reads moved through the page cache: requested minus unserved; unknown for the kernel's own reads (execve)";
    "read_cached_pages", "CACHED", ["reuse_pages", "reuse"], Pages, Counter,
        |row| row.ledger.read_cached_pages().pages(),
        "Cache hits that cost no I/O of this run: hits minus readahead hits";
    "reuse_ratio", "REUSE%", [], Ratio, Gauge,
        |row| Value::ratio(row.ledger.read_cached_pages().ratio_of(row.ledger.get(Counter::ReadRequestedPages))),
        "Share of requested pages that came from the cache without I/O of this run: hits minus readahead hits, over requested pages";
    "read_hit_ratio", "HIT%", ["present%"], Ratio, Gauge,
        |row| Value::ratio(row.ledger.hits().ratio_of(row.ledger.get(Counter::ReadRequestedPages))),
        "Share of requested pages that were in the cache when reached; includes readahead hits, so a cold sequential read shows nearly 1";
    "fault_hit_pages", "FLT-HIT", [], Pages, Counter,
        |row| row.ledger.fault_hits().pages(),
        "Faulting pages that were in the page cache";
    "fault_hit_ratio", "FLT-HIT%", [], Ratio, Gauge,
        |row| {
            let faults = row.ledger.get(Counter::FaultRequests);
            Value::ratio(row.ledger.fault_hits().ratio_of(faults))
        },
        "Share of page faults on file mappings whose page was in the page cache";
    "overwritten_pages", "OVERWRITTEN", [], Pages, Counter,
        |row| row.ledger.overwritten_pages().pages(),
        "Written pages that were already in the page cache";
    "direct_bytes", "DIRECT", [], Bytes, Counter,
        |row| row.ledger.direct_bytes().bytes(),
        "Bytes that direct I/O read and wrote (O_DIRECT)";
    "fetched_bytes", "FETCHED", ["disk_read"], Bytes, Counter,
        |row| row.ledger.fetched_bytes(row.page_size).bytes(),
        "Bytes read from storage: pages of misses, readahead, prefetch and page faults, and direct reads; without file-system metadata";
    "evicted_pages", "EVICTED", [], Pages, Counter,
        |row| row.ledger.evicted_pages().pages(),
        "Pages evicted from the page cache, by reclaim or otherwise";
    "inserted_pages", "INSERTED", [], Pages, Counter,
        |row| row.ledger.inserted_pages().pages(),
        "Pages inserted into the page cache for any reason";
    "read_average_bytes", "AVG-READ", [], Bytes, Gauge,
        |row| row.ledger.average_read().bytes(),
        "Average size of a read request";
    "waited_seconds", "WAITED", ["waited"], Seconds, Counter,
        |row| row.ledger.waited().map(|time| Datum::of(Unit::Seconds, time)),
        "Time that tasks waited for storage and memory: the sum of W-MISS, W-REFAULT, W-FLIGHT, W-FAULT, W-DIRECT, W-SYNC, \
         W-META, W-FS, W-DIRTY, W-RECLAIM and W-SWAP";
};

pub(crate) const GAUGE_FIELDS: [Field; 9] = fields! {
    "elapsed_seconds", "ELAPSED", [], Seconds, Gauge,
        |row| match row.elapsed.as_secs_f64() {
            0.0 => Value::Missing(NOT_APPLICABLE),
            seconds => Value::Exact(Datum::Seconds(seconds)),
        },
        "Length of the row's interval";
    "cpu_seconds", "CPU", [], Seconds, Counter,
        |row| Value::seconds(row.subject.cpu_seconds),
        "CPU time, user and system";
    "device_read_bytes", "DEV-READ", [], Bytes, Counter,
        |row| row.subject.device_read_bytes.bytes(),
        "Bytes read from storage devices, as the kernel accounts them";
    "device_write_bytes", "DEV-WRITE", [], Bytes, Counter,
        |row| row.subject.device_write_bytes.bytes(),
        "Bytes written to storage devices or bound for them, as the kernel accounts them";
    "device_busy_seconds", "DEV-BUSY", [], Seconds, Counter,
        |row| row.subject.device_busy_seconds.map(|time| Datum::of(Unit::Seconds, time)),
        "Time during which the storage device had a request in progress; the kernel samples it";
    "resident_before_pages", "BEFORE-PG", ["RES-BEFORE"], Pages, Gauge,
        |row| row.subject.resident_before_pages.pages(),
        "Pages of the file in the page cache before the run";
    "resident_after_pages", "AFTER-PG", ["RES-AFTER"], Pages, Gauge,
        |row| row.subject.resident_after_pages.pages(),
        "Pages of the file in the page cache after the run";
    "file_size_bytes", "SIZE", [], Bytes, Gauge,
        |row| row.subject.file_size_bytes.bytes(),
        "Size of the file";
    "lost_events", "LOST", [], Count, Counter,
        |row| row.subject.lost_events.count(),
        "Events not counted, or only as part of a sum: if it is not 0, other counters are lower bounds or lack names";
};
