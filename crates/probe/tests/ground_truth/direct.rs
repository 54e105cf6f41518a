//! Direct reads and writes, alone and between buffered ones, and a bare block device.
//!
//! Margins, each with its reason:
//!
//! - *btrfs, direct writes*: btrfs falls back to the cache for files with checksums. The count of bytes is
//!   exact: each is counted once, as direct or as buffered. For a file without checksums (`chattr +C`),
//!   exactly all bytes are direct.
//! - *btrfs, io_uring*: the first request may fall back to a buffered read inside a worker of the
//!   kernel (`uring_results.rs` has reads that always do).
//! - *io_uring*: the completion may come in an interrupt. Where the host keeps BPF programs from
//!   running in some (bpf.md 3.2), a request goes missing; it is never counted twice.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use io_uring::{IoUring, opcode, squeue, types};
use libtest_mimic::Trial;
use rustix::fs::IFlags;
use rustix::pipe::{SpliceFlags, splice};

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::matrix::Order;
use crate::oracle::{Folios, Oracle, State, Subject, Touched, page_size};
use crate::problem::{Context, Result};
use crate::random::Random;
use crate::reader::{At, Buffer, Call, open_direct, submit};
use crate::stand::{Evictions, Room, device_trial, trial};
use crate::table::{Comparison, DIRECT, FAULTS, Label, READS, WRITES, known};

const FILE_BYTES: u64 = 8 << 20;

/// The capacity of a pipe.
const PIPE_BYTES: u64 = 64 << 10;

const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// Trials on the file systems with a cache, and on a bare device.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "direct_reads", direct_reads));
        trials.push(trial(kind, "direct_io_uring", direct_io_uring));
        trials.push(trial(kind, "direct_between", direct_between));
        trials.push(trial(kind, "direct_writes", direct_writes));
    }
    // A loop device answers when it is done: without cachestat(2) pages on their way cannot be seen.
    if crate::image::has_cachestat() {
        trials.push(device_trial("buffered", device_buffered));
    }
    trials.push(device_trial("direct", device_direct));
    trials.push(device_trial(
        "spliced_direct_reads_are_direct",
        device_spliced,
    ));
    trials
}

/// Reads a whole file around the cache; gives requests and bytes.
fn read_directly(file: &File, bytes: u64, size: u64, buffer: &mut [u8]) -> Result<(u64, u64)> {
    let mut offset = 0;
    while offset < bytes {
        file.read_exact_at(buffer, offset).context("direct pread")?;
        offset += size;
    }
    Ok((bytes / size, bytes))
}

