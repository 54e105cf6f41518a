//! Events that were lost, and their effect on the numbers.

use cachewise_units::grouped;

/// Lost or imprecise events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Its name in machine formats.
    pub id: &'static str,
    /// Number of events.
    pub count: u64,
    /// Effect on the numbers.
    pub meaning: &'static str,
}

impl Lost {
    /// Every kind: its name in machine formats, and what it does to the numbers.
    pub const KINDS: [(&'static str, &'static str); 14] = [
        (
            "rows",
            "events summed up on one row for all, the table being full: sums hold, names are missing; ask for more with --max-rows",
        ),
        (
            "tasks",
            "not counted, the kernel having refused storage for the task's state",
        ),
        ("names", "whose name was lost"),
        (
            "prefetch_pages",
            "prefetched pages that count as reused, not as readahead hits, when they are read",
        ),
        (
            "direct_requests",
            "direct requests whose bytes are not counted",
        ),
        (
            "uring_requests",
            "requests of io_uring that can count more than once, or as served where they failed",
        ),
        (
            "direct_in_flight",
            "direct requests that were not seen to end",
        ),
        (
            "processes",
            "threads whose CPU time and device bytes are not counted",
        ),
        (
            "skipped",
            "not counted, a program running on that CPU already",
        ),
        (
            "returns",
            "calls whose end was not seen, too many having slept at once: hits of these reads, or bytes of these direct requests, are not counted",
        ),
        (
            "forgotten",
            "files unused for long gave up their place: what of them is evicted is not counted until they are used again",
        ),
        (
            "accesses",
            "accesses that no simulated memory has seen, more having come than was simulated in time",
        ),
        (
            "stacks",
            "stacks that were lost: their weight is on the row `?`, and sums hold",
        ),
        (
            "contradictions",
            "rows whose counts contradict each other: the numbers concerned are marked ~",
        ),
    ];

    /// The kind of a loss that this version does not count. Recordings of other versions have it.
    const OTHER: (&'static str, &'static str) = (
        "other",
        "events of a kind that this version of cachewise does not know",
    );

    /// A loss of one of the kinds.
    #[must_use]
    pub fn new(id: &str, count: u64) -> Lost {
        let (id, meaning) = Lost::KINDS
            .into_iter()
            .find(|(known, _)| *known == id)
            .unwrap_or(Lost::OTHER);
        Lost { id, count, meaning }
    }

    /// Their number and effect as a sentence: `1 row whose counts contradict each other: ...`.
    #[must_use]
    pub fn words(&self) -> String {
        let meaning = match self.count {
            1 => self.meaning_of_one(),
            _ => self.meaning,
        };
        format!("{} {meaning}", grouped(self.count))
    }

    fn meaning_of_one(&self) -> &'static str {
        match self.id {
            "rows" => {
                "event summed up on one row for all, the table being full: sums hold, names are missing; ask for more \
                 with --max-rows"
            }
            "prefetch_pages" => "page brought in ahead that counts as reused when it is read",
            "direct_requests" => "direct request whose bytes are not counted",
            "uring_requests" => {
                "request of io_uring that can count more than once, or as served where it failed"
            }
            "direct_in_flight" => "direct request that was not seen to end",
            "processes" => "thread whose CPU time and device bytes are not counted",
            "returns" => {
                "call whose end was not seen, too many having slept at once: hits of this read, or bytes of this direct \
                 request, are not counted"
            }
            "forgotten" => {
                "file unused for long gave up its place: what of it is evicted is not counted until it is used again"
            }
            "accesses" => {
                "access that no simulated memory has seen, more having come than was simulated in time"
            }
            "stacks" => "stack that was lost: its weight is on the row `?`, and sums hold",
            "contradictions" => {
                "row whose counts contradict each other: the numbers concerned are marked ~"
            }
            "other" => "event of a kind that this version of cachewise does not know",
            // These have no noun in the plural.
            _ => self.meaning,
        }
    }

    /// Adds losses to those before, by kind.
    pub fn add(so_far: &mut Vec<Lost>, later: &[Lost]) {
        for lost in later {
            match so_far.iter_mut().find(|known| known.id == lost.id) {
                Some(known) => known.count = known.count.saturating_add(lost.count),
                None => so_far.push(*lost),
            }
        }
    }

    /// The sum over all kinds.
    #[must_use]
    pub fn sum(lost: &[Lost]) -> u64 {
        lost.iter()
            .fold(0, |sum, lost| sum.saturating_add(lost.count))
    }

    /// The next step: how to lose less, or how to use the rest.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self.id {
            "forgotten" => {
                "EVICTED of such files is a lower bound, all else is exact; to have fewer files at a time, watch \
                 less: -p PID or --cgroup PATH"
            }
            "rows" => {
                "fewer rows: watch less, with -p PID or --cgroup PATH; `run` takes --max-rows"
            }
            "stacks" => {
                "sums hold: the row `?` has what they weigh; watch less, with -p PID, to lose less"
            }
            "names" => "sums hold: a file without a name is shown by its device and inode number",
            "returns" => {
                "numbers are lower bounds; a kernel with tracepoints for reads (6.12), or one that lets fentry be \
                 used, loses none"
            }
            "tasks" => {
                "numbers are lower bounds; a few: Linux to 6.19 refuses it where two tasks of a CPU want it at once, \
                 run it again; many: memory is short, free some, or watch less, with -p PID or --cgroup PATH"
            }
            _ => "numbers are lower bounds; watch less, with -p PID or --cgroup PATH, to lose less",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_loss_are_in_the_singular() {
        for (id, _) in Lost::KINDS {
            let text = Lost::new(id, 1).words();
            let noun = text.split(' ').nth(1).expect("words follow the number");
            assert!(
                !noun.ends_with("ts") && !noun.ends_with("ws") && !noun.ends_with("ls"),
                "{text}"
            );
        }
        let text = Lost::new("contradictions", 1).words();
        assert!(text.starts_with("1 row whose counts contradict"), "{text}");
        let text = Lost::new("contradictions", 1_200).words();
        assert!(text.starts_with("1,200 rows whose counts"), "{text}");
    }
}
