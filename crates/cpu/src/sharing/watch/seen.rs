//! The verdict of all rounds of a line.

use std::collections::BTreeSet;

use super::super::line::{LineUse, Touch};
use super::super::proofs::{Answer, BREAKPOINTS, Proof};
use super::arm::MOST_THREADS;
use super::glance::WORD;
use super::pairs::Moments;
use super::{Piece, PieceUse, Watch};

/// Number of rounds that must agree.
const FEWEST: usize = 2;

/// Divisor of the rounds: a thread that ran in at most a tenth of them hardly matters.
const RARELY: usize = 10;

impl Touch {
    /// Whether the other one begins where this one ends, in the same word.
    const fn goes_on_in(&self, other: &Touch) -> bool {
        self.at + self.len == other.at && self.at / WORD == other.at / WORD
    }
}

impl Piece {
    pub(super) fn touches(&self, at: u64) -> Vec<Touch> {
        let users = self
            .threads
            .iter()
            .filter(|(_, one)| !one.touched.is_empty());
        let touch = |(thread, one): (&u32, &PieceUse)| Touch {
            thread: *thread,
            at,
            len: self.len,
            writes: one.writes,
            reads: one.reads,
        };
        users.map(touch).collect()
    }

    fn touched(&self, thread: u32) -> Option<&BTreeSet<usize>> {
        let touched = &self.threads.get(&thread)?.touched;
        (!touched.is_empty()).then_some(touched)
    }

    /// The bytes that two threads which both use its word have in common in it.
    fn common(&self, one: u32, other: u32) -> Common {
        let touched = |thread| self.touched(thread);
        let is_known = |thread| touched(thread).is_some() || self.is_left_alone_by(thread);
        match (touched(one), touched(other)) {
            (Some(first), Some(second)) => {
                let writes = [one, other].iter().any(|thread| {
                    let used = self.threads.get(thread);
                    used.is_some_and(|used| used.writes > 0)
                });
                match self.len == 1 && first.len().min(second.len()) >= FEWEST {
                    true if writes => Common::Bytes,
                    true => Common::Nothing,
                    false => Common::Open,
                }
            }
            _ if is_known(one) && is_known(other) => Common::Nothing,
            _ => Common::Open,
        }
    }

    /// Whether a thread had the opportunity, and never touched it.
    fn is_left_alone_by(&self, thread: u32) -> bool {
        self.threads
            .get(&thread)
            .is_some_and(|one| one.touched.is_empty() && one.ran.len() >= FEWEST)
    }
}

/// The kind of overlap of two threads in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Common {
    /// No byte that one of them writes.
    Nothing,
    /// A byte that one of them writes.
    Bytes,
    /// A word of which it is not known yet whether they mean the same bytes.
    Open,
}

/// In how many rounds two threads had bytes of their own, by what they had in common beside.
#[derive(Debug, Default)]
struct Falsely {
    alone: usize,
    mixed: usize,
    open: usize,
}

impl Watch {
    /// The rounds in which one thread wrote to bytes that another one leaves alone, while that one used others that
    /// the first leaves alone.
    fn falsely(&self) -> Falsely {
        let mut most = Falsely::default();
        for own in self.pieces.values() {
            let writers = own.threads.iter().filter(|(_, one)| one.writes > 0);
            for (writer, writes) in writers {
                for other in self
                    .pieces
                    .values()
                    .filter(|other| other.is_left_alone_by(*writer))
                {
                    let users = other
                        .threads
                        .iter()
                        .filter(|(user, _)| own.is_left_alone_by(**user));
                    for (user, uses) in users {
                        let both = uses.touched.intersection(&writes.touched).count();
                        let place = match self.common(*writer, *user) {
                            Common::Nothing => &mut most.alone,
                            Common::Bytes => &mut most.mixed,
                            Common::Open => &mut most.open,
                        };
                        *place = both.max(*place);
                    }
                }
            }
        }
        most
    }

