//! Samples of `perf c2c record`: loads of a line that another core had changed, and the other users
//! of the line.
//!
//! Read from `perf script -F tid,addr,data_src`, a line a sample; what `data_src` says is in the number before its
//! text, the bits of which are part of the kernel's interface (`union perf_mem_data_src`).

use std::collections::HashMap;

use super::line::{LineUse, Touch, judge};
use super::proofs::{Answer, PERF_C2C, Proof};

/// A load, a store: bits 0 to 4.
const LOAD: u64 = 1 << 1;
const STORE: u64 = 1 << 2;

/// The line came changed from another core (HITM): bit 4 of the five from 19 on; or from a peer, as Arm's cores say:
/// bit 1 of the two from 38 on.
const CHANGED: u64 = 1 << 23 | 1 << 39;

/// Any answer to whether others had the line, but that there is none: of the five bits all but the first, or one of
/// the two. A load without one says nothing.
const ANSWERED: u64 = 0x1e << 19 | 3 << 38;

/// Fewer loads that could have found a changed line are too few to say that there is none.
const FEWEST_LOADS: u64 = 1000;

/// Fewer such loads of a line are chance.
const FEWEST: u64 = 10;

/// Maximum number of reported lines.
const MOST_LINES: usize = 10;

/// Recorded samples of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// Loads of its memory of which it is known whether another core had changed the line.
    pub loads: u64,
    /// The lines that went to and fro, the worst first.
    pub lines: Vec<Recorded>,
}

impl Recording {
    /// Returns the reported lines.
    #[must_use]
    pub fn worst(&self) -> &[Recorded] {
        self.lines.get(..MOST_LINES).unwrap_or(&self.lines)
    }
}

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
    /// Returns the verdict of its touches, if they allow one.
    #[must_use]
    pub fn seen(&self) -> Option<LineUse> {
        judge(&self.touches)
    }
}

