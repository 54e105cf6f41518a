//! Output in large pieces: a system call for each row costs as much as the row's file.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use cachewise_cli::output::Sink;

/// Maximum delay of a row for a reader of the stream, while rows come.
const MAX_DELAY: Duration = Duration::from_millis(100);

/// A sink that is flushed at intervals.
pub struct Batched {
    out: BufWriter<Sink>,
    /// `None`: each row is flushed, as in a repeated list.
    flushed: Option<Instant>,
}

impl Batched {
    /// Batches writes to a sink, unless each row must appear at once.
    pub fn new(sink: Sink, each_row: bool) -> Batched {
        Batched {
            out: BufWriter::with_capacity(64 << 10, sink),
            flushed: (!each_row).then(Instant::now),
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
        match &mut self.flushed {
            Some(flushed) if flushed.elapsed() < MAX_DELAY => Ok(()),
            Some(flushed) => {
                *flushed = Instant::now();
                self.out.flush()
            }
            None => self.out.flush(),
        }
    }
}
