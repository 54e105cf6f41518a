//! [`RowWriters`]: the same rows in several formats at once.

use std::io::{self, Write};

use cachewise_model::{Lost, Row};

use super::RowWriter;
use crate::format::Format;

/// Writers of the same rows, each with its own format, columns and output.
#[derive(Debug)]
pub struct RowWriters<W> {
    writers: Vec<RowWriter<W>>,
}

impl<W: Write> RowWriters<W> {
    /// Writers of the same rows.
    pub fn new(writers: impl IntoIterator<Item = RowWriter<W>>) -> Self {
        RowWriters {
            writers: writers.into_iter().collect(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }

    /// Sets the losses so far; see [`RowWriter::set_lost`].
    pub fn set_lost(&mut self, lost: &[Lost]) {
        self.writers
            .iter_mut()
            .for_each(|writer| writer.set_lost(lost));
    }

    /// Sets the room of each table that has a limit to its room.
    pub fn set_room(&mut self, room: Option<usize>) {
        let limited = self.writers.iter_mut();
        let limited = limited.filter(|writer| writer.options.room.is_some());
        limited.for_each(|writer| writer.set_room(room));
    }

    /// Widens the columns of tables for a later row; see [`RowWriter::fit`].
    pub fn fit(&mut self, row: &Row) {
        self.writers.iter_mut().for_each(|writer| writer.fit(row));
    }

    /// Writes a row to each.
    ///
    /// # Errors
    /// The first error of an output, after the row was written to the others.
    pub fn write(&mut self, row: &Row) -> io::Result<()> {
        self.each(|writer| writer.write(row))
    }

    /// Writes the ends; see [`RowWriter::finish`]. Returns the outputs in their order.
    ///
    /// # Errors
    /// The first error of an output, after the others were written.
    pub fn finish(self, total: Option<&Row>) -> io::Result<Vec<W>> {
        self.finish_by(|_| total.cloned())
    }

    /// Writes the ends, each with the total for its format.
    ///
    /// # Errors
    /// The first error of an output, after the others were written.
    pub fn finish_by(self, total: impl Fn(Format) -> Option<Row>) -> io::Result<Vec<W>> {
        let ended = self.writers.into_iter().map(|writer| {
            let total = total(writer.format());
            writer.finish(total.as_ref())
        });
        // Not stopped by an error: the other outputs are to be complete.
        let ended: Vec<io::Result<W>> = ended.collect();
        ended.into_iter().collect()
    }

    fn each(
        &mut self,
        mut write: impl FnMut(&mut RowWriter<W>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut first = Ok(());
        for writer in &mut self.writers {
            first = first.and(write(writer));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{columns, options, row};
    use super::*;

    #[test]
    fn all_formats_get_the_same_rows() {
        let of = |format| RowWriter::new(Vec::new(), format, &columns("REQUESTED"), options());
        let mut writers = RowWriters::new([of(Format::Table), of(Format::Csv)]);
        writers.write(&row(4096, 0)).unwrap();
        let texts = writers.finish(None).unwrap();
        let texts: Vec<String> = texts
            .into_iter()
            .map(|text| String::from_utf8(text).unwrap())
            .collect();
        assert_eq!(
            texts,
            [
                "REQUESTED\n    4,096\n",
                "read_requested_pages,reasons,reason_codes\n4096,,\n"
            ]
        );
    }
}