    /// The overlap of two threads. An access may be wider than a byte: a thread that writes a word writes the byte of
    /// it that the other one reads, whatever else it has alone.
    fn common(&self, one: u32, other: u32) -> Common {
        let rarely = FEWEST.max(self.rounds / RARELY);
        let in_words = self.words.iter().map(|(word, threads)| {
            let (Some(first), Some(second)) = (threads.get(&one), threads.get(&other)) else {
                return Common::Nothing;
            };
            // A single access by one of them, as at the end of the work, does not count.
            if first.len().min(second.len()) < rarely {
                return Common::Nothing;
            }
            let pieces = self.pieces.range(*word..word + WORD);
            let in_pieces = pieces.map(|(_, piece)| piece.common(one, other));
            in_pieces.max().unwrap_or(Common::Nothing)
        });
        let all: Vec<Common> = in_words.collect();
        match all.contains(&Common::Bytes) {
            true => Common::Bytes,
            false => all.into_iter().max().unwrap_or(Common::Nothing),
        }
    }

    /// Whether nothing that a thread does here can have been missed: of each piece it is known whether it touches it,
    /// or it hardly ran at all.
    fn is_known(&self, thread: u32) -> bool {
        let ran = self.ran.get(&thread).map_or(0, BTreeSet::len);
        let is_seen =
            |piece: &Piece| piece.touched(thread).is_some() || piece.is_left_alone_by(thread);
        ran.saturating_mul(RARELY) <= self.rounds || self.pieces.values().all(is_seen)
    }

    /// Returns the verdict of all rounds; `None` if they are too few, threads ran too rarely, or
    /// there are too many threads.
    #[must_use]
    pub fn seen(&self) -> Option<LineUse> {
        let falsely = self.falsely();
        let moments = self.judged();
        if falsely.alone >= FEWEST {
            return Some(LineUse::FalseSharing);
        }
        match moments {
            Some(Moments::Apart) => return Some(LineUse::FalseSharing),
            Some(Moments::Mixed) => return Some(LineUse::Mixed),
            _ => {}
        }
        if falsely.mixed >= FEWEST {
            return Some(LineUse::Mixed);
        }
        if self.rounds < FEWEST || falsely.open > 0 {
            return None;
        }
        let users = |piece: &Piece| -> BTreeSet<u32> {
            piece
                .threads
                .keys()
                .copied()
                .filter(|thread| piece.touched(*thread).is_some())
                .collect()
        };
        let all: BTreeSet<u32> = self.pieces.values().flat_map(users).collect();
        let is_written = self
            .pieces
            .values()
            .flat_map(|piece| piece.threads.values())
            .any(|one| one.writes > 0);
        // A piece of one byte cannot be divided further.
        let is_shared = self
            .pieces
            .values()
            .any(|piece| piece.len == 1 && piece.is_shared());
        let seen = match all.len() {
            0 => return Some(LineUse::Nothing),
            1 => LineUse::OneThread,
            _ if !is_written => LineUse::OnlyReads,
            // Only moments show that nothing lies apart: over a round, work may have moved.
            _ if is_shared && moments != Some(Moments::Open) => LineUse::TrueSharing,
            _ => return None,
        };
        // Accesses of a single thread are not sharing.
        let mut others = self
            .ran
            .keys()
            .filter(|thread| seen != LineUse::OneThread || !all.contains(thread));
        let is_all = self.left_out == 0 && others.all(|thread| self.is_known(*thread));
        is_all.then_some(seen)
    }

    /// Returns the accesses of threads to its bytes. Bytes of a word that the same threads touch
    /// are combined.
    #[must_use]
    pub fn touches(&self) -> Vec<Touch> {
        let threads = |touches: &[Touch]| {
            touches
                .iter()
                .map(|touch| touch.thread)
                .collect::<Vec<u32>>()
        };
        let mut groups: Vec<Vec<Touch>> = Vec::new();
        for (at, piece) in &self.pieces {
            let touches = piece.touches(*at);
            let Some(first) = touches.first() else {
                continue;
            };
            match groups.last_mut() {
                Some(before)
                    if before.first().is_some_and(|one| one.goes_on_in(first))
                        && threads(before) == threads(&touches) =>
                {
                    for (before, touch) in before.iter_mut().zip(touches) {
                        before.len += touch.len;
                        // An access to several of the bytes was counted at each of them.
                        before.writes = before.writes.max(touch.writes);
                        before.reads = before.reads.max(touch.reads);
                    }
                }
                _ => groups.push(touches),
            }
        }
        groups.concat()
    }

