//! io_uring: requests that fail, end short, or never reach their file.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;

use io_uring::{opcode, squeue, types};
use libtest_mimic::Trial;
use rustix::fs::IFlags;

use cachewise_model::{Counter, contradicts_itself};

use crate::image::FileSystem;
use crate::oracle::{Folios, State, Subject, page_size};
use crate::partial::{HALF_BYTES as REQUEST, HalfMemory, Limited};
use crate::problem::{Context, Problem, Result};
use crate::reader::{Buffer, open_direct};
use crate::stand::{Evictions, Room, device_trial, trial};
use crate::table::{Comparison, DIRECT, FAULTS, Label, READS, WRITES};
use crate::uring::{Reap, Uring, bytes};
use crate::uring_reads::{exactly, marks};

const FILE_BYTES: u64 = 8 << 20;
const REAPS: [Reap; 4] = [Reap::Wait, Reap::Epoll, Reap::Poll, Reap::SqPoll];
/// Not in libc.
const RWF_NOWAIT: i32 = 8;

/// Trials on the file systems with a cache, and one on a bare device.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "uring_reads_that_end_short", memory_ends));
        trials.push(trial(kind, "uring_reads_that_may_not_wait", may_not_wait));
        trials.push(trial(kind, "uring_requests_refused", refused));
        trials.push(trial(kind, "uring_writes", writes));
        trials.push(trial(kind, "uring_splice_into_files", splice_into));
    }
    trials.push(trial(
        FileSystem::Btrfs,
        "uring_direct_reads_fall_back",
        fall_back,
    ));
    trials.push(device_trial("uring_direct", device_direct));
    trials
}

fn new_ring(reap: Reap) -> Result<Uring> {
    Uring::new(reap)?.ok_or_else(|| Problem::new("there is no io_uring"))
}

/// The bytes that a request moved: that it failed by this error is 0.
fn moved(result: Option<i32>, allowed: i32) -> Result<u64> {
    if result == Some(-allowed) {
        return Ok(0);
    }
    bytes(result)
}

/// Reads into memory of which only a part is there, by the task and by a worker.
fn memory_ends(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    for reap in REAPS {
        let mut ring = new_ring(reap)?;
        for flags in [squeue::Flags::empty(), squeue::Flags::ASYNC] {
            for state in [State::Cold, State::Half, State::Warm] {
                for (order, served) in [
                    ("half way", REQUEST / 2),
                    ("at once", 0),
                    ("in a page", 5 * page_size() + 100),
                ] {
                    let by = if flags.is_empty() { "" } else { ", worker" };
                    let call = format!("io_uring, EFAULT, {}{by}", reap.name());
                    let label = Label::new(room.kind.name(), call)
                        .size(REQUEST)
                        .order(order);
                    let prepared = (state, Folios::Large);
                    exactly(room, label, &subject, prepared, |oracle, _, _| {
                        let file = File::open(subject.path()).context("open for reading")?;
                        let fd = types::Fd(file.as_raw_fd());
                        for offset in [0, 3 << 20, (4 << 20) - REQUEST / 4, 6 << 20] {
                            let to = memory.before_its_end(served).cast();
                            let read = opcode::Read::new(fd, to, REQUEST as u32).offset(offset);
                            let entry = read.build().flags(flags);
                            let got = oracle.short(offset, REQUEST, || {
                                // SAFETY: the kernel writes to the first half, which is this function's own.
                                moved(unsafe { ring.run(vec![entry], 0)? }[0], libc::EFAULT)
                            })?;
                            assert_eq!(got, served, "as far as there is memory");
                        }
                        Ok(())
                    });
                }
            }
        }
    }
    Ok(())
}

