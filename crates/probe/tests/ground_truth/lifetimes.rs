//! Fate of pages: prefetched, used or wasted, evicted, and refaulted.
//!
//! The readahead invariant: prefetched + readahead = used + wasted + resident and unread. At the end of a
//! case all pages are evicted, so that none is resident.

use std::fs::File;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use libtest_mimic::Trial;
use rustix::mm::Advice as MapAdvice;
use rustix::process::PidfdFlags;

use cachewise_model::{Counter, EvictionCause, Ledger};
use cachewise_probe::{Eviction, Snapshot};

use crate::image::FileSystem;
use crate::matrix::Order;
use crate::oracle::{Expected, Folios, Oracle, State, Subject, Touched, page_size};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::reader::{Access, At, Call, Mapping, open_direct, read_ahead, submit, will_need};
use crate::stand::{Evictions, Measured, Room, trial};
use crate::table::{Comparison, DIRECT, FAULTS, Label, READS, WRITES, known};

const FILE_BYTES: u64 = 8 << 20;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "prefetch", prefetch));
        trials.push(trial(
            kind,
            "prefetch_used_or_wasted",
            prefetch_used_or_wasted,
        ));
        trials.push(trial(
            kind,
            "read_ahead_used_or_wasted",
            read_ahead_used_or_wasted,
        ));
        trials.push(trial(kind, "evictions", evictions));
        trials.push(trial(kind, "refaults", refaults));
    }
    trials
}

fn judge<E>(
    room: &mut Room,
    label: Label,
    measured: Result<Measured<E>>,
    compare: impl FnOnce(&Measured<E>, &Ledger) -> Comparison,
) {
    match measured {
        Ok(done) => {
            let inserted = (done.inserted, known(done.ledger.inserted_pages()));
            let comparison =
                compare(&done, &done.ledger).silently("inserted", inserted.0, inserted.1);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// Pages of a file that this process evicted during a case, for this cause.
fn evicted_by_us<E>(done: &Measured<E>, id: (u32, u32, u64), cause: EvictionCause) -> u64 {
    let (before, after) = &done.snapshots;
    let pages = |snapshot: &Snapshot| -> u64 {
        let of_case = |eviction: &&Eviction| {
            let file = eviction
                .file
                .map(|file| (file.major, file.minor, file.inode));
            let culprit = eviction.culprit.and_then(|id| snapshot.culprits.get(&id));
            let is_us = culprit.is_some_and(|culprit| culprit.pid == std::process::id());
            file == Some(id) && eviction.cause == cause && is_us
        };
        let evictions = snapshot.evictions.iter().filter(of_case);
        evictions.map(|eviction| eviction.pages.0).sum()
    };
    pages(after).saturating_sub(pages(before))
}

/// Advice, as a program gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advise {
    Fadvise,
    Readahead,
    Madvise,
    Populate,
    ProcessMadvise,
    UringFadvise,
    UringMadvise,
}

impl Advise {
    fn name(self) -> &'static str {
        match self {
            Advise::Fadvise => "fadvise WILLNEED",
            Advise::Readahead => "readahead",
            Advise::Madvise => "madvise WILLNEED",
            Advise::Populate => "madvise POPULATE_READ",
            Advise::ProcessMadvise => "process_madvise WILLNEED",
            Advise::UringFadvise => "io_uring fadvise WILLNEED",
            Advise::UringMadvise => "io_uring madvise WILLNEED",
        }
    }

    fn give(self, file: &File, bytes: u64) -> Result<()> {
        let map = || Mapping::new(file, bytes, Access::Read, Folios::Large);
        match self {
            Advise::Fadvise => will_need(file, 0, bytes),
            Advise::Readahead => read_ahead(file, 0, bytes),
            Advise::Madvise => map()?.advise(MapAdvice::WillNeed),
            Advise::Populate => map()?.advise(MapAdvice::LinuxPopulateRead),
            Advise::ProcessMadvise => process_madvise(&mut map()?, bytes),
            Advise::UringFadvise => {
                let fd = types::Fd(file.as_raw_fd());
                let advice = opcode::Fadvise::new(fd, bytes as i64, libc::POSIX_FADV_WILLNEED);
                submit_alone(advice.build())
            }
            Advise::UringMadvise => {
                let mut mapping = map()?;
                let start = mapping.slice(0, bytes).as_mut_ptr();
                let advice = opcode::Madvise::new(start.cast(), bytes as i64, libc::MADV_WILLNEED);
                submit_alone(advice.build())
            }
        }
    }
}

/// process_madvise(2) on this process; the library has no call for it.
fn process_madvise(mapping: &mut Mapping, bytes: u64) -> Result<()> {
    let memory = mapping.slice(0, bytes);
    let piece = libc::iovec {
        iov_base: memory.as_mut_ptr().cast(),
        iov_len: memory.len(),
    };
    let myself = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())
        .context("pidfd_open")?;
    // SAFETY: the piece describes a mapping that lives longer than the call, and WILLNEED changes no byte of it.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            myself.as_raw_fd(),
            &raw const piece,
            1,
            libc::MADV_WILLNEED,
            0,
        )
    };
    match u64::try_from(advised) {
        Ok(moved) if moved == bytes => Ok(()),
        _ => Err(Problem::new(format!(
            "process_madvise: {advised}: {}",
            std::io::Error::last_os_error()
        ))),
    }
}

