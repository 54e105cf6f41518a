//! io_uring: each way to learn of completions, each form of a read. The kernel goes on with a read that waited for its
//! pages wherever the task returns to user space; it is one request all the same.

use std::fs::File;
use std::os::fd::AsRawFd;

use io_uring::{opcode, squeue, types};
use libtest_mimic::Trial;

use cachewise_model::{Counter, Ledger, contradicts_itself};

use crate::image::FileSystem;
use crate::oracle::{Expected, Folios, Oracle, State, Subject, page_size, pages_of};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::reader::Tools;
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label, known};
use crate::uring::{Reap, Uring, bytes};

const FILE_BYTES: u64 = (8 << 20) + 1234;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "uring_reaped_in_any_way", reaped));
        trials.push(trial(kind, "uring_several_in_flight", several));
        trials.push(trial(kind, "uring_forms_of_reads", forms));
        trials.push(trial(kind, "uring_chains", chains));
        trials.push(trial(kind, "uring_splice", splice));
    }
    trials
}

/// Opens a file for reads that make such folios.
pub fn open(subject: &Subject, folios: Folios) -> Result<File> {
    let file = File::open(subject.path()).context("open for reading")?;
    rustix::fs::fadvise(&file, 0, None, folios.advice()).context("fadvise")?;
    Ok(file)
}

/// How many of the numbers that completions correct are estimates.
pub fn marks(ledger: &Ledger) -> u64 {
    let corrected = [
        Counter::ReadMissedPages,
        Counter::ReadHitPages,
        Counter::ReadUnservedBytes,
        Counter::WriteBytes,
    ];
    let is_estimate = |counter: &&Counter| ledger.get(**counter).exact().is_none();
    corrected.iter().filter(is_estimate).count() as u64
}

