//! Pages of a file, and the search for them in bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::path::PathBuf;

use cachewise_units::{PageRange, Pages};
use rustix::io::{ReadWriteFlags, preadv2};

use super::open_file::{OpenFile, WHOLE, WORTH};

/// Pages that are compared.
const COMPARED: u64 = 256;
/// Bytes of each page that are compared.
const COMPARED_BYTES: usize = 512;
/// Bytes of a word: memory is searched word by word.
const WORD: usize = 8;
/// Different bytes that the beginning of a piece has at least: zeros and blanks are everywhere.
const DIFFERENT_FIRST: usize = 8;
/// Different bytes that a piece has at least.
const DIFFERENT: usize = 16;
/// Bits of the filter before the table of words.
const FILTER_BITS: u32 = 16;

/// Pieces of the resident pages of a file.
pub struct Sample {
    /// The path of the file in the view of its process.
    pub path: PathBuf,
    /// All resident pages.
    pub resident: Pages,
    pieces: Vec<Vec<u8>>,
    found: Vec<bool>,
    /// The first words of each piece by value: one of them lies at a word's boundary wherever a copy begins.
    words: HashMap<u64, (usize, usize)>,
    filter: Vec<bool>,
}

impl Sample {
    /// Reads pages from the page cache; `None` if too few are resident or they cannot be read.
    pub fn of(open: OpenFile) -> Option<Sample> {
        let file = cachewise_residency::open(&open.link).ok()?;
        let page = cachewise_sys::page_size();
        let counts = cachewise_residency::query(&file, WHOLE).ok()?;
        if counts.cached.bytes(page) < WORTH {
            return None;
        }
        let map = cachewise_residency::map(&file, WHOLE).ok()?;
        let mut sample = Sample {
            path: open.path,
            resident: map.cached(),
            pieces: Vec::new(),
            found: Vec::new(),
            words: HashMap::new(),
            filter: vec![false; 1 << FILTER_BITS],
        };
        let mut buffer = vec![0; usize::try_from(page.get()).ok()?];
        for index in spread(&map.ranges, COMPARED) {
            if read_resident(&file, index * page.get(), &mut buffer) {
                sample.add(&buffer);
            }
        }
        (!sample.pieces.is_empty()).then_some(sample)
    }

    /// Adds the most varied piece of a page, unless it is too uniform or there is one like it.
    fn add(&mut self, page: &[u8]) {
        let starts = (0..page.len().saturating_sub(COMPARED_BYTES)).step_by(COMPARED_BYTES / 4);
        let pieces = starts.map(|start| &page[start..start + COMPARED_BYTES]);
        let varied = pieces.filter(|piece| {
            different(&piece[..2 * WORD]) >= DIFFERENT_FIRST && different(piece) >= DIFFERENT
        });
        let Some(piece) = varied.max_by_key(|piece| different(piece)) else {
            return;
        };
        let words = (0..WORD).map(|shift| (word_at(piece, shift), shift));
        let words: Vec<(u64, usize)> = words.collect();
        if words.iter().any(|(word, _)| self.words.contains_key(word)) {
            return;
        }
        for (word, shift) in words {
            self.words.insert(word, (self.pieces.len(), shift));
            self.filter[filter_bit(word)] = true;
        }
        self.pieces.push(piece.to_vec());
        self.found.push(false);
    }

    /// Looks for the pieces in bytes that begin at a word's boundary.
    pub fn search(&mut self, bytes: &[u8]) {
        for (number, chunk) in bytes.chunks_exact(WORD).enumerate() {
            let word = word_at(chunk, 0);
            if !self.filter[filter_bit(word)] {
                continue;
            }
            let Some(&(piece, shift)) = self.words.get(&word) else {
                continue;
            };
            let copy = (number * WORD).checked_sub(shift);
            let copy = copy.and_then(|start| bytes.get(start..start + COMPARED_BYTES));
            if copy == Some(&self.pieces[piece][..]) {
                self.found[piece] = true;
            }
        }
    }