/// One request of io_uring, submitted and waited for.
fn submit_alone(request: squeue::Entry) -> Result<()> {
    let mut ring = IoUring::new(2).context("io_uring_setup")?;
    // SAFETY: `submit` waits for the completion; what the request names lives longer.
    unsafe { submit(&mut ring, &[request]) }.map(drop)
}

fn prefetch(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for advise in [
        Advise::Fadvise,
        Advise::Readahead,
        Advise::Madvise,
        Advise::Populate,
        Advise::ProcessMadvise,
        Advise::UringFadvise,
        Advise::UringMadvise,
    ] {
        for state in [State::Cold, State::Half, State::Warm] {
            let label = Label::new(room.kind.name(), advise.name()).prepared(state, Folios::Small);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |_, _| {
                    let file = File::open(subject.path()).context("open for reading")?;
                    advise.give(&file, subject.bytes())
                },
            );
            judge(room, label, measured, |done, ledger| {
                let prefetched = ledger[Counter::PrefetchPages];
                // Populating goes the way of a fault, page for page, and may be counted as one.
                let faulted =
                    ledger[Counter::FaultMissPages] + ledger[Counter::FaultReadaheadPages];
                let comparison = if advise == Advise::Populate {
                    Comparison::new().exact(
                        "prefetch + faults",
                        done.inserted,
                        prefetched + faulted,
                    )
                } else {
                    Comparison::new()
                        .exact("prefetch", done.inserted, prefetched)
                        .nothing_else(ledger, &FAULTS)
                };
                comparison
                    .nothing_else(ledger, &READS[..5])
                    .nothing_else(ledger, &WRITES)
                    .nothing_else(ledger, &DIRECT)
            });
        }
    }
    Ok(())
}

/// Advice for a part, a read of half of that, and then everything goes.
fn prefetch_used_or_wasted(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let way = room.way(Call::Pread, Folios::Small);
    let (advised, size) = (2 << 20, 64 << 10);
    for advise in [Advise::Fadvise, Advise::Readahead] {
        let name = format!("{}, half read, evicted", advise.name());
        let label = Label::new(room.kind.name(), name).size(size).state("cold");
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.evict(),
            |(), tools| {
                let file = File::open(subject.path()).context("open for reading")?;
                advise.give(&file, advised)?;
                let prefetched = subject.residency()?.cached;
                let mut oracle = Oracle::new(&subject, Touched::none(&subject));
                let mut reader = way.open(subject.path(), tools)?;
                for offset in (0..advised / 2).step_by(size as usize) {
                    let at = At::Offset(offset);
                    oracle.request(offset, size, || reader.request(at, size))?;
                }
                subject.evict()?;
                Ok((prefetched, oracle.expected()))
            },
        );
        judge(room, label, measured, |done, ledger| {
            let (prefetched, expected) = done.expected;
            of_lifetimes(&expected, done.inserted, prefetched, ledger)
        });
    }
    Ok(())
}