/// One reader's case: prepared, read by `work` beside the oracle, and compared exactly.
pub fn exactly(
    room: &mut Room,
    label: Label,
    subject: &Subject,
    (state, folios): (State, Folios),
    mut work: impl FnMut(&mut Oracle, &mut Tools, Random) -> Result<()>,
) {
    let label = label.prepared(state, folios);
    let measured = room.stand.measure(
        &label,
        subject,
        Evictions::Spoil,
        || subject.prepare(state, folios, &mut Random::named(&label.line())),
        |touched, tools| {
            let mut oracle = Oracle::new(subject, touched);
            work(&mut oracle, tools, Random::named(&label.line()))?;
            Ok(oracle.expected())
        },
    );
    match measured {
        Ok(done) => {
            let expected: Expected = done.expected;
            let comparison = Comparison::of_reads(&expected, done.inserted, &done.ledger).silently(
                "marks",
                0,
                marks(&done.ledger),
            );
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// A ring that is reaped in a way, or a remark that this kernel has none.
fn ring(room: &mut Room, reap: Reap) -> Result<Option<Uring>> {
    let ring = Uring::new(reap)?;
    if ring.is_none() {
        room.note(format!("left out: this kernel has no {}", reap.name()));
    }
    Ok(ring)
}

/// One request at a time: pages far apart, and everything in sequence.
fn reaped(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for reap in Reap::ALL {
        let Some(mut ring) = ring(room, reap)? else {
            continue;
        };
        for (state, folios) in [
            (State::Cold, Folios::Large),
            (State::Cold, Folios::Small),
            (State::Half, Folios::Small),
            (State::Warm, Folios::Large),
        ] {
            for (length, step) in [
                (page_size(), 64 << 10),
                (64 << 10, 64 << 10),
                (300_000, 1 << 20),
            ] {
                let label = Label::new(room.kind.name(), format!("io_uring, {}", reap.name()));
                let label = label.size(length);
                let prepared = (state, folios);
                exactly(room, label, &subject, prepared, |oracle, tools, _| {
                    let file = open(&subject, folios)?;
                    let fd = types::Fd(file.as_raw_fd());
                    let buffer = tools.buffer.slice(length).as_mut_ptr();
                    for offset in (0..subject.bytes()).step_by(step) {
                        let read = opcode::Read::new(fd, buffer, length as u32).offset(offset);
                        oracle.request(offset, length, || {
                            // SAFETY: `run` waits for the completion; buffer and file live longer.
                            bytes(unsafe { ring.run(vec![read.build()], 0)? }[0])
                        })?;
                    }
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

/// The expected sums of requests in flight together. Without readahead each page that is not there is a miss once.
#[derive(Debug, Default)]
struct Sum {
    requests: u64,
    bytes: u64,
    pages: u64,
    misses: u64,
}

impl Sum {
    fn add(&mut self, subject: &Subject, ranges: &[(u64, u64)]) -> Result<()> {
        let mut wanted: Vec<u64> = Vec::new();
        for (offset, length) in ranges {
            let range = pages_of(&(*offset..offset + length));
            self.requests += 1;
            self.bytes += length;
            self.pages += range.end - range.start;
            wanted.extend(range);
        }
        wanted.sort_unstable();
        wanted.dedup();
        for page in wanted {
            let start = page * page_size();
            self.misses += u64::from(subject.resident_in(&(start..start + 1))? == 0);
        }
        Ok(())
    }
}

/// Requests of one file in flight together that overlap, nest, end on the same page, and are the same.
fn several(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    let page = page_size();
    for reap in Reap::ALL {
        let Some(mut ring) = ring(room, reap)? else {
            continue;
        };
        for state in [State::Cold, State::Half, State::Warm] {
            let label = Label::new(
                room.kind.name(),
                format!("io_uring, several, {}", reap.name()),
            )
            .prepared(state, Folios::Small);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |_, tools| {
                    let file = open(&subject, Folios::Small)?;
                    let fd = types::Fd(file.as_raw_fd());
                    let mut sum = Sum::default();
                    for turn in 0..40 {
                        let base = turn * 48 * page;
                        let ranges = [
                            (base, 4 * page),
                            (base + page, 4 * page),
                            (base + 3 * page, 2 * page),
                            (base + 4 * page + 100, 800),
                            (base + 10 * page, 20 * page),
                            (base + 12 * page, 18 * page),
                            (base + 12 * page, 18 * page),
                        ];
                        sum.add(&subject, &ranges)?;
                        let mut rest = tools.buffer.slice(80 * page);
                        let mut entries = Vec::new();
                        for (offset, length) in ranges {
                            let (piece, after) = rest.split_at_mut(length as usize);
                            rest = after;
                            let read = opcode::Read::new(fd, piece.as_mut_ptr(), length as u32);
                            entries.push(read.offset(offset).build());
                        }
                        // SAFETY: `run` waits for all of them; buffer and file live longer.
                        let results = unsafe { ring.run(entries, 0)? };
                        for (result, (_, length)) in results.into_iter().zip(ranges) {
                            assert_eq!(bytes(result)?, length, "each request reads all");
                        }
                    }
                    Ok(sum)
                },
            );
            match measured {
                Ok(done) => {
                    let (sum, ledger) = (done.expected, &done.ledger);
                    let comparison = Comparison::new()
                        .exact("requests", sum.requests, ledger[Counter::ReadRequests])
                        .exact("pages", sum.pages, ledger[Counter::ReadRequestedPages])
                        .exact("bytes", sum.bytes, ledger[Counter::ReadRequestedBytes])
                        .exact("misses", sum.misses, ledger[Counter::ReadMissedPages])
                        .exact("hits", sum.pages - sum.misses, known(ledger.hits()))
                        .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                        .silently("contradicts itself", 0, contradicts_itself(ledger).into());
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

/// Many pieces, registered files and buffers, buffers of a pool, the file position: reaped by polling.
fn forms(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for reap in [Reap::Poll, Reap::Epoll] {
        for prepared in [
            (State::Cold, Folios::Large),
            (State::Half, Folios::Small),
            (State::Warm, Folios::Large),
        ] {
            for form in [
                "17 pieces",
                "1024 pieces",
                "registered",
                "pool",
                "pool, shorter",
                "position",
                "silent",
            ] {
                let label =
                    Label::new(room.kind.name(), format!("io_uring, {form}")).order(reap.name());
                exactly(room, label, &subject, prepared, |oracle, tools, random| {
                    let file = open(&subject, prepared.1)?;
                    let Some(mut ring) = Uring::new(reap)? else {
                        return Err(Problem::new("there is no io_uring"));
                    };
                    one_form(form, &mut ring, &file, oracle, tools, random)
                });
            }
        }
    }
    Ok(())
}

fn one_form(
    form: &str,
    ring: &mut Uring,
    file: &File,
    oracle: &mut Oracle,
    tools: &mut Tools,
    mut random: Random,
) -> Result<()> {
    let size = 102_400_u64;
    let buffer = tools.buffer.slice(size);
    let start = buffer.as_mut_ptr();
    let fd = types::Fd(file.as_raw_fd());
    let pieces = if form == "17 pieces" { 17 } else { 1024 };
    let pieces: Vec<libc::iovec> = buffer
        .chunks_mut(size as usize / pieces)
        .take(pieces)
        .map(|piece| libc::iovec {
            iov_base: piece.as_mut_ptr().cast(),
            iov_len: piece.len(),
        })
        .collect();
    let in_pieces: usize = pieces.iter().map(|piece| piece.iov_len).sum();
    if form == "registered" {
        let whole = [libc::iovec {
            iov_base: start.cast(),
            iov_len: size as usize,
        }];
        let submitter = ring.submitter();
        // SAFETY: the buffer belongs to the test stand and outlives the ring.
        unsafe { submitter.register_buffers(&whole) }.context("register a buffer")?;
        submitter
            .register_files(&[file.as_raw_fd()])
            .context("register a file")?;
    }
    for turn in 0..40 {
        let offset = random.below(FILE_BYTES);
        let read = opcode::Read::new(fd, start, size as u32);
        let take = squeue::Flags::BUFFER_SELECT;
        let (entry, offset, length) = match form {
            "17 pieces" | "1024 pieces" => {
                let read = opcode::Readv::new(fd, pieces.as_ptr(), pieces.len() as u32);
                (read.offset(offset).build(), offset, in_pieces as u64)
            }
            "registered" => {
                let read = opcode::ReadFixed::new(types::Fixed(0), start, size as u32, 0);
                (read.offset(offset).build(), offset, size)
            }
            "position" => {
                let at = turn * size;
                (read.offset(u64::MAX).build(), at, size)
            }
            "silent" => {
                let flags = squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_LINK;
                (read.offset(offset).build().flags(flags), offset, size)
            }
            _ => {
                // A pool of one buffer: the request wants all of it, or more than it has.
                let pool = opcode::ProvideBuffers::new(start, 50_000, 1, 7, 0).build();
                // SAFETY: the buffer outlives the ring.
                bytes(unsafe { ring.run(vec![pool], 0)? }[0])?;
                let asked = if form == "pool" { 0 } else { size as u32 };
                let read = opcode::Read::new(fd, std::ptr::null_mut(), asked).buf_group(7);
                (read.offset(offset).build().flags(take), offset, 50_000)
            }
        };
        oracle.request(offset, length, || {
            if form == "silent" {
                let nop = opcode::Nop::new().build();
                // SAFETY: the nop completes after the read; buffer and file live longer.
                let results = unsafe { ring.run(vec![entry, nop], 1)? };
                // A read that ends at the end of the file breaks the chain, and reports it.
                return match results[0] {
                    Some(short) => bytes(Some(short)),
                    None => Ok(length),
                };
            }
            // SAFETY: `run` waits for the completion; pieces, buffer and file live longer.
            bytes(unsafe { ring.run(vec![entry], 0)? }[0])
        })?;
    }
    Ok(())
}

/// Requests that are linked: each begins when the one before has ended, in whatever the task is doing then. The chain
/// breaks at the end of the file, and what is behind never reaches it.
fn chains(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let size = 64 << 10;
    for reap in Reap::ALL {
        let Some(mut ring) = ring(room, reap)? else {
            continue;
        };
        for state in [State::Cold, State::Half, State::Warm] {
            for (order, at_position) in [("offsets", false), ("file position", true)] {
                let label = Label::new(
                    room.kind.name(),
                    format!("io_uring, chain, {}", reap.name()),
                );
                let label = label.size(size).order(order);
                let prepared = (state, Folios::Small);
                exactly(room, label, &subject, prepared, |oracle, tools, _| {
                    let file = open(&subject, Folios::Small)?;
                    let fd = types::Fd(file.as_raw_fd());
                    let buffer = tools.buffer.slice(size).as_mut_ptr();
                    let mut offset = 0;
                    while offset < subject.bytes() {
                        let mut entries = Vec::new();
                        let mut wanted = Vec::new();
                        for link in 0..5 {
                            let at = offset + link * size;
                            let position = if at_position { u64::MAX } else { at };
                            let read = opcode::Read::new(fd, buffer, size as u32).offset(position);
                            entries.push(read.build().flags(squeue::Flags::IO_LINK));
                            wanted.push(oracle.announce(at, size)?);
                        }
                        // SAFETY: `run` waits for all of them; buffer and file live longer.
                        let results = unsafe { ring.run(entries, 0)? };
                        for (result, wanted) in results.into_iter().zip(wanted) {
                            let got = match result {
                                Some(result) if result == -libc::ECANCELED => 0,
                                result => bytes(result)?,
                            };
                            assert_eq!(got, wanted, "a link reads all, or does not begin");
                        }
                        offset += 5 * size;
                    }
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

/// Splice from a file into a pipe, by a worker.
fn splice(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let (from, to) = rustix::pipe::pipe().context("pipe")?;
    rustix::pipe::fcntl_setpipe_size(&to, 1 << 20).context("F_SETPIPE_SZ")?;
    let null = File::options().write(true).open("/dev/null");
    let null = null.context("open /dev/null")?;
    for reap in [Reap::Wait, Reap::Poll, Reap::SqPoll] {
        let Some(mut ring) = ring(room, reap)? else {
            continue;
        };
        for prepared in [
            (State::Cold, Folios::Large),
            (State::Cold, Folios::Small),
            (State::Half, Folios::Small),
            (State::Warm, Folios::Large),
        ] {
            for (order, size) in [
                ("offsets", 16_384),
                ("offsets", 100_003),
                ("file position", 65_536),
            ] {
                let label = Label::new(
                    room.kind.name(),
                    format!("io_uring, splice, {}", reap.name()),
                );
                let label = label.size(size).order(order);
                exactly(room, label, &subject, prepared, |oracle, _, _| {
                    let file = open(&subject, prepared.1)?;
                    let fd = types::Fd(file.as_raw_fd());
                    let pipe = types::Fd(to.as_raw_fd());
                    for turn in 0..20 {
                        let offset = turn * size;
                        let at = if order == "offsets" {
                            offset as i64
                        } else {
                            -1
                        };
                        let splice = opcode::Splice::new(fd, at, pipe, -1, size as u32).build();
                        oracle.request(offset, size, || {
                            // SAFETY: descriptors only, which live longer.
                            let got = bytes(unsafe { ring.run(vec![splice], 0)? }[0])?;
                            let mut left = got as usize;
                            while left > 0 {
                                let none = rustix::pipe::SpliceFlags::empty();
                                left -= rustix::pipe::splice(&from, None, &null, None, left, none)
                                    .context("drain the pipe")?;
                            }
                            Ok(got)
                        })?;
                    }
                    Ok(())
                });
            }
        }
    }
    Ok(())
}
