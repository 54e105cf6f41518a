//! A recording by number: stepping through time, back and forth.

use std::path::Path;

use crate::error::Error;
use crate::reader::{Position, Reader};
use crate::sample::Sample;
use crate::session::Session;
use crate::summary::Range;

/// The samples of a recording in a range of time, by number: 0 is the first of them.
///
/// # Cost
/// Opening reads the whole recording once; a step forth reads one sample, any other as many as there are
/// since the last key frame.
#[derive(Debug)]
pub struct History {
    reader: Reader,
    /// The number of the sample at each key frame, and where it is.
    keys: Vec<(usize, Position)>,
    /// The numbers of those that are in the range.
    chosen: Vec<usize>,
    problems: Vec<String>,
    /// The number of the sample that the reader returns next.
    next: usize,
}

impl History {
    /// Opens a recording.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next`].
    pub fn open(path: &Path, range: Range) -> Result<History, Error> {
        let mut reader = Reader::open(path)?;
        let (mut keys, mut chosen, mut number) = (Vec::new(), Vec::new(), 0);
        while let Some(sample) = reader.next()? {
            keys.extend(reader.position().map(|position| (number, position)));
            if range.has(&sample) {
                chosen.push(number);
            }
            number += 1;
        }
        let problems = reader.told();
        Ok(History {
            reader,
            keys,
            chosen,
            problems,
            next: number,
        })
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Returns the problems found so far, as text.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the session of the last requested sample.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.reader.session()
    }

    /// A sample by its number; none beyond the last.
    ///
    /// # Errors
    /// If the file cannot be read any more, or went to another name.
    pub fn get(&mut self, number: usize) -> Result<Option<Sample>, Error> {
        let Some(&number) = self.chosen.get(number) else {
            return Ok(None);
        };
        let key = self.keys.partition_point(|(first, _)| *first <= number);
        let Some((first, position)) = key.checked_sub(1).map(|key| self.keys[key]) else {
            return Ok(None);
        };
        if self.next > number || self.next < first {
            // After a failed seek the reader's position is unknown.
            self.next = usize::MAX;
            self.reader.seek(position)?;
            self.next = first;
        }
        loop {
            let sample = self.reader.next()?;
            let Some(sample) = sample else {
                return Ok(None);
            };
            self.next += 1;
            if self.next > number {
                return Ok(Some(sample));
            }
        }
    }
}