/// Reads with readahead beyond the requested pages, followed by the eviction of all pages.
fn read_ahead_used_or_wasted(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let way = room.way(Call::Pread, Folios::Large);
    let reads: [(&str, Order, u64, u64); 4] = [
        (
            "whole file read, evicted",
            Order::Sequential,
            4 << 10,
            FILE_BYTES,
        ),
        (
            "half read, evicted",
            Order::Sequential,
            4 << 10,
            FILE_BYTES / 2,
        ),
        (
            "an eighth read, evicted",
            Order::Sequential,
            64 << 10,
            FILE_BYTES / 8,
        ),
        (
            "some read, evicted",
            Order::Random,
            4 << 10,
            200 * (4 << 10),
        ),
    ];
    for (name, order, size, read) in reads {
        let label = Label::new(room.kind.name(), name)
            .size(size)
            .order(order.name())
            .state("cold");
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.evict(),
            |(), tools| {
                let mut oracle = Oracle::new(&subject, Touched::none(&subject));
                let mut random = Random::named(&label.line());
                let mut reader = way.open(subject.path(), tools)?;
                for request in 0..read / size {
                    let offset = match order {
                        Order::Sequential => request * size,
                        Order::Random => random.below(subject.pages()) * page_size(),
                    };
                    let at = At::Offset(offset);
                    oracle.request(offset, size, || reader.request(at, size))?;
                }
                subject.evict()?;
                Ok(oracle.expected())
            },
        );
        judge(room, label, measured, |done, ledger| {
            of_lifetimes(&done.expected, done.inserted, 0, ledger)
        });
    }
    Ok(())
}

/// The readahead invariant, with no page left in the cache.
fn of_lifetimes(
    expected: &Expected,
    inserted: u64,
    prefetched: u64,
    ledger: &Ledger,
) -> Comparison {
    let ahead = inserted - prefetched - expected.misses;
    Comparison::new()
        .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
        .exact("misses", expected.misses, ledger[Counter::ReadMissedPages])
        .exact("prefetch", prefetched, ledger[Counter::PrefetchPages])
        .exact("read-ahead", ahead, ledger[Counter::ReadaheadPages])
        .exact("used", expected.used, ledger[Counter::ReadaheadHitPages])
        .exact(
            "wasted",
            prefetched + ahead - expected.used,
            ledger[Counter::ReadaheadWastedPages],
        )
        .silently("evicted", inserted, known(ledger.evicted_pages()))
        .nothing_else(ledger, &FAULTS)
        .nothing_else(ledger, &WRITES)
}

