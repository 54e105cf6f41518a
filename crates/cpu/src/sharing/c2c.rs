//! What `perf c2c record` has sampled: loads that met a line which another core had changed, and who else uses it.
//!
//! Read from `perf script -F tid,addr,data_src`, a line a sample; what `data_src` says is in the number before its
//! text, the bits of which are part of the kernel's interface (`union perf_mem_data_src`).

use std::collections::HashMap;

use super::line::{Seen, Touch, judge};
use super::{Answer, Proof};

/// A load, a store: bits 0 to 4.
const LOAD: u64 = 1 << 1;
const STORE: u64 = 1 << 2;

/// The line came changed from another core (HITM): bit 4 of the five from 19 on; or from a peer, as Arm's cores say:
/// bit 1 of the two from 38 on.
const CHANGED: u64 = 1 << 23 | 1 << 39;

/// Fewer such loads of a line are chance.
const FEWEST: u64 = 10;

/// Lines that are told.
const MOST_LINES: usize = 10;

/// A line that went from core to core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The address of its first byte.
    pub line: u64,
    /// Loads that found it changed by another core.
    pub changed: u64,
    /// Samples of each thread, by the address at which accesses begin.
    pub touches: Vec<Touch>,
}

impl Recorded {
    /// What its touches say.
    #[must_use]
    pub fn seen(&self) -> Seen {
        judge(&self.touches)
    }
}

/// The lines that went to and fro, the worst first, of lines of this many bytes. What is no sample of user memory is left out; `None`
/// if there is no sample at all.
#[must_use]
pub fn recorded(text: &str, line_size: u64) -> Option<Vec<Recorded>> {
    let mut lines: HashMap<u64, Recorded> = HashMap::new();
    let mut samples = 0u64;
    for (thread, address, source) in text.lines().filter_map(sample) {
        samples += 1;
        let is_kernel = address >> 63 == 1;
        if is_kernel || address == 0 {
            continue;
        }
        let line = address & !(line_size.next_power_of_two() - 1);
        let entry = lines.entry(line).or_insert_with(|| Recorded {
            line,
            changed: 0,
            touches: Vec::new(),
        });
        let (writes, reads) = (
            u64::from(source & STORE != 0),
            u64::from(source & LOAD != 0),
        );
        entry.changed += u64::from(reads == 1 && source & CHANGED != 0);
        let known = entry
            .touches
            .iter_mut()
            .find(|touch| touch.thread == thread && touch.at == address);
        match known {
            Some(touch) => {
                touch.writes += writes;
                touch.reads += reads;
            }
            None => entry.touches.push(Touch {
                thread,
                at: address,
                len: 1,
                writes,
                reads,
            }),
        }
    }
    let mut lines: Vec<Recorded> = lines
        .into_values()
        .filter(|line| line.changed > 0)
        .collect();
    lines.sort_by_key(|line| (std::cmp::Reverse(line.changed), line.line));
    lines.truncate(MOST_LINES);
    for line in &mut lines {
        line.touches.sort_by_key(|touch| (touch.at, touch.thread));
    }
    (samples > 0).then_some(lines)
}

/// Thread, address and data source of a sample.
fn sample(line: &str) -> Option<(u32, u64, u64)> {
    let (numbers, _) = line.split_once('|')?;
    let mut words = numbers.split_ascii_whitespace();
    let thread = words.next()?.parse().ok()?;
    let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
    Some((thread, hex()?, hex()?))
}

/// What recorded lines say; `None` is a recording without samples.
#[must_use]
pub fn proof(lines: Option<&[Recorded]>) -> Proof {
    let (answer, says) = match lines {
        None => (
            Answer::Unknown,
            "it recorded no sample of memory: is the program too short?".into(),
        ),
        Some(lines) => {
            let often = || lines.iter().filter(|line| line.changed >= FEWEST);
            match often().find(|line| line.seen() == Seen::FalseSharing) {
                Some(line) => (
                    Answer::Found,
                    format!(
                        "line {:#x}: {} loads found it changed by another core, and threads use different bytes of it",
                        line.line, line.changed
                    ),
                ),
                None if often().next().is_some() => (
                    Answer::NotFound,
                    "lines go from core to core, and threads use the same bytes of them: true sharing".into(),
                ),
                None => (
                    Answer::NotFound,
                    format!("no line of which {FEWEST} loads or more found it changed by another core"),
                ),
            }
        }
    };
    Proof {
        name: "perf c2c",
        answer,
        ratio: None,
        says,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As perf 6.1 writes it. The numbers of sources are those of an Arm machine and of an Intel one; addresses are
    /// of a program with two counters side by side.
    fn recording(second: u64) -> String {
        let mut text = String::new();
        for _ in 0..20 {
            for (thread, address, source) in [
                (
                    4711,
                    0x5581_0000_1040u64,
                    "288100144 |OP STORE|LVL L1 hit|SNP None|TLB Walker hit|LCK No|BLK  N/A",
                ),
                (
                    4712,
                    second,
                    "629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit|LCK N/A|BLK N/A",
                ),
                (
                    4712,
                    second,
                    "229080144 |OP STORE|LVL L1 hit|SNP N/A|TLB L1 hit|LCK N/A|BLK N/A",
                ),
            ] {
                text += &format!(" {thread} {address:>16x} {source}\n");
            }
        }
        text
    }

    #[test]
    fn a_line_that_goes_to_and_fro_is_found() {
        let lines = recorded(&recording(0x5581_0000_1048), 64).unwrap();
        assert_eq!(lines.len(), 1, "one line: {lines:?}");
        assert_eq!(
            (lines[0].line, lines[0].changed),
            (0x5581_0000_1040, 20),
            "{lines:?}"
        );
        let second = lines[0].touches[1];
        assert_eq!(
            (second.thread, second.writes, second.reads),
            (4712, 20, 20),
            "{lines:?}"
        );
        assert_eq!(proof(Some(&lines)).answer, Answer::Found, "different bytes");
        let same = recorded(&recording(0x5581_0000_1040), 64).unwrap();
        assert_eq!(
            proof(Some(&same)).answer,
            Answer::NotFound,
            "the same bytes"
        );
        assert!(
            proof(Some(&same)).says.contains("true sharing"),
            "which is said"
        );
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        // A page fault, as perf writes one on a machine without samples of memory.
        let faults = " 3290     7f16d5481b70      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A\n";
        assert_eq!(
            recorded(faults, 64),
            Some(Vec::new()),
            "a sample, and no line changed"
        );
        let kernel = " 1 ffff888812345678 629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit\n";
        assert_eq!(
            recorded(kernel, 64),
            Some(Vec::new()),
            "the kernel's own lines are not the program's"
        );
        for text in [
            "",
            "nothing here\n",
            " x 1 2 |OP\n",
            "1 zz 2 |OP\n",
            "1 2 |OP\n",
        ] {
            assert_eq!(recorded(text, 64), None, "{text:?} has no sample");
        }
        assert_eq!(
            proof(None).answer,
            Answer::Unknown,
            "no sample is no answer"
        );
        assert_eq!(
            proof(Some(&[])).answer,
            Answer::NotFound,
            "samples, and no line"
        );
    }
}
