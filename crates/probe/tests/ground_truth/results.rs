//! Requests that fail or end short: what they moved, and what they did not.
//!
//! How far each gets is known beforehand: memory that ends, a limit on the size of files, a file system that
//! is full, pages that are not in the cache where the call may not wait.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use libtest_mimic::Trial;
use rustix::io::{Errno, ReadWriteFlags};

use cachewise_model::{Counter, contradicts_itself};

use crate::image::{FileSystem, is_linux};
use crate::oracle::{Folios, Oracle, State, Subject, page_size};
use crate::partial::{HALF_BYTES as REQUEST, HalfMemory, Limited};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::reader::open_direct;
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label, READS, known};

/// Size of the file that a case reads.
pub const FILE_BYTES: u64 = 8 << 20;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "reads_into_memory_that_ends", memory_ends));
        trials.push(trial(kind, "reads_that_may_not_wait", may_not_wait));
        trials.push(trial(kind, "sendfile_to_a_full_socket", full_socket));
        trials.push(trial(
            kind,
            "writes_from_memory_that_ends",
            written_memory_ends,
        ));
        trials.push(trial(kind, "writes_beyond_the_limit", beyond_the_limit));
        trials.push(trial(kind, "writes_to_a_full_file_system", no_space));
        if kind != FileSystem::Btrfs {
            trials.push(trial(kind, "direct_reads_that_fail", direct));
        }
    }
    trials
}

/// The result of a call: that it failed by this error is 0 bytes.
pub fn moved(result: libc::ssize_t, allowed: Errno) -> Result<u64> {
    if let Ok(bytes) = u64::try_from(result) {
        return Ok(bytes);
    }
    let error = std::io::Error::last_os_error();
    if error.raw_os_error() == Some(allowed.raw_os_error()) {
        Ok(0)
    } else {
        Err(error).context("the call")
    }
}

