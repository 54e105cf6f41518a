//! libaio: reads through the cache by io_submit(2), one and several a call.

use std::fs::File;

use libtest_mimic::Trial;

use cachewise_model::{Counter, contradicts_itself};

use crate::image::FileSystem;
use crate::libaio::{PREAD, PREADV, PWRITE, Ring};
use crate::oracle::{Folios, Oracle, State, page_size, pages_of};
use crate::problem::{Context, Result};
use crate::random::Random;
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label, known};

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "libaio_one_at_a_time", one_at_a_time));
        trials.push(trial(kind, "libaio_several_a_call", several_a_call));
        if kind != FileSystem::Btrfs {
            trials.push(trial(kind, "libaio_writes", writes));
        }
    }
    trials
}

/// A request a call: in sequence as fio does it, and anywhere.
fn one_at_a_time(room: &mut Room) -> Result<()> {
    let subject = room.file("data", (8 << 20) + 1234)?;
    for state in [State::Cold, State::Half, State::Warm] {
        for folios in [Folios::Large, Folios::Small] {
            for (order, size) in [
                ("sequential", 12 << 10),
                ("random", 30_000),
                ("the same again", 100_000),
            ] {
                let label = Label::new(room.kind.name(), "io_submit")
                    .size(size)
                    .order(order)
                    .prepared(state, folios);
                let measured = room.stand.measure(
                    &label,
                    &subject,
                    Evictions::Spoil,
                    || subject.prepare(state, folios, &mut Random::named(&label.line())),
                    |touched, tools| {
                        let file = File::open(subject.path()).context("open for reading")?;
                        rustix::fs::fadvise(&file, 0, None, folios.advice()).context("fadvise")?;
                        let ring = Ring::new()?;
                        let mut oracle = Oracle::new(&subject, touched);
                        let mut random = Random::named(&label.line());
                        let offsets: Vec<u64> = match order {
                            "sequential" => (0..subject.bytes()).step_by(size as usize).collect(),
                            "random" => (0..200).map(|_| random.below(subject.bytes())).collect(),
                            _ => (0..60)
                                .map(|turn| ((turn / 3 * 3) << 17) % subject.bytes())
                                .collect(),
                        };
                        for offset in offsets {
                            let buffer = tools.buffer.slice(size);
                            oracle.request(offset, size, || {
                                ring.run(PREAD, &file, &[(offset, size)], buffer)
                            })?;
                        }
                        Ok(oracle.expected())
                    },
                );
                match measured {
                    Ok(done) => {
                        let (expected, inserted) = (done.expected, done.inserted);
                        room.judge(
                            label,
                            Comparison::of_reads(&expected, inserted, &done.ledger),
                        );
                    }
                    Err(problem) => room.failed(&label, &problem),
                }
            }
        }
    }
    Ok(())
}

/// Requests that overlap, nest and end on the same page, all in one call. Without readahead each page of them that is
/// not there is a miss once.
fn several_a_call(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    let page = page_size();
    for (state, name) in [
        (State::Cold, "cold"),
        (State::Half, "half"),
        (State::Warm, "warm"),
    ] {
        let label = Label::new(room.kind.name(), "io_submit, several a call").state(name);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
            |_, tools| {
                let file = File::open(subject.path()).context("open for reading")?;
                rustix::fs::fadvise(&file, 0, None, Folios::Small.advice()).context("fadvise")?;
                let ring = Ring::new()?;
                let (mut requests, mut bytes, mut pages, mut misses) = (0, 0, 0, 0);
                for turn in 0..40 {
                    let base = turn * 48 * page;
                    let ranges = [
                        (base, 4 * page),
                        (base + page, 4 * page),
                        (base + 3 * page, 2 * page),
                        (base + 4 * page + 100, 800),
                        (base + 10 * page, 20 * page),
                        (base + 12 * page, 18 * page),
                    ];
                    let mut wanted: Vec<u64> = Vec::new();
                    for (offset, length) in ranges {
                        requests += 1;
                        bytes += length;
                        let range = pages_of(&(offset..offset + length));
                        pages += range.end - range.start;
                        wanted.extend(range);
                    }
                    wanted.sort_unstable();
                    wanted.dedup();
                    for page_index in wanted {
                        let start = page_index * page;
                        misses += u64::from(subject.resident_in(&(start..start + 1))? == 0);
                    }
                    let opcode = if turn % 2 == 0 { PREAD } else { PREADV };
                    ring.run(opcode, &file, &ranges, tools.buffer.slice(60 * page))?;
                }
                Ok((requests, bytes, pages, misses))
            },
        );
        match measured {
            Ok(done) => {
                let ((requests, bytes, pages, misses), ledger) = (done.expected, &done.ledger);
                let comparison = Comparison::new()
                    .exact("requests", requests, ledger[Counter::ReadRequests])
                    .exact("pages", pages, ledger[Counter::ReadRequestedPages])
                    .exact("bytes", bytes, ledger[Counter::ReadRequestedBytes])
                    .exact("misses", misses, ledger[Counter::ReadMissedPages])
                    .exact("hits", pages - misses, known(ledger.hits()))
                    .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                    .silently("contradicts itself", 0, contradicts_itself(ledger).into());
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Writes in sequence, one a call and several: each is a request.
fn writes(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 1 << 20)?;
    for several in [1, 4] {
        let label = Label::new(room.kind.name(), "io_submit, writes").size(10_000 * several);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || Ok(()),
            |(), tools| {
                let file = File::options().write(true).open(subject.path());
                let file = file.context("open for writing")?;
                let ring = Ring::new()?;
                let mut position = 0;
                for _ in 0..20 {
                    let ranges: Vec<(u64, u64)> = (0..several)
                        .map(|slot| (position + slot * 10_000, 10_000))
                        .collect();
                    position += several * 10_000;
                    let buffer = tools.buffer.slice(several * 10_000);
                    ring.run(PWRITE, &file, &ranges, buffer)?;
                }
                Ok(position)
            },
        );
        match measured {
            Ok(done) => {
                let (bytes, ledger) = (done.expected, &done.ledger);
                let comparison = Comparison::new()
                    .exact("requests", bytes / 10_000, ledger[Counter::WriteRequests])
                    .exact("bytes", bytes, ledger[Counter::WriteBytes])
                    .silently("unserved", 0, ledger[Counter::WriteUnservedBytes]);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}
