//! Buffered writes: requests, pages, bytes, pages newly allocated, and pages dirtied.
//!
//! The oracle for new pages is cachestat(2) again. For pages dirtied it is the kernel's own account of
//! the thread, `write_bytes` in /proc/thread-self/io, which goes up by a folio when the folio goes
//! from clean to dirty. The number of dirty pages at the end proves less: on a small, new file system the
//! kernel begins writeback at once, and a page written twice may be dirtied twice.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use libtest_mimic::Trial;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::oracle::{Folios, Oracle, State, Subject, page_size, pages_of};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::reader::{Access, Mapping, Tools, open_direct};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, DIRECT, FAULTS, Label, READS, WRITES, known};

const FILE_BYTES: u64 = 8 << 20;

/// Trials on the file systems with a cache, and one on tmpfs.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "writes", writes));
        trials.push(trial(kind, "many_segments", many_segments));
        trials.push(trial(kind, "appends", appends));
        trials.push(trial(kind, "fallocate", fallocate));
        trials.push(trial(kind, "mapped_writes", mapped_writes));
    }
    trials.push(trial(FileSystem::Tmpfs, "writes", in_memory));
    trials
}

/// Expected counts of writes.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    requests: u64,
    pages: u64,
    bytes: u64,
    dirtied: u64,
}

impl Written {
    fn add(&mut self, offset: u64, length: u64) {
        let pages = pages_of(&(offset..offset + length));
        self.requests += 1;
        self.pages += pages.end - pages.start;
        self.bytes += length;
    }
}

/// Pages that this thread has made dirty since it started.
fn dirtied() -> Result<u64> {
    let account =
        fs::read_to_string("/proc/thread-self/io").context("read the thread's account")?;
    let bytes = account
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    let bytes: u64 = bytes
        .and_then(|bytes| bytes.parse().ok())
        .ok_or_else(|| Problem::new("the thread's account has no write_bytes"))?;
    Ok(bytes / page_size())
}

fn open(subject: &Subject) -> Result<File> {
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .open(subject.path())
        .context("open for writing")
}