fn direct_reads(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for state in [State::Cold, State::Half, State::Warm] {
        for size in SIZES {
            let label = Label::new(room.kind.name(), "pread, O_DIRECT")
                .size(size)
                .order("sequential")
                .prepared(state, Folios::Small);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |_, tools| {
                    let file = open_direct(subject.path(), false)?;
                    read_directly(&file, subject.bytes(), size, tools.buffer.slice(size))
                },
            );
            match measured {
                Ok(done) => {
                    let ledger = &done.ledger;
                    let (requests, bytes) = done.expected;
                    let comparison = Comparison::new()
                        .exact(
                            "direct requests",
                            requests,
                            ledger[Counter::DirectReadRequests],
                        )
                        .exact("direct bytes", bytes, ledger[Counter::DirectReadBytes])
                        .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                        .silently("direct bytes written", 0, ledger[Counter::DirectWriteBytes])
                        .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                        .nothing_else(ledger, &READS)
                        .nothing_else(ledger, &FAULTS)
                        .nothing_else(ledger, &WRITES);
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

fn direct_io_uring(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for (flags, call) in [
        (squeue::Flags::empty(), "io_uring, O_DIRECT"),
        (squeue::Flags::ASYNC, "io_uring_async, O_DIRECT"),
    ] {
        for size in SIZES {
            let label = Label::new(room.kind.name(), call)
                .size(size)
                .order("sequential")
                .prepared(State::Cold, Folios::Small);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.evict(),
                |(), tools| {
                    let file = open_direct(subject.path(), false)?;
                    let mut ring = IoUring::new(8).context("io_uring_setup")?;
                    let buffer = tools.buffer.slice(size).as_mut_ptr();
                    for offset in (0..subject.bytes()).step_by(size as usize) {
                        let fd = types::Fd(file.as_raw_fd());
                        let read = opcode::Read::new(fd, buffer, size as u32).offset(offset);
                        // SAFETY: `submit` waits for the completion; buffer and file live longer.
                        unsafe { submit(&mut ring, &[read.build().flags(flags)])? };
                    }
                    Ok((subject.bytes() / size, subject.bytes()))
                },
            );
            match measured {
                Ok(done) => {
                    let ledger = &done.ledger;
                    let (requests, bytes) = done.expected;
                    // One request in twenty, and at least one.
                    let gone = requests / 20 + 1;
                    let buffered = ledger[Counter::ReadRequestedBytes];
                    let why = "the completion runs in an interrupt, where the host may keep BPF \
                               programs out; on btrfs the first request may be buffered";
                    let comparison = Comparison::new()
                        .within(
                            "direct requests",
                            (requests - gone, requests),
                            ledger[Counter::DirectReadRequests],
                            why,
                        )
                        .within(
                            "direct bytes",
                            (bytes - gone * size, bytes),
                            ledger[Counter::DirectReadBytes],
                            why,
                        )
                        .within(
                            "buffered bytes",
                            (
                                0,
                                if room.kind == FileSystem::Btrfs {
                                    size
                                } else {
                                    0
                                },
                            ),
                            buffered,
                            why,
                        )
                        .nothing_else(ledger, &FAULTS)
                        .nothing_else(ledger, &WRITES);
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

/// Buffered reads with direct ones in between: neither changes what the other is counted as.
fn direct_between(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for call in [Call::Pread, Call::Read, Call::IoUring] {
        for state in [State::Cold, State::Half, State::Warm] {
            for folios in [Folios::Large, Folios::Small] {
                let size = 64 << 10;
                let way = room.way(call, folios);
                let label =
                    Label::new(room.kind.name(), format!("{}, direct between", call.name()))
                        .size(size)
                        .order(Order::Random.name())
                        .prepared(state, folios);
                let measured = room.stand.measure(
                    &label,
                    &subject,
                    Evictions::Spoil,
                    || subject.prepare(state, folios, &mut Random::named(&label.line())),
                    |touched, tools| {
                        let mut oracle = Oracle::new(&subject, touched);
                        let mut random = Random::named(&label.line());
                        let direct = open_direct(subject.path(), false)?;
                        let mut around = Buffer::new();
                        let mut reader = way.open(subject.path(), tools)?;
                        for _ in 0..100 {
                            let offset = random.below(subject.pages()) * page_size();
                            let at = At::Offset(offset);
                            oracle.request(offset, size, || reader.request(at, size))?;
                            let offset = random.below(subject.bytes() / size) * size;
                            direct
                                .read_exact_at(around.slice(size), offset)
                                .context("direct pread")?;
                        }
                        Ok(oracle.expected())
                    },
                );
                match measured {
                    Ok(done) => {
                        let ledger = &done.ledger;
                        let (expected, inserted) = (done.expected, done.inserted);
                        let comparison = Comparison::new()
                            .exact("direct requests", 100, ledger[Counter::DirectReadRequests])
                            .exact("direct bytes", 100 * size, ledger[Counter::DirectReadBytes])
                            .exact("requests", expected.requests, ledger[Counter::ReadRequests])
                            .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
                            .exact("hits", expected.hits, known(ledger.hits()))
                            .exact("misses", expected.misses, ledger[Counter::ReadMissedPages])
                            .silently("bytes", expected.bytes, ledger[Counter::ReadRequestedBytes])
                            .silently("used", expected.used, ledger[Counter::ReadaheadHitPages])
                            .silently("inserted", inserted, known(ledger.inserted_pages()));
                        room.judge(label, comparison);
                    }
                    Err(problem) => room.failed(&label, &problem),
                }
            }
        }
    }
    Ok(())
}

/// Overwrites a file around the cache, cold and half cached: what is cached of it goes.
fn direct_writes(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    direct_writes_to(
        room,
        &subject,
        "pwrite, O_DIRECT",
        room.kind == FileSystem::Btrfs,
    );
    if room.kind == FileSystem::Btrfs {
        let path = room.path("without-checksums");
        let file = File::create(&path).context("create a file without checksums")?;
        rustix::fs::ioctl_setflags(&file, IFlags::NOCOW).context("chattr +C")?;
        drop(file);
        let subject = Subject::create(path, FILE_BYTES)?;
        direct_writes_to(room, &subject, "pwrite, O_DIRECT, +C", false);
    }
    Ok(())
}

fn direct_writes_to(room: &mut Room, subject: &Subject, call: &str, may_be_buffered: bool) {
    for state in [State::Cold, State::Half] {
        for size in SIZES {
            let label = Label::new(room.kind.name(), call)
                .size(size)
                .order("sequential")
                .prepared(state, Folios::Small);
            let measured = room.stand.measure(
                &label,
                subject,
                Evictions::Belong,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |_, tools| {
                    let file = open_direct(subject.path(), true)?;
                    for offset in (0..subject.bytes()).step_by(size as usize) {
                        file.write_all_at(tools.buffer.slice(size), offset)
                            .context("direct pwrite")?;
                    }
                    Ok((subject.bytes() / size, subject.bytes()))
                },
            );
            match measured {
                Ok(done) => {
                    let ledger = &done.ledger;
                    let (requests, bytes) = done.expected;
                    let direct = ledger[Counter::DirectWriteBytes];
                    let comparison = if may_be_buffered {
                        let sum = direct + ledger[Counter::WriteBytes];
                        let why = "btrfs writes through the cache where it keeps checksums";
                        Comparison::new()
                            .exact("direct + buffered bytes", bytes, sum)
                            .within("direct bytes", (0, bytes), direct, why)
                    } else {
                        Comparison::new()
                            .exact(
                                "direct requests",
                                requests,
                                ledger[Counter::DirectWriteRequests],
                            )
                            .exact("direct bytes", bytes, direct)
                            .nothing_else(ledger, &WRITES)
                    };
                    let comparison = comparison
                        .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                        .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                        .silently("direct bytes read", 0, ledger[Counter::DirectReadBytes])
                        .nothing_else(ledger, &READS)
                        .nothing_else(ledger, &FAULTS);
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
}

/// By pages of the kernel's: sendfile is one request, and so is each splice, however many chunks it has.
fn device_spliced(room: &mut Room) -> Result<()> {
    const BYTES: u64 = 128 << 10;
    let subject = Subject::open(room.stand.device()?.to_owned())?;
    // Before 6.5 the kernel reads each pipe of a sendfile by itself (docs/counting.md).
    let of_sendfile = match crate::image::has_cachestat() {
        true => 1,
        false => BYTES / PIPE_BYTES,
    };
    for (name, requests) in [("sendfile", of_sendfile), ("splice", BYTES / PIPE_BYTES)] {
        let label = Label::new("device", format!("{name}, O_DIRECT")).size(BYTES);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.evict(),
            |(), _| {
                let file = open_direct(subject.path(), false)?;
                let null = File::options()
                    .write(true)
                    .open("/dev/null")
                    .context("open")?;
                let (out, into) = rustix::pipe::pipe().context("pipe")?;
                let mut moved = 0;
                while moved < BYTES {
                    moved += match name {
                        "sendfile" => rustix::fs::sendfile(&null, &file, None, BYTES as usize),
                        _ => {
                            let flags = SpliceFlags::empty();
                            let got = splice(&file, None, &into, None, PIPE_BYTES as usize, flags)
                                .context("splice from the device")?;
                            splice(&out, None, &null, None, got, flags)
                        }
                    }
                    .context(name)? as u64;
                }
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let comparison = Comparison::new()
                    .exact(
                        "direct requests",
                        requests,
                        ledger[Counter::DirectReadRequests],
                    )
                    .exact("direct bytes", BYTES, ledger[Counter::DirectReadBytes])
                    .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                    .silently("written", 0, ledger[Counter::DirectWriteBytes]);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// A device read as a file: its pages are its own, not a file's.
fn device_buffered(room: &mut Room) -> Result<()> {
    let subject = Subject::open(room.stand.device()?.to_owned())?;
    for (state, order) in [
        (State::Cold, Order::Sequential),
        (State::Half, Order::Random),
        (State::Warm, Order::Sequential),
    ] {
        for size in SIZES {
            let label = Label::new("device", "pread")
                .size(size)
                .order(order.name())
                .prepared(state, Folios::Small);
            let way = room.way(Call::Pread, Folios::Large);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |touched: Touched, tools| {
                    let mut oracle = Oracle::new(&subject, touched);
                    let mut random = Random::named(&label.line());
                    let mut reader = way.open(subject.path(), tools)?;
                    for request in 0..(subject.bytes() / size).min(500) {
                        let offset = match order {
                            Order::Sequential => request * size,
                            Order::Random => random.below(subject.pages()) * page_size(),
                        };
                        let at = At::Offset(offset);
                        oracle.request(offset, size, || reader.request(at, size))?;
                    }
                    Ok(oracle.expected())
                },
            );
            match measured {
                Ok(done) => {
                    let comparison =
                        Comparison::of_reads(&done.expected, done.inserted, &done.ledger);
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

fn device_direct(room: &mut Room) -> Result<()> {
    let subject = Subject::open(room.stand.device()?.to_owned())?;
    for size in SIZES {
        let label = Label::new("device", "pread, O_DIRECT")
            .size(size)
            .order("sequential")
            .prepared(State::Cold, Folios::Small);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.evict(),
            |(), tools| {
                let file = open_direct(subject.path(), false)?;
                read_directly(&file, subject.bytes(), size, tools.buffer.slice(size))
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let (requests, bytes) = done.expected;
                let comparison = Comparison::new()
                    .exact(
                        "direct requests",
                        requests,
                        ledger[Counter::DirectReadRequests],
                    )
                    .exact("direct bytes", bytes, ledger[Counter::DirectReadBytes])
                    .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                    .nothing_else(ledger, &READS)
                    .nothing_else(ledger, &FAULTS)
                    .nothing_else(ledger, &WRITES)
                    .nothing_else(ledger, &DIRECT[2..]);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}
