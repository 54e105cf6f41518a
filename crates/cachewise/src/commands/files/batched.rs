//! Output in large pieces: rows are flushed one by one, and a system call for each costs as much as its file.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use cachewise_cli::output::Sink;

/// Maximum delay of a row for a reader of the stream, while rows come.
const MAX_DELAY: Duration = Duration::from_millis(100);

/// A sink that is flushed when it pays.
pub struct Batched {
    out: BufWriter<Sink>,
    /// `None`: each row counts, as in a list that goes on.
    flushed: Option<Instant>,
}

impl Batched {
    /// Batches what is written to a sink, unless each row is to be seen at once.
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
