//! Several readers of one file at once, threads of one process and processes.
//!
//! With several readers, residency before a request does not show which of them inserts a page: the margin is
//! that any of them may. Invariants stay exact: each reader's pages; hits and misses add up to pages; and over
//! all readers, misses and readahead are the inserted pages, each counted once.

use std::env;
use std::fs::File;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::thread;

use libtest_mimic::Trial;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::Snapshot;

use crate::image::FileSystem;
use crate::matrix::Order;
use crate::oracle::{Folios, State, Subject, page_size};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label, known};

const READERS: u64 = 4;

const RANDOM_REQUESTS: u64 = 1000;

/// Tells this program, started again, to be a reader.
const READER_VARIABLE: &str = "CACHEWISE_GROUND_TRUTH_READER";

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "racing_threads", threads));
        trials.push(trial(kind, "racing_processes", processes));
    }
    trials
}

const RACES: [(Order, u64, State); 6] = [
    (Order::Sequential, 64 << 10, State::Cold),
    (Order::Sequential, 1 << 20, State::Cold),
    (Order::Sequential, 4 << 10, State::Half),
    (Order::Random, 4 << 10, State::Cold),
    (Order::Random, 64 << 10, State::Half),
    (Order::Random, 64 << 10, State::Warm),
];

/// Reads a file as one of several readers, and returns the numbers of requests and requested pages.
fn read(file: &File, bytes: u64, order: Order, size: u64, seed: u64) -> Result<(u64, u64)> {
    let mut buffer = vec![0; size as usize];
    let mut random = Random::new(seed);
    let requests = match order {
        Order::Sequential => bytes / size,
        Order::Random => RANDOM_REQUESTS,
    };
    for request in 0..requests {
        let offset = match order {
            Order::Sequential => request * size,
            Order::Random => random.below((bytes - size) / page_size()) * page_size(),
        };
        let got = rustix::io::pread(file, &mut buffer[..], offset).context("pread")?;
        if got as u64 != size {
            return Err(Problem::new(format!(
                "a pread gave {got} bytes, not {size}"
            )));
        }
    }
    Ok((requests, requests * size / page_size()))
}

/// The laws over all readers of a file.
fn laws(requests: u64, pages: u64, inserted: u64, ledger: &Ledger) -> Comparison {
    let missed = ledger[Counter::ReadMissedPages];
    let ahead = ledger[Counter::ReadaheadPages];
    Comparison::new()
        .exact("requests", requests, ledger[Counter::ReadRequests])
        .exact("pages", pages, ledger[Counter::ReadRequestedPages])
        .exact(
            "bytes",
            pages * page_size(),
            ledger[Counter::ReadRequestedBytes],
        )
        .exact(
            "hits + misses",
            pages,
            known(ledger.hits()).saturating_add(missed),
        )
        .exact("misses + read-ahead", inserted, missed + ahead)
        .silently("inserted", inserted, known(ledger.inserted_pages()))
        .within(
            "used",
            (0, ahead),
            ledger[Counter::ReadaheadHitPages],
            "which reader is first on a page is a matter of time, but no page is used for the \
             first time twice",
        )
}

