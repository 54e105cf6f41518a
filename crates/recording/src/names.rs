//! Texts that stand in a recording once and are numbers from then on.
//!
//! Reasons are `&'static str` in the model. Those of a recording are made so on reading: there are a few
//! dozen, and what claims to be more than [`MOST_REASONS`] gets one reason for all.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::varint::{Input, Malformed, put};

/// Longer ones are cut on writing and refused on reading: a path has 4,096 bytes at most, a command line
/// may have more than anybody wants to read.
pub(crate) const LONGEST: usize = 8 << 10;
/// Between two key frames.
const MOST: usize = 1 << 20;
/// Of all texts between two key frames.
const MOST_BYTES: usize = 64 << 20;

const MOST_REASONS: usize = 1024;
const LONGEST_REASON: usize = 1024;
const TOO_MANY: &str = "for a reason that was recorded and is one of too many";

/// The writer's side.
#[derive(Debug, Default)]
pub(crate) struct NamesOut {
    numbers: HashMap<Vec<u8>, u64>,
    /// How many of them the reader knows already.
    told: u64,
    news: Vec<u8>,
}

impl NamesOut {
    pub(crate) fn number(&mut self, text: &[u8]) -> u64 {
        let text = &text[..text.len().min(LONGEST)];
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u64;
        self.numbers.insert(text.to_owned(), number);
        put(&mut self.news, text.len() as u64);
        self.news.extend_from_slice(text);
        number
    }

    /// Writes what is new since the last call.
    pub(crate) fn tell(&mut self, out: &mut Vec<u8>) {
        let now = self.numbers.len() as u64;
        put(out, now - self.told);
        out.append(&mut self.news);
        self.told = now;
    }

    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
        self.news.clear();
        self.told = 0;
    }
}

/// The reader's side.
#[derive(Debug, Default)]
pub(crate) struct NamesIn {
    texts: Vec<Box<[u8]>>,
    bytes: usize,
}

impl NamesIn {
    pub(crate) fn learn(&mut self, input: &mut Input<'_>) -> Result<(), Malformed> {
        let news = input.at_most(MOST - self.texts.len(), "too many names")?;
        for _ in 0..news {
            let length = input.at_most(LONGEST, "a name is too long")?;
            self.bytes += length;
            if self.bytes > MOST_BYTES {
                return Err(Malformed("names take too much room"));
            }
            self.texts.push(input.bytes(length)?.into());
        }
        Ok(())
    }

    pub(crate) fn text(&self, number: u64) -> Result<&[u8], Malformed> {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.texts.get(number))
            .map(AsRef::as_ref)
            .ok_or(Malformed("a name was never told"))
    }

    pub(crate) fn string(&self, number: u64) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.text(number)?).into_owned())
    }

    pub(crate) fn reason(&self, number: u64) -> Result<&'static str, Malformed> {
        Ok(reason(&String::from_utf8_lossy(self.text(number)?)))
    }

    pub(crate) fn clear(&mut self) {
        self.texts.clear();
        self.bytes = 0;
    }
}

/// The same text for as long as the program runs.
fn reason(text: &str) -> &'static str {
    static KNOWN: LazyLock<Mutex<Reasons>> = LazyLock::new(Mutex::default);
    KNOWN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(text)
}

#[derive(Debug, Default)]
struct Reasons(HashSet<&'static str>);

impl Reasons {
    fn get(&mut self, text: &str) -> &'static str {
        match self.0.get(text) {
            Some(reason) => reason,
            None if self.0.len() >= MOST_REASONS || text.len() > LONGEST_REASON => TOO_MANY,
            None => {
                let reason: &'static str = Box::leak(text.into());
                self.0.insert(reason);
                reason
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_once() {
        let (mut names, mut back) = (NamesOut::default(), NamesIn::default());
        let mut frame = Vec::new();
        assert_eq!(
            [b"dd", b"cp", b"dd"].map(|name| names.number(name)),
            [0, 1, 0],
            "the same name has the same number"
        );
        names.tell(&mut frame);
        names.number(b"dd");
        let first = frame.len();
        names.tell(&mut frame);
        assert_eq!(frame.len() - first, 1, "nothing new is one byte");
        let mut input = Input(&frame);
        back.learn(&mut input).unwrap();
        back.learn(&mut input).unwrap();
        assert_eq!(back.text(1), Ok(&b"cp"[..]), "it comes back");
        assert!(back.text(2).is_err(), "what was never told does not");
    }

    #[test]
    fn reasons_are_the_same_and_bounded() {
        let mut reasons = Reasons::default();
        let first = reasons.get("permission");
        assert!(
            std::ptr::eq(first, reasons.get("permission")),
            "one text, however often it is read"
        );
        for number in 0..MOST_REASONS {
            reasons.get(&format!("made up {number}"));
        }
        assert_eq!(
            reasons.get("one more"),
            TOO_MANY,
            "a garbage file does not fill memory"
        );
        assert_eq!(
            reasons.get("permission"),
            "permission",
            "what is known stays"
        );
    }
}