/// Pages that go: as many as were there, by reclaim or otherwise.
fn evictions(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let name = room.kind.name();
    for folios in [Folios::Large, Folios::Small] {
        let warm = |subject: &Subject| -> Result<()> {
            subject.prepare(State::Warm, folios, &mut Random::new(3))?;
            Ok(())
        };
        let otherwise = |done: &Measured<()>, ledger: &Ledger| {
            Comparison::new()
                .exact(
                    "evicted otherwise",
                    done.gone,
                    ledger[Counter::EvictedOtherPages],
                )
                .exact("reclaimed", 0, ledger[Counter::EvictedReclaimPages])
        };

        let label = Label::new(name, "fadvise DONTNEED").prepared(State::Warm, folios);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || warm(&subject),
            |(), _| subject.evict_range(0..0),
        );
        judge(room, label, measured, |done, ledger| {
            let advised = evicted_by_us(done, subject.id(), EvictionCause::Advice);
            otherwise(done, ledger).exact("evicted by this process for advice", done.gone, advised)
        });

        let label = Label::new(name, "truncate to half").prepared(State::Warm, folios);
        let victim = room.file("truncated", FILE_BYTES)?;
        let measured = room.stand.measure(
            &label,
            &victim,
            Evictions::Belong,
            || {
                // A second attempt finds it truncated.
                File::options()
                    .write(true)
                    .open(victim.path())
                    .and_then(|file| file.set_len(FILE_BYTES))
                    .context("make it whole")?;
                warm(&victim)
            },
            |(), _| victim.cut_to(FILE_BYTES / 2),
        );
        judge(room, label, measured, |done, ledger| {
            let cut = evicted_by_us(done, victim.id(), EvictionCause::Truncation);
            otherwise(done, ledger).exact("evicted by this process for truncation", done.gone, cut)
        });
        drop(victim);

        let label = Label::new(name, "madvise PAGEOUT").prepared(State::Warm, folios);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Reclaim,
            || warm(&subject),
            |(), _| {
                let file = File::open(subject.path()).context("open to map")?;
                let mapping = Mapping::new(&file, subject.bytes(), Access::Read, Folios::Large)?;
                (0..subject.pages()).for_each(|page| mapping.read(page));
                mapping.advise(MapAdvice::LinuxPageOut)
            },
        );
        judge(room, label, measured, |done, ledger| {
            Comparison::new()
                .exact("reclaimed", done.gone, ledger[Counter::EvictedReclaimPages])
                .exact("evicted otherwise", 0, ledger[Counter::EvictedOtherPages])
                .exact(
                    "evicted by this process for advice",
                    done.gone,
                    evicted_by_us(done, subject.id(), EvictionCause::Advice),
                )
        });

        let label = Label::new(name, "unlink").prepared(State::Warm, folios);
        let victim = room.file("unlinked", FILE_BYTES)?;
        warm(&victim)?;
        let (major, minor, inode) = victim.id();
        let before = room.stand.snapshot()?.file(major, minor, inode);
        let resident = victim.residency()?.cached;
        std::fs::remove_file(victim.path()).context("unlink")?;
        drop(victim);
        let ledger = room
            .stand
            .snapshot()?
            .file(major, minor, inode)
            .since(&before);
        let comparison = Comparison::new()
            .exact("evicted", resident, known(ledger.evicted_pages()))
            .silently("inserted", 0, known(ledger.inserted_pages()));
        room.judge(label, comparison);
    }
    Ok(())
}

/// Pages that were evicted and are brought back.
fn refaults(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let size = 64 << 10;
    let read_all = |subject: &Subject| -> Result<()> {
        let file = File::open(subject.path()).context("open for reading")?;
        let mut buffer = vec![0; size as usize];
        for offset in (0..subject.bytes()).step_by(size as usize) {
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, offset)
                .context("pread")?;
        }
        Ok(())
    };
    for (name, evicted) in [
        ("pread after eviction of all", 0..0),
        ("pread after eviction of a half", FILE_BYTES / 2..FILE_BYTES),
        ("pread after eviction of none", FILE_BYTES..FILE_BYTES + 1),
    ] {
        let label = Label::new(room.kind.name(), name)
            .size(size)
            .order("sequential");
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || {
                subject.evict()?;
                read_all(&subject)?;
                subject.evict_range(evicted.clone())
            },
            |(), _| read_all(&subject),
        );
        judge(room, label, measured, |done, ledger| {
            Comparison::new()
                .exact("refaults", done.inserted, ledger[Counter::RefaultPages])
                .exact(
                    "pages",
                    subject.pages(),
                    ledger[Counter::ReadRequestedPages],
                )
        });
    }

    // btrfs writes through the cache all the same, and so evicts what it wrote.
    if room.kind != FileSystem::Btrfs {
        let path = room.path("never-cached");
        File::create(&path).context("create")?;
        let direct = open_direct(&path, true)?;
        let buffer = room.stand.tools().buffer.slice(1 << 20);
        for offset in (0..FILE_BYTES).step_by(1 << 20) {
            std::os::unix::fs::FileExt::write_all_at(&direct, buffer, offset)
                .context("direct pwrite")?;
        }
        drop(direct);
        let fresh = Subject::open(path)?;
        let label = Label::new(room.kind.name(), "pread of what was never cached")
            .size(size)
            .order("sequential");
        let measured = room.stand.measure(
            &label,
            &fresh,
            Evictions::Spoil,
            || Ok(()),
            |(), _| read_all(&fresh),
        );
        judge(room, label, measured, |_, ledger| {
            Comparison::new()
                .exact("refaults", 0, ledger[Counter::RefaultPages])
                .exact("pages", fresh.pages(), ledger[Counter::ReadRequestedPages])
        });
    }
    Ok(())
}
