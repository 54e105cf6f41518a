//! Rows of `order`.

use cachewise_cli::output::Sink;
use cachewise_model::Field;
use cachewise_view::{RowOptions, RowWriter};

/// A writer of rows, with another header where columns get wider.
pub fn row_writer(sink: Sink, columns: &[&'static Field]) -> RowWriter<Sink> {
    let options = RowOptions {
        header_every: Some(usize::MAX),
        ..sink.row_options()
    };
    let format = sink.format;
    RowWriter::new(sink, format, columns, options)
}
