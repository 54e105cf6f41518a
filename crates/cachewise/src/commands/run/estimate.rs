//! The report where there is no probe: what procfs and the kernel's resource usage tell, marked as the
//! estimates that they are. A hit rate is not among them: read calls of pipes, sockets and tmpfs look
//! like hits there, and read-ahead makes misses of more than 100 %.

use cachewise_model::{Counter, Ledger, Measured, Missing, Report};

use cachewise_cli::child::Course;

const NEEDS_PROBE: Missing = Missing::NotOffered("only the probe can count it");
const OWN_CALLS: &str = "read calls of the process itself, pipes and sockets included";
const OWN_WRITES: &str = "write calls of the process itself, pipes and sockets included";
const TREE_DEVICE: &str = "resource usage of the processes that were waited for";
const OWN_DEVICE: &str = "I/O account of the process itself";

/// What the process's own account tells.
const OF_CALLS: [Counter; 4] = [
    Counter::ReadRequestedBytes,
    Counter::ReadRequests,
    Counter::WriteBytes,
    Counter::WriteRequests,
];

/// Fills in what there is.
pub fn fill(report: &mut Report, course: &Course) {
    let mut totals = Ledger::all_missing(NEEDS_PROBE);
    if course.io.is_none() {
        let ended = Missing::Unknown("the process ended before it could be looked at");
        for counter in OF_CALLS {
            totals.set(counter, 0);
            totals.set_missing(counter, ended);
        }
    }
    if let Some(io) = &course.io {
        totals.set_estimated(Counter::ReadRequestedBytes, io.rchar.0, OWN_CALLS);
        totals.set_estimated(Counter::ReadRequests, io.syscr, OWN_CALLS);
        totals.set_estimated(Counter::WriteBytes, io.wchar.0, OWN_WRITES);
        totals.set_estimated(Counter::WriteRequests, io.syscw, OWN_WRITES);
        report.device_read_bytes = Measured::Estimated(io.read_bytes.0, OWN_DEVICE);
        report.device_write_bytes = Measured::Estimated(
            io.write_bytes.saturating_sub(io.cancelled_write_bytes).0,
            OWN_DEVICE,
        );
    }
    if let Some(usage) = course.usage {
        report.cpu_user_seconds = Measured::Exact(usage.user.as_secs_f64());
        report.cpu_system_seconds = Measured::Exact(usage.system.as_secs_f64());
        report.device_read_bytes = Measured::Estimated(usage.device_read.0, TREE_DEVICE);
        report.device_write_bytes = Measured::Estimated(usage.device_written.0, TREE_DEVICE);
    }
    report.totals = totals;
}