    /// Bytes by which two searched parts have to overlap, so that no copy is missed.
    pub const OVERLAP: usize = COMPARED_BYTES + 2 * WORD;

    /// Pages that were compared.
    pub fn compared(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Those that were found.
    pub fn copied(&self) -> u64 {
        self.found.iter().filter(|found| **found).count() as u64
    }
}

/// Page numbers from these ranges, at equal distances.
fn spread(ranges: &[PageRange], number: u64) -> Vec<u64> {
    let all: u64 = ranges.iter().map(|range| range.len().0).sum();
    let step = all.div_ceil(number).max(1);
    let (mut before, mut chosen) = (0_u64, Vec::new());
    for range in ranges {
        let length = range.len().0;
        let first = before.div_ceil(step) * step - before;
        let offsets = (first..length).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        chosen.extend(offsets.map(|offset| range.start + offset));
        before += length;
    }
    chosen
}

/// Reads a whole page if it is resident.
fn read_resident(file: &File, offset: u64, buffer: &mut [u8]) -> bool {
    let wanted = buffer.len();
    let read = preadv2(
        file,
        &mut [IoSliceMut::new(buffer)],
        offset,
        ReadWriteFlags::NOWAIT,
    );
    read == Ok(wanted)
}

fn word_at(bytes: &[u8], start: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[start..start + WORD]);
    u64::from_ne_bytes(word)
}

fn filter_bit(word: u64) -> usize {
    // Fibonacci hashing.
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FILTER_BITS)) as usize
}

fn different(bytes: &[u8]) -> usize {
    let mut seen = [false; 256];
    bytes
        .iter()
        .for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|seen| **seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pages: &[Vec<u8>]) -> Sample {
        let mut sample = Sample {
            path: PathBuf::new(),
            resident: Pages(pages.len() as u64),
            pieces: Vec::new(),
            found: Vec::new(),
            words: HashMap::new(),
            filter: vec![false; 1 << FILTER_BITS],
        };
        pages.iter().for_each(|page| sample.add(page));
        sample
    }

    fn pages(number: usize) -> Vec<Vec<u8>> {
        let mut random = fastrand::Rng::with_seed(7);
        let page = |_| {
            std::iter::repeat_with(|| random.u8(..))
                .take(4096)
                .collect()
        };
        (0..number).map(page).collect()
    }

    #[test]
    fn copies_are_found_at_every_offset() {
        let pages = pages(16);
        let mut found = sample(&pages);
        assert_eq!(found.compared(), 16);
        let mut memory = Vec::new();
        for (number, page) in pages.iter().enumerate() {
            memory.resize(memory.len() + number, 0);
            memory.extend_from_slice(page);
        }
        found.search(&memory);
        assert_eq!(found.copied(), 16, "whatever is before them");
    }

    #[test]
    fn other_data_is_no_copy() {
        let mut all = pages(32);
        let others = all.split_off(16);
        let mut sample = sample(&all);
        sample.search(&others.concat());
        assert_eq!(sample.copied(), 0);
        let mut changed = all[0].clone();
        changed.iter_mut().step_by(64).for_each(|byte| *byte ^= 1);
        sample.search(&changed);
        assert_eq!(sample.copied(), 0, "similar data");
    }

    #[test]
    fn uniform_and_equal_pages_are_not_compared() {
        let text = b"abcdefgh".repeat(512);
        let page = pages(1).remove(0);
        let sample = sample(&[vec![0; 4096], text, page.clone(), page]);
        assert_eq!(sample.compared(), 1, "they are everywhere, or the same");
    }

    #[test]
    fn pages_are_spread_over_all_ranges() {
        let range = |start, end| PageRange { start, end };
        let ranges = [range(0, 10), range(100, 110), range(1000, 1010)];
        assert_eq!(spread(&ranges, 6), [0, 5, 100, 105, 1000, 1005]);
        assert_eq!(spread(&ranges[..1], 100).len(), 10, "all there are");
        assert_eq!(spread(&[], 100), [0; 0]);
    }
}
