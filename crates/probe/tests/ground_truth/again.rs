//! Pages inserted twice for one read: they are evicted after it has begun and before it reaches them.
//!
//! A second thread evicts the file all the time, so the residency that a read finds depends on timing. Invariants
//! hold anyway. Every page is requested once: it is one miss, however often it was inserted for it, or one
//! readahead hit. All other inserted pages were wasted, because none is left at the end; and because the whole
//! file had been in the cache, every inserted page is a refault.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libtest_mimic::Trial;
use rustix::fs::Advice;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::BackEnd;

use crate::image::FileSystem;
use crate::oracle::{Folios, Subject, page_size};
use crate::problem::{Context, Problem, Result};
use crate::reader::{At, Call, will_need};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, FAULTS, Label};

const FILE_BYTES: u64 = 8 << 20;

/// Number of reads of the file, in at least one of which pages are evicted before the read reaches them.
const ATTEMPTS: u32 = 20;

/// Maximum number of marks lost when two CPUs change those of the same pages.
const LOST_MARKS: u64 = 256;

/// Requests for the same pages, which are evicted before each.
const REQUESTS: u64 = 50;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(
            kind,
            "evicted_inside_of_reads",
            evicted_inside_of_reads,
        ));
        trials.push(trial(kind, "evicted_between_reads", evicted_between_reads));
    }
    trials
}

/// The same pages again for another request, which is a miss each time. Not by splice(2): nothing tells two of the
/// same range apart, if the kernel is silent on the second one's first batch.
fn evicted_between_reads(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let size = 64 << 10;
    let others = [Call::Mmap, Call::Splice];
    for call in Call::ALL.into_iter().filter(|call| !others.contains(call)) {
        let way = room.way(call, Folios::Small);
        let name = format!("{}, evicted before each", call.name());
        let label = Label::new(room.kind.name(), name).size(size).state("cold");
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.evict(),
            |(), tools| {
                let mut reader = way.open(subject.path(), tools)?;
                for _ in 0..REQUESTS {
                    subject.evict()?;
                    reader.request(At::Offset(size), size)?;
                }
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let pages = REQUESTS * size / page_size();
                let comparison = Comparison::new()
                    .exact("pages", pages, done.ledger[Counter::ReadRequestedPages])
                    .exact("misses", pages, done.ledger[Counter::ReadMissedPages])
                    .exact("brought in", pages, done.inserted)
                    .nothing_else(
                        &done.ledger,
                        &[
                            Counter::ReadaheadPages,
                            Counter::ReadaheadHitPages,
                            Counter::ReadaheadWastedPages,
                        ],
                    );
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

fn evicted_inside_of_reads(room: &mut Room) -> Result<()> {
    if room.stand.back_end() == BackEnd::SysExit {
        room.note("left out: at the end of a call, what of its pages was there is gone".to_owned());
        return Ok(());
    }
    let calls = [
        Call::Read,
        Call::Preadv,
        Call::Sendfile,
        Call::CopyFileRange,
    ];
    let mut happened = 0;
    for call in calls {
        for is_prefetched in [false, true] {
            happened += u32::from(one(room, call, is_prefetched)?);
        }
    }
    if happened == 0 {
        return Err(Problem::new(format!(
            "nothing came back in any of {ATTEMPTS} attempts of any call"
        )));
    }
    Ok(())
}

/// One read of a whole file, request by request, until it has happened in one; false: it did not.
fn one(room: &mut Room, call: Call, is_prefetched: bool) -> Result<bool> {
    let subject = room.file("data", FILE_BYTES)?;
    let way = room.way(call, Folios::Large);
    let size = 1 << 20;
    let label = Label::new(
        room.kind.name(),
        format!("{}, evicted meanwhile", call.name()),
    )
    .size(size)
    .order("sequential")
    .state(if is_prefetched { "warm" } else { "cold" });
    for _ in 0..ATTEMPTS {
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Reclaim, // the laws are the same, whoever evicts
            || subject.evict(),
            |(), tools| {
                let file = File::open(subject.path()).context("open for reading")?;
                if is_prefetched {
                    will_need(&file, 0, subject.bytes())?;
                }
                let mut reader = way.open(subject.path(), tools)?;
                while_evicting(&file, || {
                    for offset in (0..subject.bytes()).step_by(size as usize) {
                        let got = reader.request(At::Offset(offset), size)?;
                        if got != size {
                            return Err(Problem::new(format!("a request gave {got} bytes")));
                        }
                    }
                    Ok(())
                })?;
                subject.evict()
            },
        );
        match measured {
            Ok(done) if done.inserted > subject.pages() => {
                room.judge(label, laws(&subject, done.inserted, &done.ledger));
                return Ok(true);
            }
            Ok(_) => {}
            Err(problem) => {
                room.failed(&label, &problem);
                return Ok(true);
            }
        }
    }
    room.note(format!("left out: nothing came back: {}", label.line()));
    Ok(false)
}

/// Says that it is over when it goes, also when what it is about panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does something while another thread throws a file out of the cache, over and over.
fn while_evicting<T>(file: &File, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let evicter = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                rustix::fs::fadvise(file, 0, None, Advice::DontNeed).context("fadvise")?;
            }
            Ok(())
        });
        let over = Over(&is_done);
        let done = work();
        drop(over);
        evicter
            .join()
            .map_err(|_| Problem::new("the evicter panicked"))??;
        done
    })
}

fn laws(subject: &Subject, inserted: u64, ledger: &Ledger) -> Comparison {
    let pages = subject.pages();
    let misses = ledger[Counter::ReadMissedPages];
    let used = ledger[Counter::ReadaheadHitPages];
    let ahead = ledger[Counter::ReadaheadPages] + ledger[Counter::PrefetchPages];
    Comparison::new()
        .exact("pages", pages, ledger[Counter::ReadRequestedPages])
        .within(
            "misses + used",
            (pages / 2, pages),
            misses + used,
            "of a page that goes between its use and the kernel's next word on the read, it cannot be told \
             that it was used",
        )
        .exact("misses + read-ahead + prefetch", inserted, misses + ahead)
        .within(
            "used + wasted",
            (ahead.saturating_sub(LOST_MARKS), ahead),
            used + ledger[Counter::ReadaheadWastedPages],
            "one CPU may clear the marks of 64 pages at the moment that another sets one of them",
        )
        .silently(
            "refaults",
            inserted,
            ledger[Counter::RefaultPages],
        )
        .nothing_else(ledger, &FAULTS)
}