/// Reads with RWF_NOWAIT, across the end of what is in the cache, and where nothing is.
fn may_not_wait(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let mut buffer = vec![0_u8; REQUEST as usize];
    for reap in REAPS {
        let mut ring = new_ring(reap)?;
        for state in [State::Cold, State::Half, State::Warm] {
            let call = format!("io_uring, RWF_NOWAIT, {}", reap.name());
            let label = Label::new(room.kind.name(), call).size(REQUEST);
            let prepared = (state, Folios::Large);
            exactly(room, label, &subject, prepared, |oracle, _, _| {
                let file = File::open(subject.path()).context("open for reading")?;
                let fd = types::Fd(file.as_raw_fd());
                for offset in [6 << 20, 0, FILE_BYTES / 2 - REQUEST / 2] {
                    let read = opcode::Read::new(fd, buffer.as_mut_ptr(), REQUEST as u32);
                    let entry = read.offset(offset).rw_flags(RWF_NOWAIT).build();
                    oracle.short(offset, REQUEST, || {
                        // SAFETY: `run` waits for the completion; buffer and file live longer.
                        moved(unsafe { ring.run(vec![entry], 0)? }[0], libc::EAGAIN)
                    })?;
                }
                Ok(())
            });
        }
    }
    Ok(())
}