/// Parses the samples, for lines of this size. Samples outside of user memory are skipped.
#[must_use]
pub fn recorded(text: &str, line_size: u64) -> Recording {
    let mut lines: HashMap<u64, Recorded> = HashMap::new();
    let mut loads = 0u64;
    for (thread, address, source) in text.lines().filter_map(sample) {
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
        loads += u64::from(reads == 1 && source & ANSWERED != 0);
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
    for line in &mut lines {
        line.touches.sort_by_key(|touch| (touch.at, touch.thread));
    }
    Recording { loads, lines }
}

/// Thread, address and data source of a sample.
fn sample(line: &str) -> Option<(u32, u64, u64)> {
    let (numbers, _) = line.split_once('|')?;
    let mut words = numbers.split_ascii_whitespace();
    let thread = words.next()?.parse().ok()?;
    let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
    Some((thread, hex()?, hex()?))
}

/// Returns the verdict. It denies false sharing only after enough loads, and if each line that
/// moved often between cores was truly shared.
#[must_use]
pub fn proof(recording: &Recording) -> Proof {
    let lines = &recording.lines;
    let (often, rarely) = lines.split_at(lines.partition_point(|line| line.changed >= FEWEST));
    let has = |wanted| often.iter().find(|line| line.seen() == wanted);
    let not_clear = often
        .iter()
        .find(|line| line.seen() != Some(LineUse::TrueSharing));
    let rare: u64 = rarely.iter().map(|line| line.changed).sum();
    let (answer, says) = if let Some(line) = has(Some(LineUse::FalseSharing)) {
        (
            Answer::Found,
            format!(
                "line {:#x}: {} loads found it changed by another core, and threads use different bytes of it",
                line.line, line.changed
            ),
        )
    } else if recording.loads < FEWEST_LOADS {
        (
            Answer::Unknown,
            format!(
                "it recorded {} loads of which it is known where they found their line; {FEWEST_LOADS} are needed: is \
                 the program too short?",
                recording.loads
            ),
        )
    } else if let Some(line) = not_clear {
        (
            Answer::Unknown,
            format!(
                "line {:#x}: {} loads found it changed by another core; too few samples show which thread uses which bytes",
                line.line, line.changed
            ),
        )
    } else if rare >= FEWEST {
        (
            Answer::Unknown,
            format!(
                "{rare} loads found {} lines changed by another core, each too rarely to show why",
                rarely.len()
            ),
        )
    } else if often.is_empty() {
        (
            Answer::NotFound,
            format!(
                "fewer than {FEWEST} of {} loads found their line changed by another core",
                recording.loads
            ),
        )
    } else {
        (
            Answer::NotFound,
            "lines move between cores, and threads use the same bytes of them: true sharing".into(),
        )
    };
    Proof {
        name: PERF_C2C,
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

    /// Makes loads of the first thread that found nothing changed.
    fn loads(count: u64) -> String {
        (0..count)
            .map(|at| {
                format!(
                    " 4711 {:>16x} 100142 |OP LOAD|LVL L1 hit|SNP None\n",
                    0x5590_0000_0000 + at * 64
                )
            })
            .collect()
    }

    fn answer(text: &str) -> Answer {
        proof(&recorded(text, 64)).answer
    }

    #[test]
    fn a_line_that_goes_to_and_fro_is_found() {
        let side = recorded(&recording(0x5581_0000_1048), 64);
        let lines = &side.lines;
        assert_eq!((lines.len(), side.loads), (1, 20), "one line: {side:?}");
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
        assert_eq!(proof(&side).answer, Answer::Found, "different bytes");
        let same = recording(0x5581_0000_1040);
        assert_eq!(
            answer(&same),
            Answer::Unknown,
            "the same bytes, of few loads"
        );
        let same = recorded(&(same + &loads(FEWEST_LOADS)), 64);
        assert_eq!(proof(&same).answer, Answer::NotFound, "the same bytes");
        assert!(
            proof(&same).says.contains("true sharing"),
            "which is said: {same:?}"
        );
    }

    #[test]
    fn not_found_needs_enough_loads_and_clear_lines() {
        assert_eq!(
            answer(&loads(FEWEST_LOADS)),
            Answer::NotFound,
            "nothing was changed"
        );
        assert_eq!(answer(&loads(FEWEST_LOADS - 1)), Answer::Unknown, "too few");
        let changed = |thread: u32, at: u64, count: usize| {
            format!(" {thread} {at:>16x} 629800842 |OP LOAD|LVL L3 hit|SNP HitM\n").repeat(count)
        };
        // Each line of many is changed now and then.
        let many: String = (0..20).map(|at| changed(1, 0x5000 + at * 64, 3)).collect();
        assert_eq!(
            answer(&(loads(FEWEST_LOADS) + &many)),
            Answer::Unknown,
            "rarely, but many"
        );
        let few = loads(FEWEST_LOADS) + &changed(1, 0x5000, 3);
        assert_eq!(answer(&few), Answer::NotFound, "that is chance");
        // The one who writes was never caught.
        let alone = loads(FEWEST_LOADS) + &changed(1, 0x5000, 30);
        assert_eq!(
            answer(&alone),
            Answer::Unknown,
            "who changed it is not known"
        );
    }

    #[test]
    fn false_sharing_behind_worse_lines_is_found() {
        let mut text = recording(0x5581_0000_1048);
        for line in 0..20u64 {
            let at = 0x6000_0000 + line * 64;
            let one = format!(" 1 {at:x} 629800842 |OP LOAD\n 2 {at:x} 288100144 |OP STORE\n");
            text += &one.repeat(40);
        }
        let recording = recorded(&text, 64);
        assert_eq!(recording.worst().len(), MOST_LINES, "few are told");
        assert_eq!(
            proof(&recording).answer,
            Answer::Found,
            "and all are looked at"
        );
    }

    #[test]
    fn irrelevant_lines_are_skipped() {
        // A page fault, as perf writes one on a machine without samples of memory.
        let faults = " 3290     7f16d5481b70      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A\n";
        // No answer; the kernel's own lines, which are not the program's; what is no sample.
        let unknown = " 1 5581000 1e05080022 |OP LOAD|LVL N/A|SNP N/A\n";
        let kernel = " 1 ffff888812345678 629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit\n";
        for text in [
            faults,
            unknown,
            kernel,
            "",
            "nothing here\n",
            " x 1 2 |OP\n",
            "1 zz 2 |OP\n",
            "1 2 |OP\n",
        ] {
            assert_eq!(
                recorded(text, 64),
                Recording::default(),
                "{text:?} says nothing"
            );
            assert_eq!(answer(&text.repeat(2000)), Answer::Unknown, "however often");
        }
    }
}
