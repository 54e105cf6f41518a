//! Hardware breakpoints on a line: which threads touch which bytes of it.
//!
//! Each hit stops the thread for some tens of microseconds, so a line is watched for a few milliseconds at a time, and
//! what is counted is evidence and no rate. Two pieces are watched at once, each by two of the four registers that
//! CPUs have: one for writes, one for any access. A piece that several threads use is halved, and looked at anew, until
//! it is known whether they mean the same bytes.
//!
//! That a thread does not touch a piece is known only if it ran while the piece was watched, which is counted too: on
//! a busy machine threads are often just not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::time::Duration;

use perf_event::events::Breakpoint;
use perf_event::{Builder, Counter, Group};
use rustix::io::Errno;

use super::line::{Seen, Touch};
use super::{Answer, BREAKPOINTS, Proof};
use crate::program::NoCounter;

/// The largest piece that a register can watch.
const WORD: u64 = 8;

/// Pieces at once.
const AT_ONCE: usize = 2;

/// How long a piece is watched: several slices of the scheduler.
const WINDOW: Duration = Duration::from_millis(10);

/// More threads than this are not watched: each needs descriptors and time.
const MOST_THREADS: usize = 64;

/// So many rounds have to show the same.
const FEWEST: usize = 2;

/// A thread that ran in one of so many rounds at most was hardly there, whatever it did.
const RARELY: usize = 10;

/// A thread that ran for so long while a piece was watched would have touched it, if it did at all.
const RAN: Duration = Duration::from_micros(500);

/// Why a line cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWatch {
    /// The process has ended.
    Ended,
    /// A debugger, or another one like us, has the registers.
    InUse,
    /// The kernel does not let us.
    Refused(NoCounter),
}

impl fmt::Display for NoWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWatch::Ended => f.write_str("the process has ended"),
            NoWatch::InUse => f.write_str(
                "all debug registers are in use: is a debugger attached to the process?",
            ),
            NoWatch::Refused(NoCounter::NotHere) => {
                f.write_str("this machine offers no hardware breakpoints")
            }
            NoWatch::Refused(reason) => write!(f, "hardware breakpoints: {reason}"),
        }
    }
}

impl From<io::Error> for NoWatch {
    fn from(error: io::Error) -> NoWatch {
        match Errno::from_io_error(&error) {
            Some(Errno::SRCH) => NoWatch::Ended,
            Some(Errno::NOSPC | Errno::BUSY) => NoWatch::InUse,
            _ => NoWatch::Refused(error.into()),
        }
    }
}

/// A line of a process's memory, and what was seen of it so far.
#[derive(Debug, Clone)]
pub struct Watch {
    pid: u32,
    line: u64,
    rounds: usize,
    /// By the first byte: pieces that make up the line.
    pieces: BTreeMap<u64, Piece>,
    /// The rounds in which each thread ran while any piece was watched.
    ran: BTreeMap<u32, BTreeSet<usize>>,
    /// How many threads there were beyond those that are watched.
    left_out: usize,
}

/// Some bytes of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Piece {
    len: u64,
    threads: BTreeMap<u32, Use>,
}

/// What a thread did with a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Use {
    writes: u64,
    reads: u64,
    /// The rounds in which it touched it.
    touched: BTreeSet<usize>,
    /// The rounds in which it ran while the piece was watched.
    ran: BTreeSet<usize>,
}

/// What one window saw of a thread and a piece.
#[derive(Debug, Clone, Copy)]
struct Glance {
    thread: u32,
    at: u64,
    writes: u64,
    reads: u64,
    ran: bool,
}

/// The counters of a thread on a few pieces.
struct Armed {
    thread: u32,
    group: Group,
    /// Writes, and any access, of each piece.
    counters: Vec<(Counter, Counter)>,
}