/// A case of writes: what `work` says it wrote, and what came in and was dirtied meanwhile.
fn exactly(
    room: &mut Room,
    label: Label,
    subject: &Subject,
    mut prepare: impl FnMut() -> Result<()>,
    mut work: impl FnMut(&mut Tools) -> Result<Written>,
) {
    let measured = room.stand.measure(
        &label,
        subject,
        Evictions::Spoil,
        || {
            prepare()?;
            dirtied()
        },
        |before, tools| {
            let written = work(tools)?;
            Ok(Written {
                dirtied: dirtied()? - before,
                ..written
            })
        },
    );
    match measured {
        Ok(done) => {
            let (written, ledger) = (done.expected, &done.ledger);
            let comparison = Comparison::new()
                .exact("requests", written.requests, ledger[Counter::WriteRequests])
                .exact("pages", written.pages, ledger[Counter::WritePages])
                .exact("bytes", written.bytes, ledger[Counter::WriteBytes])
                .exact("new", done.inserted, ledger[Counter::WriteNewPages])
                .exact("dirtied", written.dirtied, ledger[Counter::DirtiedPages])
                .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                .nothing_else(ledger, &READS)
                .nothing_else(ledger, &FAULTS)
                .nothing_else(ledger, &DIRECT);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// pwritev from more pieces than a small array has, some in memory that was never touched.
fn many_segments(room: &mut Room) -> Result<()> {
    let subject = room.file("segments", FILE_BYTES)?;
    let zeros = File::open("/dev/zero").context("open /dev/zero")?;
    for (segments, length, order) in [
        (17, 100, "17 pieces"),
        (30, 100, "30 pieces"),
        (64, 4096, "64 pieces"),
        (1024, 1000, "1024 pieces"),
    ] {
        let bytes: u64 = segments * length;
        let label = Label::new(room.kind.name(), "pwritev, many segments")
            .size(bytes)
            .order(order);
        let prepare = || subject.evict();
        exactly(room, label, &subject, prepare, |_| {
            // A page of the mapping comes into being when the kernel reads it for the write.
            let mut untouched = Mapping::new(&zeros, bytes, Access::Private, Folios::Large)?;
            let file = open(&subject)?;
            let mut written = Written::default();
            let pieces: Vec<_> = untouched
                .slice(0, bytes)
                .chunks(length as usize)
                .map(std::io::IoSlice::new)
                .collect();
            for offset in [0, 4 << 20] {
                let moved = rustix::io::pwritev(&file, &pieces, offset).context("pwritev")? as u64;
                if moved != bytes {
                    return Err(Problem::new(format!(
                        "pwritev moved {moved} of {bytes} bytes"
                    )));
                }
                written.add(offset, bytes);
            }
            Ok(written)
        });
    }
    Ok(())
}

fn writes(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let states = [
        (State::Cold, Folios::Small),
        (State::Half, Folios::Small),
        (State::Warm, Folios::Small),
        (State::Warm, Folios::Large),
    ];
    for (state, folios) in states {
        let prepare = || -> Result<()> {
            subject.prepare(state, folios, &mut Random::new(7))?;
            Ok(())
        };
        for size in [4 << 10, 64 << 10, 1 << 20] {
            let label = Label::new(room.kind.name(), "pwrite")
                .size(size)
                .order("sequential")
                .prepared(state, folios);
            exactly(room, label, &subject, prepare, |tools| {
                let file = open(&subject)?;
                let mut written = Written::default();
                for offset in (0..subject.bytes()).step_by(size as usize) {
                    file.write_all_at(tools.buffer.slice(size), offset)
                        .context("pwrite")?;
                    written.add(offset, size);
                }
                Ok(written)
            });
        }
        for size in [100, 10_000] {
            let label = Label::new(room.kind.name(), "pwrite, unaligned")
                .size(size)
                .order("random")
                .prepared(state, folios);
            exactly(room, label, &subject, prepare, |tools| {
                let file = open(&subject)?;
                let mut random = Random::new(size);
                let mut written = Written::default();
                for _ in 0..200 {
                    let offset = random.below(subject.bytes() - size);
                    file.write_all_at(tools.buffer.slice(size), offset)
                        .context("pwrite")?;
                    written.add(offset, size);
                }
                Ok(written)
            });
        }
    }
    Ok(())
}

/// A file that grows: all its pages are new, but those that two writes share.
fn appends(room: &mut Room) -> Result<()> {
    for (size, requests) in [(100, 3000), (64 << 10, 64), (1 << 20, 8)] {
        let subject = room.file("growing", 0)?;
        let label = Label::new(room.kind.name(), "append")
            .size(size)
            .order("sequential");
        let prepare = || -> Result<()> {
            let file = open(&subject)?;
            file.set_len(0)
                .and_then(|()| file.sync_all())
                .context("truncate")
        };
        exactly(room, label, &subject, prepare, |tools| {
            let mut file = File::options()
                .append(true)
                .open(subject.path())
                .context("open to append")?;
            let mut written = Written::default();
            for request in 0..requests {
                std::io::Write::write_all(&mut file, tools.buffer.slice(size)).context("write")?;
                written.add(request * size, size);
            }
            Ok(written)
        });
    }
    Ok(())
}

/// fallocate(2) makes room on the disk and touches no page.
fn fallocate(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 0)?;
    let label = Label::new(room.kind.name(), "fallocate").size(FILE_BYTES);
    exactly(
        room,
        label,
        &subject,
        || subject.evict(),
        |_| {
            let file = open(&subject)?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)
                .context("fallocate")?;
            Ok(Written::default())
        },
    );
    Ok(())
}

/// Stores into mappings: faults, and with a shared one pages dirtied.
fn mapped_writes(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    for (access, call) in [
        (Access::Shared, "mmap, shared stores"),
        (Access::Private, "mmap, private stores"),
    ] {
        for state in [State::Cold, State::Half, State::Warm] {
            for folios in [Folios::Large, Folios::Small] {
                let label = Label::new(room.kind.name(), call)
                    .size(page_size())
                    .order("sequential")
                    .prepared(state, folios);
                let measured = room.stand.measure(
                    &label,
                    &subject,
                    Evictions::Spoil,
                    || {
                        let random = &mut Random::named(&label.line());
                        let touched = subject.prepare(state, folios, random)?;
                        Ok((touched, dirtied()?))
                    },
                    |(touched, before), _| {
                        let file = open(&subject)?;
                        let mut oracle = Oracle::new(&subject, touched);
                        let mut mapping = Mapping::new(&file, subject.bytes(), access, folios)?;
                        for page in 0..subject.pages() {
                            oracle.touch(page, || mapping.write(page))?;
                        }
                        Ok((oracle.expected(), dirtied()? - before))
                    },
                );
                match measured {
                    Ok(done) => {
                        let ledger = &done.ledger;
                        let (expected, dirtied) = done.expected;
                        let ahead = done.inserted.saturating_sub(expected.fault_misses);
                        let comparison = Comparison::new()
                            .exact("faults", expected.faults, ledger[Counter::FaultRequests])
                            .exact(
                                "misses",
                                expected.fault_misses,
                                ledger[Counter::FaultMissPages],
                            )
                            .exact("read-ahead", ahead, ledger[Counter::FaultReadaheadPages])
                            .exact("dirtied", dirtied, ledger[Counter::DirtiedPages])
                            .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                            .nothing_else(ledger, &READS)
                            .nothing_else(ledger, &WRITES[..4])
                            .nothing_else(ledger, &DIRECT);
                        room.judge(label, comparison);
                    }
                    Err(problem) => room.failed(&label, &problem),
                }
            }
        }
    }
    Ok(())
}

/// On tmpfs nothing is counted, whichever way it is written.
fn in_memory(room: &mut Room) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let size = 64 << 10;
    for call in [
        "pwrite",
        "pwrite and pread, O_DIRECT",
        "mmap, shared stores",
    ] {
        let is_direct = call.contains("O_DIRECT");
        if is_direct && !takes_direct(subject.path()) {
            // Before 6.6.
            room.note(format!("left out: {} takes no O_DIRECT here", room.kind));
            continue;
        }
        let label = Label::new(room.kind.name(), call)
            .size(size)
            .order("sequential")
            .state("warm");
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || Ok(()),
            |(), tools| {
                let file = if is_direct {
                    open_direct(subject.path(), true)?
                } else {
                    open(&subject)?
                };
                if call.starts_with("mmap") {
                    let mut mapping =
                        Mapping::new(&file, subject.bytes(), Access::Shared, Folios::Large)?;
                    (0..subject.pages()).for_each(|page| mapping.write(page));
                    return Ok(());
                }
                for offset in (0..subject.bytes()).step_by(size as usize) {
                    file.write_all_at(tools.buffer.slice(size), offset)
                        .context("pwrite")?;
                    if is_direct {
                        file.read_exact_at(tools.buffer.slice(size), offset)
                            .context("pread")?;
                    }
                }
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let comparison = Comparison::new()
                    .exact("pages", 0, ledger[Counter::WritePages])
                    .exact("dirtied", 0, ledger[Counter::DirtiedPages])
                    .silently("is zero", 1, u64::from(ledger.is_zero()));
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Whether a file's file system knows what O_DIRECT is.
fn takes_direct(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECT;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    !matches!(opened, Err(Errno::INVAL))
}