/// A reader's case, compared exactly.
fn exactly(
    room: &mut Room,
    label: Label,
    subject: &Subject,
    state: State,
    mut work: impl FnMut(&mut Oracle) -> Result<()>,
) {
    let label = label.prepared(state, Folios::Large);
    let measured = room.stand.measure(
        &label,
        subject,
        Evictions::Spoil,
        || subject.prepare(state, Folios::Large, &mut Random::named(&label.line())),
        |touched, _| {
            let mut oracle = Oracle::new(subject, touched);
            work(&mut oracle)?;
            Ok(oracle.expected())
        },
    );
    match measured {
        Ok(done) => {
            let comparison = Comparison::of_reads(&done.expected, done.inserted, &done.ledger);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// pread(2) into memory of which only a part is there.
fn memory_ends(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    for state in [State::Cold, State::Half, State::Warm] {
        for (order, served) in [
            ("half way", REQUEST / 2),
            ("at once", 0),
            ("in a page", 5 * page_size() + 100),
        ] {
            let label = Label::new(room.kind.name(), "pread, EFAULT")
                .size(REQUEST)
                .order(order);
            exactly(room, label, &subject, state, |oracle| {
                let file = File::open(subject.path()).context("open for reading")?;
                for offset in [0, 3 << 20, (4 << 20) - REQUEST / 4, 6 << 20] {
                    let got = oracle.short(offset, REQUEST, || {
                        // SAFETY: the kernel writes to the first half, which is this function's own.
                        let result = unsafe {
                            libc::pread(
                                file.as_raw_fd(),
                                memory.before_its_end(served),
                                REQUEST as usize,
                                offset as libc::off_t,
                            )
                        };
                        moved(result, Errno::FAULT)
                    })?;
                    assert_eq!(got, served, "as far as there is memory");
                }
                Ok(())
            });
        }
    }
    Ok(())
}

/// preadv2(2) with RWF_NOWAIT, across the end of what is in the cache, and where nothing is.
fn may_not_wait(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let label = Label::new(room.kind.name(), "preadv2, RWF_NOWAIT").size(REQUEST);
    let mut buffer = vec![0; REQUEST as usize];
    exactly(room, label, &subject, State::Half, |oracle| {
        let file = File::open(subject.path()).context("open for reading")?;
        let half = FILE_BYTES / 2;
        for offset in [6 << 20, 0, half - REQUEST / 2] {
            oracle.short_or_none(offset, REQUEST, || {
                let mut pieces = [std::io::IoSliceMut::new(&mut buffer)];
                let got = rustix::io::preadv2(&file, &mut pieces, offset, ReadWriteFlags::NOWAIT);
                match got {
                    Ok(got) => Ok(got as u64),
                    Err(Errno::AGAIN) => Ok(0),
                    Err(error) => Err(error).context("preadv2"),
                }
            })?;
        }
        Ok(())
    });
    Ok(())
}

/// sendfile(2) to a socket whose other end takes nothing. How many pages each call asks for is a matter of its
/// chunks; it moved what it returned.
fn full_socket(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for state in [State::Cold, State::Warm] {
        let label = Label::new(room.kind.name(), "sendfile, full socket")
            .size(FILE_BYTES)
            .prepared(state, Folios::Large);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.prepare(state, Folios::Large, &mut Random::named(&label.line())),
            |_, _| {
                let file = File::open(subject.path()).context("open for reading")?;
                let (to, _from) = UnixStream::pair().context("socketpair")?;
                to.set_nonblocking(true).context("set it non-blocking")?;
                let mut position = 0;
                let got =
                    rustix::fs::sendfile(&to, &file, Some(&mut position), FILE_BYTES as usize)
                        .context("sendfile")?;
                if got as u64 >= FILE_BYTES {
                    return Err(Problem::new("the socket took all"));
                }
                Ok(got as u64)
            },
        );
        match measured {
            Ok(done) => {
                let (sent, ledger) = (done.expected, &done.ledger);
                let pages = sent.div_ceil(page_size());
                let (hits, misses) = match state {
                    State::Warm => (pages, 0),
                    _ => (0, pages),
                };
                let comparison = Comparison::new()
                    .exact("requests", 1, ledger[Counter::ReadRequests])
                    .exact("bytes read", sent, known(ledger.read_bytes()))
                    .exact("hits", hits, known(ledger.hits()))
                    .exact("misses", misses, ledger[Counter::ReadMissedPages])
                    .exact(
                        "inserted",
                        done.inserted,
                        ledger[Counter::ReadMissedPages] + ledger[Counter::ReadaheadPages],
                    )
                    .silently("failed", 0, ledger[Counter::ReadFailedRequests])
                    .silently("contradicts itself", 0, contradicts_itself(ledger).into());
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Expected counts of writes.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    requests: u64,
    bytes: u64,
    unserved: u64,
    failed: u64,
}

impl Written {
    fn add(&mut self, asked: u64, moved: u64) {
        self.requests += 1;
        self.bytes += moved;
        self.unserved += asked - moved;
        self.failed += u64::from(moved == 0);
    }
}

fn written(
    room: &mut Room,
    label: Label,
    subject: &Subject,
    mut work: impl FnMut(&File) -> Result<Written>,
) {
    let measured = room.stand.measure(
        &label,
        subject,
        Evictions::Belong,
        || subject.evict(),
        |(), _| {
            let file = File::options()
                .write(true)
                .open(subject.path())
                .context("open for writing")?;
            work(&file)
        },
    );
    match measured {
        Ok(done) => {
            let (written, ledger) = (done.expected, &done.ledger);
            // Whether btrfs's event comes when nothing can be copied is a matter of the kernel: without it, it is none.
            let left_out = if room.kind == FileSystem::Btrfs && !is_linux(6, 18) {
                written.failed
            } else {
                0
            };
            let of_btrfs =
                "on btrfs a write of which nothing can be copied leaves no event before Linux 6.18";
            let comparison = Comparison::new()
                .within(
                    "requests",
                    (written.requests - left_out, written.requests),
                    ledger[Counter::WriteRequests],
                    of_btrfs,
                )
                .exact("bytes", written.bytes, ledger[Counter::WriteBytes])
                .within(
                    "unserved",
                    (written.unserved - left_out * REQUEST, written.unserved),
                    ledger[Counter::WriteUnservedBytes],
                    of_btrfs,
                )
                .within(
                    "failed",
                    (written.failed - left_out, written.failed),
                    ledger[Counter::WriteFailedRequests],
                    of_btrfs,
                )
                .within(
                    "marks",
                    (0, left_out.min(1)),
                    u64::from(ledger.get(Counter::WriteBytes).exact().is_none()),
                    "calls without an event hide the result of the one before them",
                );
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// pwrite(2) from memory of which only a part is there.
fn written_memory_ends(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    let label = Label::new(room.kind.name(), "pwrite, EFAULT").size(REQUEST);
    written(room, label, &subject, |file| {
        let mut written = Written::default();
        for (offset, there) in [
            (0, REQUEST / 2),
            (2 << 20, 5 * page_size()),
            (3 << 20, REQUEST / 4),
        ] {
            // SAFETY: the kernel reads the first half, which is this function's own.
            let result = unsafe {
                libc::pwrite(
                    file.as_raw_fd(),
                    memory.before_its_end(there),
                    REQUEST as usize,
                    offset,
                )
            };
            written.add(REQUEST, moved(result, Errno::FAULT)?);
        }
        Ok(written)
    });
    Ok(())
}

/// write(2) across the largest size that a file may have (RLIMIT_FSIZE).
fn beyond_the_limit(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let label = Label::new(room.kind.name(), "pwrite, RLIMIT_FSIZE").size(20_000);
    let data = vec![7; 20_000];
    written(room, label, &subject, |file| {
        let mut written = Written::default();
        let _limited = Limited::to(FILE_BYTES + 10_000)?;
        let got = rustix::io::pwrite(file, &data, FILE_BYTES).context("pwrite")?;
        written.add(20_000, got as u64);
        Ok(written)
    });
    Ok(())
}

/// Writes until nothing more fits.
fn no_space(room: &mut Room) -> Result<()> {
    let subject = room.file("data", page_size())?;
    let label = Label::new(room.kind.name(), "pwrite, ENOSPC").size(REQUEST);
    let filler = room.path("filler");
    let data = vec![7; REQUEST as usize];
    written(room, label, &subject, |file| {
        let filling = File::create(&filler).context("create a file that fills the rest")?;
        let mut room_left = rustix::fs::fstatvfs(&filling).context("statvfs")?;
        // The space that metadata takes is unknown: fill a piece at a time, until little is left.
        let mut filled = 0;
        let mut piece = 1_u64 << 30;
        while piece >= 4 << 20 {
            let most = (room_left.f_bfree * room_left.f_frsize).saturating_sub(6 << 20);
            piece = piece.min(most);
            if piece == 0
                || rustix::fs::fallocate(
                    &filling,
                    rustix::fs::FallocateFlags::empty(),
                    filled,
                    piece,
                )
                .is_err()
            {
                piece /= 2;
            } else {
                filled += piece;
            }
            room_left = rustix::fs::fstatvfs(&filling).context("statvfs")?;
        }
        let mut written = Written::default();
        let mut offset = page_size();
        for _ in 0..256 {
            let result = rustix::io::pwrite(file, &data, offset);
            let got = match result {
                Ok(got) => got as u64,
                Err(Errno::NOSPC) => 0,
                Err(error) => return Err(error).context("pwrite"),
            };
            written.add(REQUEST, got);
            offset += got;
            if got < REQUEST {
                break;
            }
        }
        drop(filling);
        std::fs::remove_file(&filler).context("remove the filler")?;
        if written.unserved == 0 {
            return Err(Problem::new("all fits"));
        }
        Ok(written)
    });
    let _ = std::fs::remove_file(&filler);
    Ok(())
}

/// pread(2) with O_DIRECT into memory that may not be touched.
fn direct(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    let label = Label::new(room.kind.name(), "direct pread, EFAULT").size(REQUEST);
    let measured = room.stand.measure(
        &label,
        &subject,
        Evictions::Spoil,
        || subject.evict(),
        |(), tools| {
            let file = open_direct(subject.path(), false)?;
            let nothing = memory.before_its_end(0);
            // SAFETY: the kernel finds that it may not touch the memory.
            let got = unsafe { libc::pread(file.as_raw_fd(), nothing, REQUEST as usize, 0) };
            assert_eq!(moved(got, Errno::FAULT)?, 0, "it moves nothing");
            let buffer = tools.buffer.slice(64 << 10);
            rustix::io::pread(&file, buffer, 0).context("pread")?;
            Ok(())
        },
    );
    match measured {
        Ok(done) => {
            let comparison = Comparison::new()
                .exact("requests", 2, done.ledger[Counter::DirectReadRequests])
                .exact("failed", 1, done.ledger[Counter::DirectReadFailedRequests])
                .exact("bytes", 64 << 10, done.ledger[Counter::DirectReadBytes])
                .nothing_else(&done.ledger, &READS);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
    Ok(())
}