    /// Returns the proof of that verdict.
    #[must_use]
    pub fn proof(&self) -> Proof {
        let (line, rounds) = (format!("line {:#x}", self.line), self.rounds);
        let (answer, says) = match self.seen() {
            Some(LineUse::FalseSharing) => {
                let alone = self.falsely().alone;
                let (apart, windows) = self.apart();
                let says = match alone >= FEWEST {
                    true => format!(
                        "{line}: in {alone} of {rounds} rounds one thread wrote next to bytes of another thread, and \
                         neither accessed the other's bytes"
                    ),
                    false => format!(
                        "{line}: work moves between threads; in {apart} of {windows} moments one thread wrote next to \
                         bytes of another thread, and neither accessed the other's bytes"
                    ),
                };
                (Answer::Found, says)
            }
            Some(LineUse::Mixed) => (
                Answer::Mixed,
                format!(
                    "{line}: threads share some bytes, and use other bytes alone: true and false sharing; padding fixes \
                     only false sharing"
                ),
            ),
            Some(LineUse::TrueSharing) => (
                Answer::NotFound,
                format!(
                    "{line}: threads use the same bytes: true sharing, which padding does not fix"
                ),
            ),
            Some(LineUse::OnlyReads) => (Answer::NotFound, format!("{line}: only read")),
            Some(LineUse::OneThread) => (
                Answer::NotFound,
                format!("{line}: only one thread used it, in {rounds} rounds"),
            ),
            Some(LineUse::Nothing) => (
                Answer::Unknown,
                format!("{line}: no access in {rounds} rounds: check the address"),
            ),
            None if self.left_out > 0 => (
                Answer::Unknown,
                format!(
                    "{line}: {} threads were not watched, as the maximum is {MOST_THREADS}: their accesses are unknown",
                    self.left_out
                ),
            ),
            None if self.judged() == Some(Moments::Open) => (
                Answer::Unknown,
                format!(
                    "{line}: threads use the same bytes, but too few moments show whether at the same time: work may \
                     move between threads"
                ),
            ),
            None => (
                Answer::Unknown,
                format!(
                    "{line}: too few accesses in {rounds} rounds: the program ended too soon, or its threads hardly ran"
                ),
            ),
        };
        Proof {
            name: BREAKPOINTS,
            answer,
            ratio: None,
            says,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::glance::Glance;
    use super::*;

    fn glance(thread: u32, at: u64, writes: u64, ran: bool) -> Glance {
        Glance {
            thread,
            at,
            writes,
            reads: 0,
            ran,
        }
    }

    /// Makes this number of equal rounds.
    fn seen(rounds: usize, glances: &[Glance]) -> Watch {
        let mut watch = Watch::of_address(1, 0, 64);
        for _ in 0..rounds {
            watch.add(glances);
        }
        watch
    }

    /// Moments in which these threads wrote to both pieces of each pair.
    fn together(watch: &mut Watch, threads: &[u32]) {
        for (pair, _) in watch.candidates() {
            let both = |thread: &u32| {
                [
                    glance(*thread, pair.0, 5, true),
                    glance(*thread, pair.1, 5, true),
                ]
            };
            let glances: Vec<Glance> = threads.iter().flat_map(both).collect();
            for _ in 0..9 {
                watch.add_moment(pair, &glances);
            }
        }
    }

    /// Rounds in which these threads touch these bytes, by writing or by reading, down to single bytes.
    fn halved(rounds: usize, uses: &[(u32, std::ops::Range<u64>, bool)]) -> Watch {
        let mut watch = Watch::of_address(1, 0, 64);
        for _ in 0..rounds {
            let mut glances = Vec::new();
            for (at, piece) in &watch.pieces {
                for (thread, bytes, is_write) in uses {
                    let is_in = bytes.start < at + piece.len && *at < bytes.end;
                    glances.push(Glance {
                        thread: *thread,
                        at: *at,
                        writes: u64::from(is_in && *is_write),
                        reads: u64::from(is_in && !*is_write),
                        ran: true,
                    });
                }
            }
            // One glance a thread and piece, as windows have it.
            let mut merged: Vec<Glance> = Vec::new();
            for glance in glances {
                match merged
                    .iter_mut()
                    .find(|known| (known.thread, known.at) == (glance.thread, glance.at))
                {
                    Some(known) => {
                        known.writes += glance.writes;
                        known.reads += glance.reads;
                    }
                    None => merged.push(glance),
                }
            }
            watch.add(&merged);
        }
        watch
    }

    #[test]
    fn byte_of_a_word_that_another_thread_writes_is_shared_in_truth() {
        // One thread writes a word; another one reads a byte of it, and writes a word of its own.
        let uses = [(1, 0..8, true), (2, 0..1, false), (2, 8..16, true)];
        for rounds in 2..6 {
            assert_ne!(
                halved(rounds, &uses).seen(),
                Some(LineUse::FalseSharing),
                "never, after {rounds} rounds"
            );
        }
        let watch = halved(12, &uses);
        assert_eq!(watch.seen(), Some(LineUse::Mixed), "{watch:?}");
        assert_eq!(watch.proof().answer, Answer::Mixed);
        let apart = [(1, 0..4, true), (2, 4..8, true)];
        assert_eq!(
            halved(12, &apart).seen(),
            Some(LineUse::FalseSharing),
            "halves"
        );
    }

    #[test]
    fn work_that_moves_between_threads_is_not_taken_for_true_sharing() {
        // Over a round each of two threads uses each of two words.
        let uses = [
            (1, 0..8, true),
            (1, 8..16, true),
            (2, 0..8, true),
            (2, 8..16, true),
        ];
        let mut watch = halved(12, &uses);
        assert_eq!(watch.seen(), None, "rounds say nothing of it");
        assert!(
            watch.proof().says.contains("may move"),
            "{:?}",
            watch.proof()
        );
        for _ in 0..9 {
            watch.add_moment((0, 8), &[glance(1, 0, 5, true), glance(2, 8, 5, true)]);
            watch.add_moment((0, 8), &[glance(2, 0, 5, true), glance(1, 8, 5, true)]);
        }
        assert_eq!(watch.seen(), Some(LineUse::FalseSharing), "{watch:?}");
        assert!(
            watch.proof().says.contains("18 of 18 moments"),
            "{:?}",
            watch.proof()
        );
        let mut same = halved(12, &uses);
        together(&mut same, &[1, 2]);
        assert_eq!(same.seen(), Some(LineUse::TrueSharing), "at the same time");
    }

    #[test]
    fn absent_thread_does_not_prove_absence_of_accesses() {
        let beside = |ran| {
            [
                glance(1, 0, 5, true),
                glance(2, 0, 0, ran),
                glance(1, 8, 0, ran),
                glance(2, 8, 5, true),
            ]
        };
        assert_eq!(
            seen(2, &beside(true)).seen(),
            Some(LineUse::FalseSharing),
            "both had the opportunity"
        );
        assert_eq!(
            seen(9, &beside(false)).seen(),
            None,
            "neither ran while the other's word was watched"
        );
        assert_eq!(seen(1, &beside(true)).seen(), None, "once is too few");
        assert_eq!(
            seen(2, &beside(true)).touches()[0].writes,
            10,
            "rounds add up"
        );
    }

    #[test]
    fn shared_piece_is_halved_and_watched_again() {
        let mut watch = seen(1, &[glance(1, 0, 5, true), glance(2, 0, 5, true)]);
        let halves: Vec<(u64, u64)> = watch
            .pieces
            .iter()
            .take(2)
            .map(|(at, piece)| (*at, piece.len))
            .collect();
        assert_eq!(halves, [(0, 4), (4, 4)], "in two");
        let halves = [
            glance(1, 0, 5, true),
            glance(2, 0, 0, true),
            glance(1, 4, 0, true),
            glance(2, 4, 5, true),
        ];
        watch.add(&halves);
        watch.add(&halves);
        assert_eq!(
            watch.seen(),
            Some(LineUse::FalseSharing),
            "each has a half of its own: {watch:?}"
        );
        let mut same = Watch::of_address(1, 0, 8);
        for _ in 0..4 {
            let all: Vec<u64> = same.pieces.keys().copied().collect();
            let both = |at: &u64| [glance(1, *at, 5, true), glance(2, *at, 5, true)];
            same.add(&all.iter().flat_map(both).collect::<Vec<_>>());
        }
        assert_eq!(same.seen(), None, "not yet: it may have been in turn");
        together(&mut same, &[1, 2]);
        assert_eq!(same.seen(), Some(LineUse::TrueSharing), "down to the bytes");
        let touches = same.touches();
        assert_eq!(
            (touches.len(), touches[0].len),
            (2, 8),
            "told as one: {touches:?}"
        );
    }

    #[test]
    fn without_two_threads_or_a_write_there_is_nothing() {
        assert_eq!(seen(3, &[]).proof().answer, Answer::Unknown, "nobody");
        assert_eq!(
            seen(3, &[glance(1, 0, 5, true)]).proof().answer,
            Answer::NotFound,
            "one"
        );
        assert_eq!(
            seen(0, &[]).proof().answer,
            Answer::Unknown,
            "it was not looked at"
        );
        let read = |thread| {
            let glance = move |at| Glance {
                reads: u64::from(at == 0) * 5,
                ..glance(thread, at, 0, true)
            };
            (0..8).map(move |word| glance(word * WORD))
        };
        let both: Vec<Glance> = read(1).chain(read(2)).collect();
        assert_eq!(seen(3, &both).seen(), Some(LineUse::OnlyReads), "readers");
    }

    #[test]
    fn whom_nobody_watched_may_do_anything() {
        // Two count in one word, down to its bytes; a third one ran while that was watched, and not with the rest.
        let of = |rounds: usize, ran: &dyn Fn(usize, u64) -> bool| {
            let mut watch = Watch::of_address(1, 0, 64);
            for round in 0..rounds {
                let all: Vec<u64> = watch.pieces.keys().copied().collect();
                let glances = |at: &u64| {
                    let writes = u64::from(*at < WORD);
                    [
                        glance(1, *at, writes, true),
                        glance(2, *at, writes, true),
                        glance(3, *at, 0, ran(round, *at)),
                    ]
                };
                watch.add(&all.iter().flat_map(glances).collect::<Vec<_>>());
            }
            together(&mut watch, &[1, 2]);
            watch
        };
        let known = |ran: &dyn Fn(usize, u64) -> bool| of(20, ran).seen();
        let truly = Some(LineUse::TrueSharing);
        assert_eq!(known(&|_, _| true), truly, "it was always there");
        assert_eq!(known(&|_, _| false), truly, "it never ran");
        assert_eq!(known(&|round, _| round == 0), truly, "it hardly ran");
        assert_eq!(known(&|_, at| at < WORD), None, "not where it was looked");
        let mut many = of(20, &|_, _| true);
        many.left_out = 3;
        assert_eq!(many.seen(), None, "others were not watched");
        assert!(
            many.proof().says.contains("3 threads were not watched"),
            "{many:?}"
        );
    }

    #[test]
    fn one_thread_is_alone_only_if_others_were_there() {
        let with = |others: &[Glance]| {
            let all = [&[glance(1, 0, 5, true)], others].concat();
            seen(3, &all).seen()
        };
        let other = |ran| -> Vec<Glance> {
            let glance = |word| glance(2, word * WORD, 0, ran);
            (0..8).map(glance).collect()
        };
        assert_eq!(with(&[]), Some(LineUse::OneThread), "there is no other");
        assert_eq!(
            with(&other(true)),
            Some(LineUse::OneThread),
            "it did nothing here"
        );
        assert_eq!(with(&other(false)), Some(LineUse::OneThread), "it slept");
        assert_eq!(with(&[glance(2, 8, 0, true)]), None, "it ran elsewhere");
    }
}