impl Watch {
    /// The line of this size in which an address is.
    #[must_use]
    pub fn of(pid: u32, address: u64, size: u64) -> Watch {
        let size = size.max(WORD).next_power_of_two();
        let line = address & !(size - 1);
        let words = (0..size / WORD).map(|word| line + word * WORD);
        let piece = |at| {
            let piece = Piece {
                len: WORD,
                ..Piece::default()
            };
            (at, piece)
        };
        Watch {
            pid,
            line,
            rounds: 0,
            pieces: words.map(piece).collect(),
            ran: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// The address of its first byte.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Watches all of it once.
    ///
    /// # Errors
    /// If the process has ended, or breakpoints cannot be had.
    ///
    /// # Cost
    /// 40 ms for a line of 64 bytes, and 5 ms more for each piece that was halved. The threads that touch it are slowed
    /// down.
    pub fn round(&mut self) -> Result<(), NoWatch> {
        let pieces: Vec<(u64, u64)> = self
            .pieces
            .iter()
            .map(|(at, piece)| (*at, piece.len))
            .collect();
        let mut glances = Vec::new();
        for pieces in pieces.chunks(AT_ONCE) {
            glances.extend(self.window(pieces)?);
        }
        self.add(&glances);
        Ok(())
    }

    /// Adds a round, and halves what several threads use.
    fn add(&mut self, glances: &[Glance]) {
        for Glance {
            thread,
            at,
            writes,
            reads,
            ran,
        } in glances
        {
            let Some(piece) = self.pieces.get_mut(at) else {
                continue;
            };
            let entry = piece.threads.entry(*thread).or_default();
            entry.writes += writes;
            entry.reads += reads;
            if writes + reads > 0 {
                entry.touched.insert(self.rounds);
            }
            let all = self.ran.entry(*thread).or_default();
            if *ran {
                entry.ran.insert(self.rounds);
                all.insert(self.rounds);
            }
        }
        self.rounds += 1;
        let shared: Vec<u64> = self
            .pieces
            .iter()
            .filter(|(_, piece)| piece.len > 1 && piece.is_shared())
            .map(|(at, _)| *at)
            .collect();
        for at in shared {
            let Some(piece) = self.pieces.remove(&at) else {
                continue;
            };
            let len = piece.len / 2;
            for at in [at, at + len] {
                let threads = BTreeMap::new();
                self.pieces.insert(at, Piece { len, threads });
            }
        }
    }

    /// Watches a few pieces for a moment.
    fn window(&mut self, pieces: &[(u64, u64)]) -> Result<Vec<Glance>, NoWatch> {
        let mut armed: Vec<Armed> = Vec::new();
        let (threads, left_out) = first_of(threads(self.pid)?);
        self.left_out = self.left_out.max(left_out);
        for thread in threads {
            match arm(thread, pieces) {
                // It has ended since it was listed; others go on.
                Err(NoWatch::Ended) => {}
                other => armed.push(other?),
            }
        }
        for thread in &mut armed {
            // A thread that has ended in the meantime counts nothing.
            let _ = thread.group.enable();
        }
        std::thread::sleep(WINDOW);
        for thread in &mut armed {
            let _ = thread.group.disable();
        }
        let mut glances = Vec::new();
        for Armed {
            thread,
            group,
            counters,
        } in &mut armed
        {
            let counts = group.read()?;
            // Of a thread that is the time that it was on a CPU.
            let ran = counts.time_running().is_some_and(|ran| ran >= RAN);
            for ((at, _), (writes, any)) in pieces.iter().zip(counters) {
                let of = |counter: &Counter| counts.get(counter).map_or(0, |entry| entry.value());
                let writes = of(writes);
                glances.push(Glance {
                    thread: *thread,
                    at: *at,
                    writes,
                    reads: of(any).saturating_sub(writes),
                    ran,
                });
            }
        }
        Ok(glances)
    }
}

impl Touch {
    /// Whether the other one begins where this one ends, in the same word.
    const fn goes_on_in(&self, other: &Touch) -> bool {
        self.at + self.len == other.at && self.at / WORD == other.at / WORD
    }
}

impl Piece {
    /// Whether one thread writes to it, and another one touches it.
    fn is_shared(&self) -> bool {
        let users = self.threads.values().filter(|one| !one.touched.is_empty());
        users.clone().count() > 1 && users.clone().any(|one| one.writes > 0)
    }

    fn touches(&self, at: u64) -> Vec<Touch> {
        let users = self
            .threads
            .iter()
            .filter(|(_, one)| !one.touched.is_empty());
        let touch = |(thread, one): (&u32, &Use)| Touch {
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

    /// Whether a thread had the opportunity, and never touched it.
    fn is_left_alone_by(&self, thread: u32) -> bool {
        self.threads
            .get(&thread)
            .is_some_and(|one| one.touched.is_empty() && one.ran.len() >= FEWEST)
    }
}

/// Those that are watched of too many, and how many are not.
fn first_of(mut threads: Vec<u32>) -> (Vec<u32>, usize) {
    threads.sort_unstable();
    let left_out = threads.len().saturating_sub(MOST_THREADS);
    threads.truncate(MOST_THREADS);
    (threads, left_out)
}

/// The threads of a process.
fn threads(pid: u32) -> Result<Vec<u32>, NoWatch> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| NoWatch::Ended)?;
    let threads = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<u32> = threads.collect();
    match threads.is_empty() || is_zombie(pid) {
        true => Err(NoWatch::Ended),
        false => Ok(threads),
    }
}

/// Whether it has ended, and its parent has not asked yet.
fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it is in parentheses, and may have some itself.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

fn arm(thread: u32, pieces: &[(u64, u64)]) -> Result<Armed, NoWatch> {
    let id = i32::try_from(thread).map_err(|_| NoWatch::Ended)?;
    let mut group = Group::builder().observe_pid(id).any_cpu().build_group()?;
    let mut counters = Vec::new();
    for (at, len) in pieces {
        let mut add = |event: Breakpoint| {
            let mut builder = Builder::new(event);
            builder.observe_pid(id).any_cpu().enabled(true);
            group.add(&builder)
        };
        let writes = add(Breakpoint::write(*at, *len))?;
        counters.push((writes, add(Breakpoint::read_write(*at, *len))?));
    }
    Ok(Armed {
        thread,
        group,
        counters,
    })
}

impl Watch {
    /// The rounds in which one thread wrote to bytes that another one leaves alone, while that one used others that
    /// the first leaves alone.
    fn falsely(&self) -> usize {
        let mut most = 0;
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
                    let both =
                        users.map(|(_, uses)| uses.touched.intersection(&writes.touched).count());
                    most = most.max(both.max().unwrap_or(0));
                }
            }
        }
        most
    }

    /// Whether nothing that a thread does here can have been missed: of each piece it is known whether it touches it,
    /// or it hardly ran at all.
    fn is_known(&self, thread: u32) -> bool {
        let ran = self.ran.get(&thread).map_or(0, BTreeSet::len);
        let is_seen =
            |piece: &Piece| piece.touched(thread).is_some() || piece.is_left_alone_by(thread);
        ran.saturating_mul(RARELY) <= self.rounds || self.pieces.values().all(is_seen)
    }

    /// What all rounds together say; nothing where they are too few, threads ran too rarely, or there are too many.
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        if self.falsely() >= FEWEST {
            return Some(Seen::FalseSharing);
        }
        if self.rounds < FEWEST {
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
        // Of single bytes there is nothing left to be told apart.
        let is_shared = self
            .pieces
            .values()
            .any(|piece| piece.len == 1 && piece.is_shared());
        let seen = match all.len() {
            0 => return Some(Seen::Nothing),
            1 => Seen::OneThread,
            _ if !is_written => Seen::OnlyReads,
            _ if is_shared => Seen::TrueSharing,
            _ => return None,
        };
        // What one thread alone does is its own affair.
        let mut others = self
            .ran
            .keys()
            .filter(|thread| seen != Seen::OneThread || !all.contains(thread));
        let is_all = self.left_out == 0 && others.all(|thread| self.is_known(*thread));
        is_all.then_some(seen)
    }

    /// What threads did to bytes of it. Bytes of a word that the same threads touch are told as one.
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

    /// What that says.
    #[must_use]
    pub fn proof(&self) -> Proof {
        let (line, rounds) = (format!("line {:#x}", self.line), self.rounds);
        let (answer, says) = match self.seen() {
            Some(Seen::FalseSharing) => (
                Answer::Found,
                format!(
                    "{line}: in {} of {rounds} rounds one thread wrote beside what another one used, and neither ever \
                     touched the other's bytes",
                    self.falsely()
                ),
            ),
            Some(Seen::TrueSharing) => (
                Answer::NotFound,
                format!(
                    "{line}: threads use the same bytes: true sharing, which padding does not mend"
                ),
            ),
            Some(Seen::OnlyReads) => (Answer::NotFound, format!("{line}: it is only read")),
            Some(Seen::OneThread) => (
                Answer::NotFound,
                format!("{line}: one thread alone used it, in {rounds} rounds"),
            ),
            Some(Seen::Nothing) => (
                Answer::Unknown,
                format!("{line}: nobody touched it in {rounds} rounds: is it the right address?"),
            ),
            None if self.left_out > 0 => (
                Answer::Unknown,
                format!(
                    "{line}: {} threads were not watched, as {MOST_THREADS} are the most: what they do here is not \
                     known",
                    self.left_out
                ),
            ),
            None => (
                Answer::Unknown,
                format!(
                    "{line}: too little was seen in {rounds} rounds: it ended too soon, or its threads hardly ran"
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
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::*;

    #[repr(align(64))]
    struct Line([AtomicU8; 64]);

    /// Watches a line while two threads count in these bytes of it.
    fn watched(line: &Line, bytes: [usize; 2]) -> Result<Watch, NoWatch> {
        let address = line.0.as_ptr().addr() as u64;
        let mut watch = Watch::of(std::process::id(), address + 9, 64);
        assert_eq!(watch.line(), address, "from its beginning");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for byte in bytes {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        line.0[byte].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Until it is told, as threads may have to wait for their CPUs.
            let mut rounds = (0..40).map(|_| watch.round().map(|()| watch.seen()));
            let told = rounds
                .find(|seen| !matches!(seen, Ok(None | Some(Seen::OneThread | Seen::Nothing))));
            stop.store(true, Ordering::Relaxed);
            told.transpose()?;
            Ok(watch)
        })
    }

    #[test]
    fn who_touches_which_bytes_is_seen() {
        let line = Line([const { AtomicU8::new(0) }; 64]);
        for (bytes, wanted, places) in [
            ([0, 40], Seen::FalseSharing, vec![0, 40]),
            ([16, 20], Seen::FalseSharing, vec![16, 20]),
            ([33, 33], Seen::TrueSharing, vec![33]),
        ] {
            let found = match watched(&line, bytes) {
                Ok(found) => found,
                Err(reason) => {
                    println!("skipped: breakpoints: {reason}");
                    return;
                }
            };
            if found
                .seen()
                .is_none_or(|seen| matches!(seen, Seen::OneThread | Seen::Nothing))
            {
                println!(
                    "skipped: breakpoints: threads hardly ran: {}",
                    found.proof().says
                );
                continue;
            }
            assert_eq!(found.seen(), Some(wanted), "{bytes:?}: {found:?}");
            let touched: BTreeSet<u64> = found
                .touches()
                .iter()
                .map(|touch| touch.at - found.line)
                .collect();
            let near = |place: &u64| touched.iter().any(|at| at / WORD == place / WORD);
            assert!(
                places.iter().all(near),
                "{bytes:?}: in these words: {touched:?}"
            );
        }
    }

    fn glance(thread: u32, at: u64, writes: u64, ran: bool) -> Glance {
        Glance {
            thread,
            at,
            writes,
            reads: 0,
            ran,
        }
    }

    /// Of so many equal rounds.
    fn seen(rounds: usize, glances: &[Glance]) -> Watch {
        let mut watch = Watch::of(1, 0, 64);
        for _ in 0..rounds {
            watch.add(glances);
        }
        watch
    }

    #[test]
    fn who_was_not_there_left_nothing_alone() {
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
            Some(Seen::FalseSharing),
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
    fn what_several_use_is_halved_and_looked_at_anew() {
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
            Some(Seen::FalseSharing),
            "each has a half of its own: {watch:?}"
        );
        let mut same = Watch::of(1, 0, 8);
        for _ in 0..4 {
            let all: Vec<u64> = same.pieces.keys().copied().collect();
            let both = |at: &u64| [glance(1, *at, 5, true), glance(2, *at, 5, true)];
            same.add(&all.iter().flat_map(both).collect::<Vec<_>>());
        }
        assert_eq!(same.seen(), Some(Seen::TrueSharing), "down to the bytes");
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
        assert_eq!(seen(3, &both).seen(), Some(Seen::OnlyReads), "readers");
    }

    #[test]
    fn whom_nobody_watched_may_do_anything() {
        // Two count in one word, down to its bytes; a third one ran while that was watched, and not with the rest.
        let of = |rounds: usize, ran: &dyn Fn(usize, u64) -> bool| {
            let mut watch = Watch::of(1, 0, 64);
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
            watch
        };
        let known = |ran: &dyn Fn(usize, u64) -> bool| of(20, ran).seen();
        let truly = Some(Seen::TrueSharing);
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
        assert_eq!(with(&[]), Some(Seen::OneThread), "there is no other");
        assert_eq!(
            with(&other(true)),
            Some(Seen::OneThread),
            "it did nothing here"
        );
        assert_eq!(with(&other(false)), Some(Seen::OneThread), "it slept");
        assert_eq!(with(&[glance(2, 8, 0, true)]), None, "it ran elsewhere");
    }

    #[test]
    fn too_many_threads_are_counted() {
        assert_eq!(first_of(vec![3, 1, 2]), (vec![1, 2, 3], 0), "few");
        let (watched, left_out) = first_of((0..70).rev().collect());
        assert_eq!(
            (watched.len(), left_out),
            (64, 6),
            "the first ones are watched"
        );
        assert_eq!(watched.first(), Some(&0), "in order");
    }

    #[test]
    fn who_has_ended_cannot_be_watched() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(
            Watch::of(pid, 4096, 64).round(),
            Err(NoWatch::Ended),
            "it is gone"
        );
    }
}