fn threads(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 16 << 20)?;
    for (order, size, state) in RACES {
        for is_shared in [false, true] {
            let descriptors = if is_shared {
                "one descriptor"
            } else {
                "four descriptors"
            };
            let label = Label::new(room.kind.name(), format!("4 threads, {descriptors}"))
                .size(size)
                .order(order.name())
                .prepared(state, Folios::Small);
            let open = || File::open(subject.path()).context("open for reading");
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |_, _| {
                    let shared = open()?;
                    let start = Barrier::new(READERS as usize);
                    let one = |seed| -> Result<(u64, u64)> {
                        let own = if is_shared { None } else { Some(open()) };
                        start.wait();
                        let own = own.transpose()?;
                        let file = own.as_ref().unwrap_or(&shared);
                        read(file, subject.bytes(), order, size, seed)
                    };
                    thread::scope(|scope| {
                        let readers: Vec<_> = (1..=READERS)
                            .map(|seed| scope.spawn(move || one(seed)))
                            .collect();
                        let mut sums = (0, 0);
                        for reader in readers {
                            let (requests, pages) = reader
                                .join()
                                .map_err(|_| Problem::new("a reader panicked"))??;
                            sums = (sums.0 + requests, sums.1 + pages);
                        }
                        Ok(sums)
                    })
                },
            );
            match measured {
                Ok(done) => {
                    let (requests, pages) = done.expected;
                    room.judge(label, laws(requests, pages, done.inserted, &done.ledger));
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

fn processes(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 16 << 20)?;
    for (order, size, state) in RACES {
        let label = Label::new(room.kind.name(), "4 processes")
            .size(size)
            .order(order.name())
            .prepared(state, Folios::Small);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
            |_, _| {
                let mut readers = Vec::new();
                for seed in 1..=READERS {
                    readers.push(start_reader(&subject, order, size, seed)?);
                }
                let mut pids = Vec::new();
                for mut reader in readers {
                    pids.push(reader.id());
                    let status = reader.wait().context("wait for a reader")?;
                    if !status.success() {
                        return Err(Problem::new(format!("a reader failed: {status}")));
                    }
                }
                Ok(pids)
            },
        );
        match measured {
            Ok(done) => {
                let each = match order {
                    Order::Sequential => subject.bytes() / size,
                    Order::Random => RANDOM_REQUESTS,
                };
                let pages = each * size / page_size();
                let mut comparison =
                    laws(READERS * each, READERS * pages, done.inserted, &done.ledger);
                let (_, after) = &done.snapshots;
                for pid in &done.expected {
                    let own = of_process(after, *pid, &subject);
                    comparison = comparison
                        .silently("a process's requests", each, own[Counter::ReadRequests])
                        .silently("a process's pages", pages, own[Counter::ReadRequestedPages]);
                }
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Counters of one process on one file. Rows have ids of the kernel's first PID namespace, a child has one of ours.
fn of_process(snapshot: &Snapshot, pid: u32, subject: &Subject) -> Ledger {
    let mut processes = snapshot.processes.iter();
    let Some(process) = processes.find(|process| process.pid == pid) else {
        return Ledger::default();
    };
    let rows = snapshot.rows.iter().filter(|row| {
        row.process == Some(process.id)
            && row
                .file
                .is_some_and(|file| (file.major, file.minor, file.inode) == subject.id())
    });
    rows.map(|row| &row.ledger).sum()
}

fn start_reader(
    subject: &Subject,
    order: Order,
    size: u64,
    seed: u64,
) -> Result<std::process::Child> {
    let path = subject.path().display();
    let order = order.name();
    Command::new("/proc/self/exe")
        .env(READER_VARIABLE, format!("{order} {size} {seed} {path}"))
        .stdin(Stdio::null())
        .spawn()
        .context("start a reader")
}

/// If this program was started to be a reader: reads, and gives the exit code.
pub fn be_a_reader() -> Option<ExitCode> {
    let order = env::var(READER_VARIABLE).ok()?;
    let read = || -> Result<()> {
        let unclear = || Problem::new(format!("not an order for a reader: {order:?}"));
        let words: Vec<&str> = order.splitn(4, ' ').collect();
        let [order, size, seed, path] = words[..] else {
            return Err(unclear());
        };
        let order = if order == Order::Random.name() {
            Order::Random
        } else {
            Order::Sequential
        };
        let size = size.parse().map_err(|_| unclear())?;
        let seed = seed.parse().map_err(|_| unclear())?;
        let file = File::open(path).context("open for reading")?;
        let bytes = file.metadata().context("stat")?.len();
        read(&file, bytes, order, size, seed)?;
        Ok(())
    };
    Some(match read() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("reader: {problem}");
            ExitCode::FAILURE
        }
    })
}
