//! Present memory of a process.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use cachewise_kstat::Kernel;

use super::sample::Sample;

/// Memory is read in parts of this many pages.
const PART: u64 = 256;
/// Bytes of an entry of `/proc/PID/pagemap`.
const ENTRY: usize = 8;
/// The bit of an entry whose page is in memory.
const PRESENT: u64 = 1 << 63;

/// Looks for the pages of samples in the anonymous and shared memory of a process, until `end`.
///
/// # Errors
/// The memory may not be read, or the process has ended.
pub fn search(kernel: &Kernel, pid: u32, samples: &mut [Sample], end: Instant) -> io::Result<()> {
    let ranges = kernel.own_ranges(pid).map_err(io::Error::other)?;
    let directory = kernel.proc(pid.to_string());
    let memory = File::open(directory.join("mem"))?;
    let map = File::open(directory.join("pagemap"))?;
    let mut buffer = Vec::new();
    for range in ranges {
        for present in present(&map, range)? {
            if Instant::now() >= end {
                return Ok(());
            }
            let length = usize::try_from(present.end - present.start).unwrap_or(0);
            buffer.resize(length, 0);
            // Pages that the process gives back meanwhile end the part.
            let read = memory.read_at(&mut buffer, present.start).unwrap_or(0);
            for sample in &mut *samples {
                sample.search(&buffer[..read]);
            }
        }
    }
    Ok(())
}

/// The parts of a range of addresses whose pages are in memory, each of at most [`PART`] pages and those that it shares
/// with the part before.
fn present(map: &File, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let page = cachewise_sys::page_size().get();
    let overlap = (Sample::OVERLAP as u64).div_ceil(page);
    let mut parts: Vec<Range<u64>> = Vec::new();
    let (mut next, last) = (range.start / page, range.end / page);
    let mut entries = vec![0; ENTRY * PART as usize];
    while next < last {
        let number = PART.min(last - next);
        let wanted = &mut entries[..ENTRY * number as usize];
        let read = map.read_at(wanted, next * ENTRY as u64)?;
        if read < ENTRY {
            break;
        }
        for entry in wanted[..read].chunks_exact(ENTRY) {
            let mut word = [0; ENTRY];
            word.copy_from_slice(entry);
            if u64::from_ne_bytes(word) & PRESENT != 0 {
                let (start, end) = (next * page, (next + 1) * page);
                match parts.last_mut() {
                    Some(part) if part.end == start && end - part.start <= PART * page => {
                        part.end = end;
                    }
                    Some(part) if part.end == start => {
                        let start = start - overlap * page;
                        parts.push(start..end);
                    }
                    _ => parts.push(start..end),
                }
            }
            next += 1;
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pages_are_present_and_others_are_not() {
        let page = cachewise_sys::page_size().get();
        let map = File::open("/proc/self/pagemap").expect("our own");
        let mut memory: Vec<u8> = Vec::with_capacity(64 << 20);
        memory.resize(4 << 20, 1);
        let start = (memory.as_ptr() as u64).next_multiple_of(page);
        let parts = present(&map, start..start + (64 << 20) - page).expect("it is readable");
        let pages: u64 = parts
            .iter()
            .map(|part| (part.end - part.start) / page)
            .sum();
        let touched = (4 << 20) / page;
        assert!(pages >= touched - 1, "{pages} of {touched}");
        assert!(
            parts
                .iter()
                .all(|part| part.end - part.start <= (PART + 1) * page),
            "parts of bounded size"
        );
        let huge = 2 << 20;
        assert!(
            pages <= touched + huge / page + 16,
            "not what was never touched: {pages}"
        );
    }
}
