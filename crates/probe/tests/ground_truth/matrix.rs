//! Every call with every size, in both orders, on a cold, a half warm and a warm file, with large
//! folios and with small ones: requests, pages, bytes, hits, misses, readahead and readahead hits,
//! all of them exact, and nothing else counted.
//!
//! The one special case is a property of a call: copy_file_range shares blocks if the file system can,
//! touches no page, and counts 0 (see `forms.rs`). Here a destination offset inside a block makes it copy.

use std::fs::File;

use libtest_mimic::Trial;

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::oracle::{Expected, Folios, Oracle, State, Subject, Touched, page_size, pages_of};
use crate::problem::{Context, Result};
use crate::random::Random;
use crate::reader::{Access, At, Call, Mapping, Reader, Tools};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, DIRECT, FAULTS, Label, READS, WRITES};

/// A slow machine, as one that is emulated, does with less: CACHEWISE_TEST_SMALL.
fn file_bytes() -> u64 {
    match std::env::var_os("CACHEWISE_TEST_SMALL") {
        Some(_) => 2 << 20,
        None => 8 << 20,
    }
}

const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// The order of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the beginning to the end, by the file position where the call has one.
    Sequential,
    /// At page boundaries, by lot; some reach beyond the end.
    Random,
}

impl Order {
    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Order::Sequential => "sequential",
            Order::Random => "random",
        }
    }
}

/// How many random requests of a size: enough that they meet each other.
fn random_requests(size: u64) -> u64 {
    (2 * file_bytes() / size).min(400)
}

/// A trial for every call on every file system.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::ALL {
        for call in Call::ALL {
            trials.push(trial(kind, call.name(), move |room| match kind {
                FileSystem::Tmpfs => in_memory(room, call),
                _ => cached(room, call),
            }));
        }
    }
    trials
}

/// All cases of a call on a file system with a cache.
fn cached(room: &mut Room, call: Call) -> Result<()> {
    let subject = room.file("data", file_bytes())?;
    for folios in [Folios::Large, Folios::Small] {
        for state in [State::Cold, State::Half, State::Warm] {
            // A warm file stays as it is from case to case.
            let mut is_warm = false;
            for size in SIZES {
                for order in [Order::Sequential, Order::Random] {
                    let label = Label::new(room.kind.name(), call.name())
                        .size(size)
                        .order(order.name())
                        .prepared(state, folios);
                    let way = room.way(call, folios);
                    let measured = room.stand.measure(
                        &label,
                        &subject,
                        Evictions::Spoil,
                        || {
                            let stays = is_warm && subject.residency()?.cached == subject.pages();
                            if stays {
                                return Ok(Touched::all(&subject));
                            }
                            let mut random = Random::named(&label.line());
                            let touched = subject.prepare(state, folios, &mut random)?;
                            is_warm = state == State::Warm;
                            Ok(touched)
                        },
                        |touched, tools| {
                            let oracle = Oracle::new(&subject, touched);
                            let random = Random::named(&label.line());
                            if call == Call::Mmap {
                                return touch(&subject, oracle, folios, size, order, random);
                            }
                            let reader = way.open(subject.path(), tools)?;
                            read(&subject, oracle, reader, size, order, random)
                        },
                    );
                    match measured {
                        Ok(done) if call == Call::Mmap => {
                            let comparison =
                                Comparison::of_faults(&done.expected, done.inserted, &done.ledger);
                            room.judge(label, comparison);
                        }
                        Ok(done) => {
                            let comparison =
                                Comparison::of_reads(&done.expected, done.inserted, &done.ledger);
                            room.judge(label, comparison);
                        }
                        Err(problem) => room.failed(&label, &problem),
                    }
                }
            }
        }
    }
    Ok(())
}

/// Reads a file in requests of one size; sequentially until it gives nothing more.
fn read(
    subject: &Subject,
    mut oracle: Oracle,
    mut reader: Reader,
    size: u64,
    order: Order,
    mut random: Random,
) -> Result<Expected> {
    match order {
        Order::Sequential => {
            let mut offset = 0;
            loop {
                let at = At::Position(offset);
                let got = oracle.request(offset, size, || reader.request(at, size))?;
                if got == 0 {
                    break;
                }
                offset += got;
            }
        }
        Order::Random => {
            for _ in 0..random_requests(size) {
                let offset = random.below(subject.pages()) * page_size();
                oracle.request(offset, size, || reader.request(At::Offset(offset), size))?;
            }
        }
    }
    Ok(oracle.expected())
}

/// Touches the pages of a mapping, a request's worth at a time.
fn touch(
    subject: &Subject,
    mut oracle: Oracle,
    folios: Folios,
    size: u64,
    order: Order,
    mut random: Random,
) -> Result<Expected> {
    let file = File::open(subject.path()).context("open to map")?;
    let mapping = Mapping::new(&file, subject.bytes(), Access::Read, folios)?;
    let requests = match order {
        Order::Sequential => subject.bytes() / size,
        Order::Random => random_requests(size),
    };
    for request in 0..requests {
        let offset = match order {
            Order::Sequential => request * size,
            Order::Random => random.below(subject.pages()) * page_size(),
        };
        for page in pages_of(&(offset..(offset + size).min(subject.bytes()))) {
            oracle.touch(page, || mapping.read(page))?;
        }
    }
    Ok(oracle.expected())
}

/// The same calls on tmpfs, whose pages are no cache of anything: nothing is to be counted.
fn in_memory(room: &mut Room, call: Call) -> Result<()> {
    let subject = room.file("data", file_bytes())?;
    for size in SIZES {
        for order in [Order::Sequential, Order::Random] {
            let label = Label::new(room.kind.name(), call.name())
                .size(size)
                .order(order.name())
                .state("warm");
            let way = room.way(call, Folios::Large);
            let work = |(), tools: &mut Tools| {
                let oracle = Oracle::new(&subject, Touched::none(&subject));
                let random = Random::named(&label.line());
                if call == Call::Mmap {
                    return touch(&subject, oracle, Folios::Large, size, order, random);
                }
                let reader = way.open(subject.path(), tools)?;
                read(&subject, oracle, reader, size, order, random)
            };
            match room
                .stand
                .measure(&label, &subject, Evictions::Spoil, || Ok(()), work)
            {
                Ok(done) => {
                    let ledger = &done.ledger;
                    let comparison = Comparison::new()
                        .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                        .exact("misses", 0, ledger[Counter::ReadMissedPages])
                        .exact("faults", 0, ledger[Counter::FaultRequests])
                        .nothing_else(ledger, &READS)
                        .nothing_else(ledger, &FAULTS)
                        .nothing_else(ledger, &WRITES)
                        .nothing_else(ledger, &DIRECT)
                        .silently("anything", 1, u64::from(ledger.is_zero()));
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}
