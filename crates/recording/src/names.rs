//! Texts that stand in a recording once and are numbers from then on.
//!
//! Reasons stand there by their codes. Earlier versions wrote the words instead, and both are read.

use std::collections::HashMap;

use cachewise_model::Reason;

use crate::varint::{Input, Malformed, put};

/// Longer ones are cut on writing and refused on reading: a path has 4,096 bytes at most, a command line
/// may have more than anybody wants to read.
pub(crate) const LONGEST: usize = 8 << 10;
/// Between two key frames.
const MOST: usize = 1 << 20;
/// Of all texts between two key frames.
const MOST_BYTES: usize = 64 << 20;

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

    /// A reason; [`Reason::OtherReason`] for the text of another version.
    pub(crate) fn reason(&self, number: u64) -> Result<Reason, Malformed> {
        Ok(reason(self.text(number)?))
    }

    pub(crate) fn clear(&mut self) {
        self.texts.clear();
        self.bytes = 0;
    }
}

/// The reason with this code; [`Reason::OtherReason`] for that of another version.
pub(crate) fn reason(text: &[u8]) -> Reason {
    let text = std::str::from_utf8(text).ok();
    text.and_then(Reason::find).unwrap_or(Reason::OtherReason)
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
    fn reason_reads_codes_words_and_unknown_texts() {
        let (mut names, mut back) = (NamesOut::default(), NamesIn::default());
        for text in [
            Reason::NeedsProbe.code(),
            Reason::NeedsProbe.words(),
            "of a later version",
            "\u{e9}",
        ] {
            names.number(text.as_bytes());
        }
        names.number(b"\xff");
        let mut frame = Vec::new();
        names.tell(&mut frame);
        back.learn(&mut Input(&frame)).unwrap();
        for (number, reason) in [
            (0, Reason::NeedsProbe),
            (1, Reason::NeedsProbe),
            (2, Reason::OtherReason),
            (3, Reason::OtherReason),
            (4, Reason::OtherReason),
        ] {
            assert_eq!(back.reason(number), Ok(reason), "text {number}");
        }
        assert!(back.reason(5).is_err(), "a text that is not there");
    }
}