/// Requests that never reach their file: by a descriptor that may not, and behind a link that broke.
fn refused(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let mut buffer = vec![0_u8; 64 << 10];
    let length = buffer.len() as u32;
    for reap in Reap::ALL {
        let Some(mut ring) = Uring::new(reap)? else {
            continue;
        };
        let label = Label::new(
            room.kind.name(),
            format!("io_uring, refused, {}", reap.name()),
        );
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.evict(),
            |(), _| {
                let read_only = File::open(subject.path()).context("open for reading")?;
                let mut options = File::options();
                let write_only = options.write(true).open(subject.path());
                let write_only = write_only.context("open for writing")?;
                let (reads, writes) = (
                    types::Fd(read_only.as_raw_fd()),
                    types::Fd(write_only.as_raw_fd()),
                );
                let start = buffer.as_mut_ptr();
                let broken = squeue::Flags::IO_LINK;
                let entries = vec![
                    opcode::Write::new(reads, start, length).build(),
                    opcode::Read::new(writes, start, length)
                        .build()
                        .flags(broken),
                    opcode::Read::new(reads, start, length)
                        .build()
                        .flags(broken),
                    opcode::Write::new(writes, start, length).build(),
                    opcode::Read::new(types::Fd(-1), start, length).build(),
                ];
                // SAFETY: `run` waits for all; buffer and files live longer.
                let results = unsafe { ring.run(entries, 0)? };
                let [bad, canceled] = [libc::EBADF, libc::ECANCELED].map(|error| Some(-error));
                assert_eq!(
                    results,
                    [bad, bad, canceled, canceled, bad],
                    "none of them moves anything"
                );
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let comparison = Comparison::new()
                    .exact("inserted", 0, done.inserted)
                    .nothing_else(&done.ledger, &READS)
                    .nothing_else(&done.ledger, &WRITES)
                    .nothing_else(&done.ledger, &FAULTS)
                    .exact("marks", 0, marks(&done.ledger));
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Expected counts of writes.
#[derive(Debug, Default)]
struct Written {
    requests: u64,
    bytes: u64,
    pages: u64,
    unserved: u64,
    failed: u64,
}

impl Written {
    fn add(&mut self, offset: u64, asked: u64, moved: u64) {
        self.requests += 1;
        self.bytes += moved;
        self.unserved += asked - moved;
        self.failed += u64::from(moved == 0);
        if moved > 0 {
            self.pages += (offset + moved - 1) / page_size() - offset / page_size() + 1;
        }
    }
}

/// Writes that are served, appended, linked, cut by memory that ends and by the largest size of files, and refused there.
fn writes(room: &mut Room) -> Result<()> {
    let memory = HalfMemory::new()?;
    for reap in Reap::ALL {
        let Some(mut ring) = Uring::new(reap)? else {
            continue;
        };
        let subject = room.file("data", FILE_BYTES)?;
        let label = Label::new(
            room.kind.name(),
            format!("io_uring, writes, {}", reap.name()),
        );
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.evict(),
            |(), _| {
                let mut options = File::options();
                let file = options.write(true).open(subject.path());
                let file = file.context("open for writing")?;
                let append = File::options().append(true).open(subject.path());
                let append = append.context("open for appending")?;
                let fd = types::Fd(file.as_raw_fd());
                let mut written = Written::default();
                let from = |bytes: u64| memory.before_its_end(bytes).cast_const().cast::<u8>();
                // Two linked ones: the second is begun from whatever the task does then.
                for offset in [0, 100_000] {
                    let first = opcode::Write::new(fd, from(50_000), 50_000).offset(offset);
                    let second =
                        opcode::Write::new(fd, from(30_000), 30_000).offset(offset + 50_000);
                    let first = first.build().flags(squeue::Flags::IO_LINK);
                    // SAFETY: the kernel reads the first half, which outlives the ring.
                    let results = unsafe { ring.run(vec![first, second.build()], 0)? };
                    written.add(offset, 50_000, bytes(results[0])?);
                    written.add(offset + 50_000, 30_000, bytes(results[1])?);
                }
                for (offset, there) in [
                    (1 << 20, REQUEST / 2),
                    (3 << 20, 5 * page_size()),
                    (5 << 20, 0),
                ] {
                    let write = opcode::Write::new(fd, from(there), REQUEST as u32).offset(offset);
                    // SAFETY: as above.
                    let result = unsafe { ring.run(vec![write.build()], 0)? }[0];
                    written.add(offset, REQUEST, moved(result, libc::EFAULT)?);
                }
                let mut end = FILE_BYTES;
                for _ in 0..3 {
                    let fd = types::Fd(append.as_raw_fd());
                    let write = opcode::Write::new(fd, from(5000), 5000).build();
                    // SAFETY: as above.
                    let got = bytes(unsafe { ring.run(vec![write], 0)? }[0])?;
                    written.add(end, 5000, got);
                    end += got;
                }
                let _limited = Limited::to(end + 10_000)?;
                let write = |offset| {
                    let write = opcode::Write::new(fd, from(20_000), 20_000);
                    vec![write.offset(offset).build()]
                };
                // SAFETY: as above.
                let result = unsafe { ring.run(write(end), 0)? }[0];
                written.add(end, 20_000, bytes(result)?);
                // At the limit a write is refused, and is none.
                // SAFETY: as above.
                let result = unsafe { ring.run(write(end + 10_000), 0)? }[0];
                assert_eq!(result, Some(-libc::EFBIG), "there is nothing left");
                Ok(written)
            },
        );
        match measured {
            Ok(done) => {
                let (written, ledger) = (done.expected, &done.ledger);
                let comparison = Comparison::new()
                    .exact("requests", written.requests, ledger[Counter::WriteRequests])
                    .exact("bytes", written.bytes, ledger[Counter::WriteBytes])
                    .exact("pages", written.pages, ledger[Counter::WritePages])
                    .exact(
                        "unserved",
                        written.unserved,
                        ledger[Counter::WriteUnservedBytes],
                    )
                    .exact(
                        "failed",
                        written.failed,
                        ledger[Counter::WriteFailedRequests],
                    )
                    .exact("new pages", done.inserted, ledger[Counter::WriteNewPages])
                    .silently("marks", 0, marks(ledger))
                    .silently("contradicts itself", 0, contradicts_itself(ledger).into())
                    .nothing_else(ledger, &READS);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Reads of a device around the cache: served, into memory that may not be touched, and from where no block begins.
fn device_direct(room: &mut Room) -> Result<()> {
    let subject = Subject::open(room.stand.device()?.to_owned())?;
    let memory = HalfMemory::new()?;
    for reap in REAPS {
        let mut ring = new_ring(reap)?;
        let label = Label::new("device", format!("io_uring, O_DIRECT, {}", reap.name()));
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.evict(),
            |(), _| {
                let file = open_direct(subject.path(), false)?;
                let fd = types::Fd(file.as_raw_fd());
                let mut run = |served: u64, offset: u64| {
                    let to = memory.before_its_end(served).cast();
                    let read = opcode::Read::new(fd, to, 65_536).offset(offset);
                    // SAFETY: the kernel writes to the first half, which outlives the ring.
                    Ok::<_, Problem>(unsafe { ring.run(vec![read.build()], 0)? }[0])
                };
                for turn in 0..20 {
                    assert_eq!(bytes(run(REQUEST, turn << 16)?)?, 65_536, "all is there");
                }
                assert_eq!(run(0, 0)?, Some(-libc::EFAULT), "it moves nothing");
                assert_eq!(run(REQUEST, 100)?, Some(-libc::EINVAL), "it is refused");
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let comparison = Comparison::new()
                    .exact("requests", 21, ledger[Counter::DirectReadRequests])
                    .exact("failed", 1, ledger[Counter::DirectReadFailedRequests])
                    .exact("bytes", 20 << 16, ledger[Counter::DirectReadBytes])
                    .nothing_else(ledger, &READS)
                    .nothing_else(ledger, &WRITES)
                    .nothing_else(ledger, &DIRECT[2..]);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Splices from a pipe into a file.
fn splice_into(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let (from, to) = rustix::pipe::pipe().context("pipe")?;
    let length = 16_384_u64;
    let data = vec![7; length as usize];
    for reap in REAPS {
        let mut ring = new_ring(reap)?;
        let label = Label::new(
            room.kind.name(),
            format!("io_uring, splice into a file, {}", reap.name()),
        );
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.evict(),
            |(), _| {
                let file = File::options().write(true).open(subject.path());
                let file = file.context("open for writing")?;
                for turn in 0..10 {
                    rustix::io::write(&to, &data).context("fill the pipe")?;
                    let (pipe, file) = (types::Fd(from.as_raw_fd()), types::Fd(file.as_raw_fd()));
                    let at = (turn * length).cast_signed();
                    let splice = opcode::Splice::new(pipe, -1, file, at, length as u32);
                    // SAFETY: descriptors only, which live longer.
                    let got = bytes(unsafe { ring.run(vec![splice.build()], 0)? }[0])?;
                    assert_eq!(got, length, "the file takes all");
                }
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let comparison = Comparison::new()
                    .exact("requests", 10, ledger[Counter::WriteRequests])
                    .exact("bytes", 10 * length, ledger[Counter::WriteBytes])
                    .exact("new pages", done.inserted, ledger[Counter::WriteNewPages])
                    .nothing_else(ledger, &READS);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Direct reads of a compressed file, which btrfs serves through the cache, by a worker.
fn fall_back(room: &mut Room) -> Result<()> {
    let path = room.path("compressed");
    let file = File::create(&path).context("create a file")?;
    rustix::fs::ioctl_setflags(&file, IFlags::COMPRESSED).context("chattr +c")?;
    (&file)
        .write_all(&vec![7; 1 << 20])
        .and_then(|()| file.sync_all())
        .context("fill the file")?;
    let subject = Subject::open(path)?;
    let mut buffer = Buffer::new();
    let length = 64 << 10;
    for reap in REAPS {
        let mut ring = new_ring(reap)?;
        for state in [State::Cold, State::Warm] {
            let call = format!("io_uring, O_DIRECT, buffered, {}", reap.name());
            let label = Label::new(room.kind.name(), call).size(length);
            let prepared = (state, Folios::Large);
            exactly(room, label, &subject, prepared, |oracle, _, _| {
                let file = open_direct(subject.path(), false)?;
                let fd = types::Fd(file.as_raw_fd());
                for offset in (0..subject.bytes()).step_by(length as usize) {
                    let to = buffer.slice(length).as_mut_ptr();
                    let read = opcode::Read::new(fd, to, length as u32).offset(offset);
                    oracle.request(offset, length, || {
                        // SAFETY: `run` waits for the completion; buffer and file live longer.
                        bytes(unsafe { ring.run(vec![read.build()], 0)? }[0])
                    })?;
                }
                Ok(())
            });
        }
    }
    Ok(())
}
