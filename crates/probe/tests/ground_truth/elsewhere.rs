//! Reads and touches of other pages than the file suggests: files without pages, files below an overlay, and
//! pages beyond the end.
//!
//! The back-end that counts at the end of system calls does not see reads on overlayfs, as its documentation says.
//! Pages that they insert count as readahead there: misses without hits would give a wrong ratio.

use std::fs::{self, File};

use libtest_mimic::Trial;
use rustix::io::Errno;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::BackEnd;

use crate::image::{FileSystem, Mounted, NotMounted};
use crate::oracle::{Folios, Oracle, State, Subject, page_size};
use crate::problem::{Context, Problem, Result};
use crate::random::Random;
use crate::reader::{Access, At, Call, Mapping};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, FAULTS, Label, READS, known};

/// The trials. None of this is the affair of one file system, so one of them is enough.
pub fn trials() -> Vec<Trial> {
    vec![
        trial(FileSystem::Ext4, "around_the_cache", around_the_cache),
        trial(FileSystem::Ext4, "overlay", overlay),
        trial(FileSystem::Ext4Inline, "data_in_the_inode", in_the_inode),
        trial(FileSystem::Ext4, "mmap_beyond_the_end", mmap_beyond_the_end),
    ]
}

/// Files of sysfs are regular ones with a size, whose pages are never made.
fn around_the_cache(room: &mut Room) -> Result<()> {
    const TIMES: u64 = 20;
    let subject = Subject::open("/sys/kernel/uevent_seqnum".into())?;
    let (major, minor, inode) = subject.id();
    let before = room.stand.snapshot()?.file(major, minor, inode);
    let file = File::open(subject.path()).context("open")?;
    let mut buffer = [0; 64];
    for _ in 0..TIMES {
        let got = rustix::io::pread(&file, &mut buffer, 0).context("pread")?;
        if got == 0 {
            return Err(Problem::new(format!("{}: empty", subject.path().display())));
        }
    }
    let after = room.stand.snapshot()?.file(major, minor, inode);
    let ledger = after.since(&before);
    let label = Label::new("sysfs", "pread").size(subject.bytes());
    let comparison = Comparison::new()
        .exact("requests", 0, ledger[Counter::ReadRequests])
        .exact("pages", 0, ledger[Counter::ReadRequestedPages])
        .nothing_else(&ledger, &READS);
    room.judge(label, comparison);
    Ok(())
}

