//! A recording by number: stepping through time, back and forth.

use std::path::Path;

use crate::error::{Error, Problem};
use crate::reader::{Position, Reader};
use crate::sample::Sample;
use crate::session::Session;

/// The samples of a recording, by number.
///
/// # Cost
/// Opening reads the whole recording once; a step forth reads one sample, any other as many as there are
/// since the last key frame.
#[derive(Debug)]
pub struct History {
    reader: Reader,
    /// The number of the sample at each key frame, and where it is.
    keys: Vec<(usize, Position)>,
    length: usize,
    problems: Vec<Problem>,
    /// What the reader gives next.
    next: usize,
}

impl History {
    /// Opens a recording.
    ///
    /// # Errors
    /// As [`Reader::open`] and [`Reader::next`].
    pub fn open(path: &Path) -> Result<History, Error> {
        let mut reader = Reader::open(path)?;
        let (mut keys, mut length) = (Vec::new(), 0);
        while reader.next()?.is_some() {
            keys.extend(reader.position().map(|position| (length, position)));
            length += 1;
        }
        let problems = reader.problems().to_vec();
        Ok(History {
            reader,
            keys,
            length,
            problems,
            next: length,
        })
    }

    /// How many samples there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The session that the last sample asked for was of.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.reader.session()
    }

    /// A sample by its number; none beyond the last.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    pub fn get(&mut self, number: usize) -> Result<Option<Sample>, Error> {
        if number >= self.length {
            return Ok(None);
        }
        let key = self.keys.partition_point(|(first, _)| *first <= number);
        let Some((first, position)) = key.checked_sub(1).map(|key| self.keys[key]) else {
            return Ok(None);
        };
        if self.next > number || self.next < first {
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
