//! The report without a probe: numbers of procfs and resource usage, marked as estimates. It has no hit ratio, as read
//! calls on pipes, sockets and tmpfs look like hits there, and readahead makes misses of more than 100 %.

use cachewise_model::{Counter, Interval, Ledger, Measured, Missing, Reason};

use cachewise_cli::child::Course;

const NEEDS_PROBE: Missing = Missing::NotOffered(Reason::NeedsProbe);

/// Counters that the account of a process in procfs has.
const OF_CALLS: [Counter; 4] = [
    Counter::ReadRequestedBytes,
    Counter::ReadRequests,
    Counter::WriteBytes,
    Counter::WriteRequests,
];

/// Fills in what there is.
pub fn fill(interval: &mut Interval, course: &Course) {
    let mut totals = Ledger::all_missing(NEEDS_PROBE);
    if course.io.is_none() {
        let ended = Missing::Unknown(Reason::EndedBeforeRead);
        for counter in OF_CALLS {
            totals.set(counter, 0);
            totals.set_missing(counter, ended);
        }
    }
    if let Some(io) = &course.io {
        totals.set_estimated(
            Counter::ReadRequestedBytes,
            io.rchar.0,
            Reason::OwnReadCalls,
        );
        totals.set_estimated(Counter::ReadRequests, io.syscr, Reason::OwnReadCalls);
        totals.set_estimated(Counter::WriteBytes, io.wchar.0, Reason::OwnWriteCalls);
        totals.set_estimated(Counter::WriteRequests, io.syscw, Reason::OwnWriteCalls);
        interval.device_read_bytes = Measured::Estimated(io.read_bytes.0, Reason::OwnIoAccount);
        interval.device_write_bytes = Measured::Estimated(
            io.write_bytes.saturating_sub(io.cancelled_write_bytes).0,
            Reason::OwnIoAccount,
        );
    }
    if let Some(usage) = course.usage {
        interval.run_mut().cpu_user_seconds = Measured::Exact(usage.user.as_secs_f64());
        interval.run_mut().cpu_system_seconds = Measured::Exact(usage.system.as_secs_f64());
        interval.device_read_bytes =
            Measured::Estimated(usage.device_read.0, Reason::WaitedForUsage);
        interval.device_write_bytes =
            Measured::Estimated(usage.device_written.0, Reason::WaitedForUsage);
    }
    interval.ledger = totals;
}
