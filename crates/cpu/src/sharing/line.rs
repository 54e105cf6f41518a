//! Who touches which bytes of a line.

use std::collections::BTreeSet;

/// What a thread did to some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The thread's id.
    pub thread: u32,
    /// The address of the first byte.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// How often it wrote to any of them; what reads and writes at once is here.
    pub writes: u64,
    /// How often it only read.
    pub reads: u64,
}

/// What was seen of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Nobody touched it.
    Nothing,
    /// One thread did.
    OneThread,
    /// Several did, and none wrote.
    OnlyReads,
    /// Several did, and who wrote to bytes wrote to those that the others use: true sharing, which padding does not
    /// mend.
    TrueSharing,
    /// One thread writes to bytes that another one does not touch, and that one uses bytes that the first does not.
    FalseSharing,
}

impl Seen {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Seen::Nothing => "nothing",
            Seen::OneThread => "one_thread",
            Seen::OnlyReads => "only_reads",
            Seen::TrueSharing => "true_sharing",
            Seen::FalseSharing => "false_sharing",
        }
    }
}

/// What touches of one line in the same moment say. Pieces of the line do not overlap.
#[must_use]
pub fn judge(touches: &[Touch]) -> Seen {
    let touched: Vec<&Touch> = touches
        .iter()
        .filter(|touch| touch.writes + touch.reads > 0)
        .collect();
    let threads: BTreeSet<u32> = touched.iter().map(|touch| touch.thread).collect();
    match threads.len() {
        0 => return Seen::Nothing,
        1 => return Seen::OneThread,
        _ => {}
    }
    let pieces = |thread: u32| -> BTreeSet<u64> {
        touched
            .iter()
            .filter(|touch| touch.thread == thread)
            .map(|touch| touch.at)
            .collect()
    };
    let is_false = touched
        .iter()
        .filter(|touch| touch.writes > 0)
        .any(|write| {
            let own = pieces(write.thread);
            threads
                .iter()
                .filter(|other| **other != write.thread)
                .any(|other| {
                    let theirs = pieces(*other);
                    !theirs.contains(&write.at) && theirs.difference(&own).next().is_some()
                })
        });
    let has_writes = touched.iter().any(|touch| touch.writes > 0);
    match (is_false, has_writes) {
        (true, _) => Seen::FalseSharing,
        (false, true) => Seen::TrueSharing,
        (false, false) => Seen::OnlyReads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(thread: u32, at: u64, writes: u64, reads: u64) -> Touch {
        Touch {
            thread,
            at,
            len: 8,
            writes,
            reads,
        }
    }

    #[test]
    fn adjacent_counters_share_falsely() {
        assert_eq!(
            judge(&[touch(1, 0, 9, 9), touch(2, 8, 9, 9)]),
            Seen::FalseSharing,
            "two that write"
        );
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(2, 56, 0, 9)]),
            Seen::FalseSharing,
            "who only reads waits for the one who writes beside it"
        );
        assert_eq!(
            judge(&[
                touch(1, 0, 9, 0),
                touch(1, 8, 1, 0),
                touch(2, 8, 1, 0),
                touch(2, 16, 9, 0)
            ]),
            Seen::FalseSharing,
            "also beside something that is shared in truth"
        );
    }

    #[test]
    fn what_is_shared_in_truth_is_not_false() {
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(2, 0, 9, 0)]),
            Seen::TrueSharing,
            "one counter"
        );
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(1, 8, 9, 0), touch(2, 8, 0, 9)]),
            Seen::TrueSharing,
            "all that the second one uses is the first one's too"
        );
    }

    #[test]
    fn without_a_second_thread_or_a_write_there_is_nothing() {
        assert_eq!(judge(&[]), Seen::Nothing, "untouched");
        assert_eq!(
            judge(&[touch(1, 0, 0, 0)]),
            Seen::Nothing,
            "a count of none is no touch"
        );
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(1, 8, 9, 0)]),
            Seen::OneThread,
            "alone"
        );
        assert_eq!(
            judge(&[touch(1, 0, 0, 9), touch(2, 8, 0, 9)]),
            Seen::OnlyReads,
            "readers"
        );
    }
}
