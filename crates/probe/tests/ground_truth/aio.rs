//! libaio: reads through the cache by io_submit(2), one and several a call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use libtest_mimic::Trial;

use cachewise_model::{Counter, contradicts_itself};

use crate::image::FileSystem;
use crate::oracle::{Folios, Oracle, State, page_size, pages_of};
use crate::problem::{Context, Problem, Result};
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

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const PREADV: u16 = 7;
const IN_FLIGHT: usize = 8;

/// As in linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: [u64; 2],
}

/// As in linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

struct Ring(u64);

impl Ring {
    fn new() -> Result<Self> {
        let mut context = 0_u64;
        // SAFETY: the kernel writes the context's number to `context`.
        let made = unsafe {
            libc::syscall(
                libc::SYS_io_setup,
                IN_FLIGHT as libc::c_long,
                &raw mut context,
            )
        };
        if made == 0 {
            Ok(Ring(context))
        } else {
            Err(io::Error::last_os_error()).context("io_setup")
        }
    }

    /// Submits all in one call and waits for them; gives the bytes that they moved.
    fn run(
        &self,
        opcode: u16,
        file: &File,
        ranges: &[(u64, u64)],
        buffer: &mut [u8],
    ) -> Result<u64> {
        let mut rest = buffer;
        let mut requests = Vec::new();
        // One piece each, where it reads into pieces.
        let mut pieces = Vec::new();
        for (offset, length) in ranges {
            let (piece, after) = rest.split_at_mut(*length as usize);
            rest = after;
            requests.push(Iocb {
                opcode,
                fd: file.as_raw_fd() as u32,
                buffer: piece.as_mut_ptr() as u64,
                bytes: *length,
                offset: *offset as i64,
                ..Iocb::default()
            });
        }
        for request in requests.iter_mut().filter(|_| opcode == PREADV) {
            pieces.push(Box::new([request.buffer, request.bytes]));
            let piece = pieces
                .last()
                .map_or(std::ptr::null(), |piece| piece.as_ptr());
            (request.buffer, request.bytes) = (piece as u64, 1);
        }
        let mut pointers: Vec<*mut Iocb> = requests
            .iter_mut()
            .map(|request| &raw mut *request)
            .collect();
        let mut events = [Event::default(); IN_FLIGHT];
        let count = pointers.len() as libc::c_long;
        // SAFETY: requests, pieces, buffers and events live until all requests have ended, for which the second call
        // waits.
        let (submitted, ended) = unsafe {
            let submitted =
                libc::syscall(libc::SYS_io_submit, self.0, count, pointers.as_mut_ptr());
            let ended = libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                submitted,
                submitted,
                events.as_mut_ptr(),
                0,
            );
            (submitted, ended)
        };
        if (submitted, ended) != (count, count) {
            return Err(Problem::new(format!(
                "of {count} requests {submitted} were submitted and {ended} ended"
            )));
        }
        let mut moved = 0;
        for event in &events[..pointers.len()] {
            moved += u64::try_from(event.result)
                .map_err(|_| Problem::new(format!("a request gave {}", event.result)))?;
        }
        Ok(moved)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the context is this one's own, and nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
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
