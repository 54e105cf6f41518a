//! Rows of cells as differences: to the same row of the sample before, or to a row of zeros where there is
//! none.
//!
//! A row says which of the rows since the key frame it continues ([`NEW`]: none), then which columns have
//! changed and by how much. Rows that are not in a sample keep their place until the next key frame.

use std::collections::HashMap;

use crate::varint::{Input, Malformed, apply, difference, put};

/// A number with its quality: 0 is exact; others are made of a reason's number by `cells`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub value: u64,
    pub quality: u64,
}

/// A row that is a difference to zeros.
const NEW: u64 = 0;

/// Before the writer has more cells than this in mind, it begins anew with a key frame.
pub(crate) const ENOUGH_CELLS: usize = 1 << 20;
/// Maximum number of cells that the reader keeps: 64 MiB.
const MOST_CELLS: usize = 4 << 20;
/// More rows than this are in no sample.
pub(crate) const MOST_ROWS: usize = 16 << 10;

/// The writer's side of one table.
#[derive(Debug, Default)]
pub(crate) struct TableOut {
    rows: Vec<Vec<Cell>>,
    places: HashMap<Vec<Cell>, usize>,
}

impl TableOut {
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.places.clear();
    }

    pub(crate) fn cells(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// Writes the rows of a sample; the first `key` cells of a row say which one it is.
    pub(crate) fn put(&mut self, rows: &[Vec<Cell>], key: usize, out: &mut Vec<u8>) {
        put(out, rows.len() as u64);
        let mut expected = 0;
        for row in rows {
            let known = self.places.get(&row[..key]).copied();
            let place = known.unwrap_or(self.rows.len());
            match known {
                Some(place) => {
                    put(out, 1 + difference(place as u64, expected));
                }
                None => {
                    put(out, NEW);
                    self.places.insert(row[..key].to_owned(), place);
                    self.rows.push(vec![Cell::default(); row.len()]);
                }
            }
            expected = place as u64 + 1;
            let mut gap = 0;
            for (before, now) in self.rows[place].iter_mut().zip(row) {
                if before == now {
                    gap += 1;
                    continue;
                }
                let changed = before.quality != now.quality;
                put(out, 1 + (gap << 1 | u64::from(changed)));
                if changed {
                    put(out, now.quality);
                }
                put(out, difference(now.value, before.value));
                *before = *now;
                gap = 0;
            }
            put(out, 0);
        }
    }
}

/// The reader's side of all tables.
#[derive(Debug, Default)]
pub(crate) struct TablesIn {
    tables: Vec<Vec<Vec<Cell>>>,
    cells: usize,
}

impl TablesIn {
    pub(crate) fn clear(&mut self) {
        self.tables.clear();
        self.cells = 0;
    }

    /// Reads the rows of a sample in a table; `each` gets them in their order.
    pub(crate) fn take(
        &mut self,
        table: usize,
        width: usize,
        input: &mut Input<'_>,
        mut each: impl FnMut(&[Cell]) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if self.tables.len() <= table {
            self.tables.resize_with(table + 1, Vec::new);
        }
        let rows = &mut self.tables[table];
        let mut expected = 0;
        for _ in 0..input.at_most(MOST_ROWS, "too many rows")? {
            let place = match input.number()? {
                NEW => {
                    self.cells += width.max(1);
                    if self.cells > MOST_CELLS {
                        return Err(Malformed("too many cells"));
                    }
                    rows.push(vec![Cell::default(); width]);
                    rows.len() - 1
                }
                place => usize::try_from(apply(place - 1, expected))
                    .ok()
                    .filter(|place| *place < rows.len())
                    .ok_or(Malformed("a row continues one that was never there"))?,
            };
            expected = place as u64 + 1;
            let row = &mut rows[place];
            let mut column = 0;
            loop {
                let token = input.number()?;
                if token == 0 {
                    break;
                }
                let gap = usize::try_from((token - 1) >> 1).map_err(|_| PAST)?;
                let cell = usize::checked_add(column, gap)
                    .and_then(|column| row.get_mut(column))
                    .ok_or(PAST)?;
                column += gap + 1;
                if (token - 1) & 1 == 1 {
                    cell.quality = input.number()?;
                }
                cell.value = apply(input.number()?, cell.value);
            }
            each(row)?;
        }
        Ok(())
    }
}

const PAST: Malformed = Malformed("a row has more columns than its table");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cells(width: usize) -> impl Strategy<Value = Vec<Cell>> {
        let cell = (prop_oneof![0..4_u64, any::<u64>()], 0..3_u64)
            .prop_map(|(value, quality)| Cell { value, quality });
        proptest::collection::vec(cell, width)
    }

    proptest! {
        #[test]
        fn rows_come_back(samples in proptest::collection::vec(proptest::collection::vec(cells(5), 0..6), 0..6)) {
            let mut out = TableOut::default();
            let mut back = TablesIn::default();
            for rows in samples {
                let mut bytes = Vec::new();
                out.put(&rows, 1, &mut bytes);
                let mut input = Input(&bytes);
                let mut read = Vec::new();
                back.take(2, 5, &mut input, |row| { read.push(row.to_vec()); Ok(()) }).unwrap();
                prop_assert_eq!(read, rows, "in their order, whichever they continue");
                prop_assert!(input.0.is_empty(), "and nothing is left");
            }
        }

        #[test]
        fn garbage_is_no_panic(bytes: Vec<u8>) {
            let mut back = TablesIn::default();
            let mut input = Input(&bytes);
            while !input.0.is_empty() && back.take(0, 3, &mut input, |_| Ok(())).is_ok() {}
        }
    }

    #[test]
    fn a_row_as_before_is_two_bytes() {
        let mut out = TableOut::default();
        let rows = vec![vec![
            Cell {
                value: 7,
                quality: 0
            };
            80
        ]];
        let mut bytes = Vec::new();
        out.put(&rows, 2, &mut bytes);
        bytes.clear();
        out.put(&rows, 2, &mut bytes);
        assert_eq!(bytes, [1, 1, 0], "one row, the next one, nothing changed");
    }
}