/// Files that have no blocks: there is no readahead for them, and no event for their reads but the page's insert.
fn in_the_inode(room: &mut Room) -> Result<()> {
    let subject = room.file("small", 40)?;
    for (state, times) in [(State::Cold, 1), (State::Warm, 3)] {
        for wanted in [20, 40, 4096] {
            let label = Label::new(room.kind.name(), "pread")
                .size(wanted)
                .prepared(state, Folios::Small);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, Folios::Small, &mut Random::named(&label.line())),
                |touched, tools| {
                    let mut oracle = Oracle::new(&subject, touched);
                    let file = File::open(subject.path()).context("open")?;
                    for _ in 0..times {
                        oracle.request(0, wanted, || {
                            let got = rustix::io::pread(&file, tools.buffer.slice(wanted), 0);
                            Ok(got.context("pread")? as u64)
                        })?;
                    }
                    // Reads at the end and of something else hide nothing.
                    let got = rustix::io::pread(&file, tools.buffer.slice(8), 40);
                    got.context("pread at the end")?;
                    Ok(oracle.expected())
                },
            );
            match measured {
                Ok(done) => {
                    let (expected, ledger) = (done.expected, &done.ledger);
                    let comparison = Comparison::new()
                        .exact("requests", expected.requests, ledger[Counter::ReadRequests])
                        .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
                        .exact("bytes", expected.bytes, ledger[Counter::ReadRequestedBytes])
                        .exact("hits", expected.hits, known(ledger.hits()))
                        .exact("misses", expected.misses, ledger[Counter::ReadMissedPages])
                        .silently("unserved", 0, ledger[Counter::ReadUnservedBytes])
                        .silently("marks", 0, inexact(ledger));
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

/// A file that an overlay shows: its pages are those of the file in the layer below.
fn overlay(room: &mut Room) -> Result<()> {
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|name| room.path(name));
    for directory in [&lower, &upper, &work, &merged] {
        fs::create_dir(directory).context("make a layer")?;
    }
    let subject = Subject::create(lower.join("data"), 4 << 20)?;
    let mounted = match Mounted::overlay(&lower, &upper, &work, &merged) {
        Ok(mounted) => mounted,
        Err(NotMounted::Missing(reason)) => {
            println!("\nskipped: ground truth on an overlay: {reason}");
            return Ok(());
        }
        Err(NotMounted::Failed(problem)) => return Err(problem),
    };
    let other = room.file("other", page_size())?;
    let is_seen = room.stand.back_end() != BackEnd::SysExit;
    let size = 64 << 10;
    let calls = [Call::Read, Call::Pread, Call::IoUring, Call::IoUringAsync];
    // The end of system calls does not show the pages that a worker inserts here.
    let seen = if is_seen { &calls[..] } else { &calls[..2] };
    for &call in seen {
        for state in [State::Cold, State::Half, State::Warm] {
            let folios = Folios::Small;
            let way = room.way(call, folios);
            let label = Label::new("overlay", call.name())
                .size(size)
                .prepared(state, folios);
            let measured = room.stand.measure(
                &label,
                &subject,
                Evictions::Spoil,
                || subject.prepare(state, folios, &mut Random::named(&label.line())),
                |touched, tools| {
                    let mut oracle = Oracle::new(&subject, touched);
                    let mut reader = way.open(&mounted.directory().join("data"), tools)?;
                    for offset in (0..subject.bytes()).step_by(size as usize) {
                        let at = At::Position(offset);
                        oracle.request(offset, size, || reader.request(at, size))?;
                    }
                    // Pages that the last request inserted wait until its end is seen, or for the next request.
                    fs::read(other.path()).context("read another file")?;
                    Ok(oracle.expected())
                },
            );
            match measured {
                Ok(done) if is_seen => {
                    let comparison =
                        Comparison::of_reads(&done.expected, done.inserted, &done.ledger);
                    room.judge(label, comparison);
                }
                Ok(done) => {
                    let ledger = &done.ledger;
                    let comparison = Comparison::new()
                        .exact("requests", 0, ledger[Counter::ReadRequests])
                        .exact("pages", 0, ledger[Counter::ReadRequestedPages])
                        .exact("misses", 0, ledger[Counter::ReadMissedPages])
                        .exact("read-ahead", done.inserted, ledger[Counter::ReadaheadPages]);
                    room.judge(label, comparison);
                }
                Err(problem) => room.failed(&label, &problem),
            }
        }
    }
    Ok(())
}

/// A page of a mapping behind the file's last is no fault that the cache could serve. The kernel touches it for a
/// call, which fails; a program would get SIGBUS.
fn mmap_beyond_the_end(room: &mut Room) -> Result<()> {
    let subject = room.file("data", page_size())?;
    for state in ["cold", "warm"] {
        // Tracepoints show that pages around it were mapped, but not the requested one.
        if state == "warm" && room.stand.back_end() == BackEnd::Tracepoints {
            continue;
        }
        let label = Label::new(room.kind.name(), "mmap, beyond the end").state(state);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || {
                subject.evict()?;
                if state == "warm" {
                    fs::read(subject.path()).context("read it in")?;
                }
                Ok(())
            },
            |(), _| {
                let file = File::open(subject.path()).context("open to map")?;
                let mapping = Mapping::new(&file, 2 * page_size(), Access::Read, Folios::Large)?;
                match mapping.write_out(1) {
                    Err(Errno::FAULT) => Ok(()),
                    other => Err(Problem::new(format!("not EFAULT: {other:?}"))),
                }
            },
        );
        match measured {
            Ok(done) => {
                let comparison = Comparison::new()
                    .exact("faults", 0, done.ledger[Counter::FaultRequests])
                    .exact("inserted", 0, done.inserted)
                    .nothing_else(&done.ledger, &FAULTS);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// Number of counters that are not exact; times are not measured here.
fn inexact(ledger: &Ledger) -> u64 {
    let counters = Counter::ALL.iter();
    let counted = counters.filter(|counter| !Counter::TIMES.contains(counter));
    counted
        .filter(|counter| ledger.booked(**counter).exact().is_none())
        .count() as u64
}
