//! Output in large pieces: a system call for each row costs as much as the row's file.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use cachewise_cli::output::Sink;
use rustix::time::{ClockId, clock_gettime};

/// Maximum delay of a row for a reader of the stream, while rows come.
const MAX_DELAY: Duration = Duration::from_millis(100);

/// Time since boot to some milliseconds, which is read for each row: the exact clock costs four times as much.
pub fn coarse_now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A sink that is flushed at intervals.
pub struct Batched {
    out: BufWriter<Sink>,
    /// `None`: each row is flushed, as in a repeated list.
    flushed: Option<Duration>,
}

impl Batched {
    /// Batches writes to a sink, unless each row must appear at once.
    pub fn new(sink: Sink, each_row: bool) -> Batched {
        Batched {
            out: BufWriter::with_capacity(64 << 10, sink),
            flushed: (!each_row).then(coarse_now),
        }
    }

    /// Writes what is left, and gives the sink back.
    pub fn end(self) -> io::Result<Sink> {
        self.out
            .into_inner()
            .map_err(io::IntoInnerError::into_error)
    }
}

impl Write for Batched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(flushed) = &mut self.flushed {
            let now = coarse_now();
            if now.saturating_sub(*flushed) < MAX_DELAY {
                return Ok(());
            }
            *flushed = now;
        }
        self.out.flush()
    }
}
