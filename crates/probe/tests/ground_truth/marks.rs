//! Short and failed requests whose result the probe cannot know exactly: then the counts say so.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Barrier;

use libtest_mimic::Trial;
use rustix::fs::Advice;
use rustix::io::Errno;

use cachewise_model::{Counter, contradicts_itself};
use cachewise_probe::BackEnd;

use crate::image::FileSystem;
use crate::oracle::page_size;
use crate::partial::{HALF_BYTES as REQUEST, HalfMemory};
use crate::problem::{Context, Result};
use crate::results::{FILE_BYTES, moved};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label};

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "hidden_results_are_marked", hidden));
        trials.push(trial(
            kind,
            "readahead_is_marked_after_evictions_behind_a_short_read",
            evicted_meanwhile,
        ));
    }
    trials
}

/// A failed read and a failed write, each followed by calls on a pipe that move bytes too: the task's accounts say
/// that something is missing, and not how much.
fn hidden(room: &mut Room) -> Result<()> {
    if room.stand.back_end() == BackEnd::SysExit {
        room.note("left out: nothing is hidden from the end of system calls".to_owned());
        return Ok(());
    }
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    let label = Label::new(room.kind.name(), "EFAULT, and calls on a pipe").size(REQUEST);
    let measured = room.stand.measure(
        &label,
        &subject,
        Evictions::Belong,
        || subject.evict(),
        |(), _| {
            let mut options = File::options();
            let file = options.read(true).write(true).open(subject.path());
            let file = file.context("open")?;
            let (from, to) = rustix::pipe::pipe().context("pipe")?;
            let nothing = memory.before_its_end(0);
            // SAFETY: the kernel finds that it may not touch the memory.
            let (read, written) = unsafe {
                let file = file.as_raw_fd();
                let read = libc::pread(file, nothing, REQUEST as usize, 0);
                (read, libc::pwrite(file, nothing, REQUEST as usize, 0))
            };
            assert_eq!((read, written), (-1, -1), "neither moves anything");
            rustix::io::write(&to, b"something").context("write to the pipe")?;
            rustix::io::read(&from, &mut [0_u8; 9]).context("read from the pipe")?;
            Ok(())
        },
    );
    match measured {
        Ok(done) => {
            let is_exact = |counter| u64::from(done.ledger.get(counter).exact().is_some());
            let comparison = Comparison::new()
                .exact("requests", 1, done.ledger[Counter::ReadRequests])
                .exact("exact unserved", 0, is_exact(Counter::ReadUnservedBytes))
                .exact("exact misses", 0, is_exact(Counter::ReadMissedPages))
                .silently("exact requested", 1, is_exact(Counter::ReadRequestedPages))
                .within(
                    "unserved bytes",
                    (REQUEST - 9, REQUEST),
                    done.ledger[Counter::ReadUnservedBytes],
                    "the pipe's bytes may be the file's",
                )
                .silently(
                    "contradicts itself",
                    0,
                    contradicts_itself(&done.ledger).into(),
                );
            // btrfs tells of a write when its data is there: of one that moves nothing it does not.
            let writes = done.ledger[Counter::WriteRequests];
            let comparison = comparison.within(
                "exact written",
                (0, 1 - writes.min(1)),
                is_exact(Counter::WriteBytes),
                "a write that left no event is none",
            );
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
    Ok(())
}

/// A short read, an eviction by another thread before the reader's next call, and a read of what the first one did not
/// reach: whether that was still there the probe cannot know.
fn evicted_meanwhile(room: &mut Room) -> Result<()> {
    if room.stand.back_end() == BackEnd::SysExit {
        room.note("left out: the end of a system call gives its result at once".to_owned());
        return Ok(());
    }
    let subject = room.file("data", FILE_BYTES)?;
    let memory = HalfMemory::new()?;
    let last = FILE_BYTES - page_size();
    let label = Label::new(room.kind.name(), "pread, EFAULT, and evictions").size(REQUEST);
    let measured = room.stand.measure(
        &label,
        &subject,
        Evictions::Belong,
        || {
            subject.evict()?;
            let file = File::open(subject.path()).context("open to fill the cache")?;
            rustix::fs::fadvise(&file, 0, None, Advice::Random).context("fadvise")?;
            rustix::io::pread(&file, &mut [0_u8; 1], last).context("read the last page")?;
            File::open(subject.path()).context("open for reading")
        },
        |file, tools| {
            let turn = Barrier::new(2);
            std::thread::scope(|threads| {
                let other = threads.spawn(|| {
                    turn.wait();
                    turn.wait();
                    let evicted = subject.evict_range(last..FILE_BYTES);
                    turn.wait();
                    evicted
                });
                // The code and data of this wait are in memory from here on.
                turn.wait();
                let part = memory.before_its_end(page_size());
                // SAFETY: the kernel writes to the first half of the memory, which is this function's own.
                let got = unsafe { libc::pread(file.as_raw_fd(), part, REQUEST as usize, 0) };
                let got = moved(got, Errno::FAULT);
                turn.wait();
                turn.wait();
                assert_eq!(got?, page_size(), "one page has room");
                let buffer = tools.buffer.slice(4 * page_size());
                rustix::io::pread(&file, buffer, page_size()).context("pread")?;
                other.join().expect("the other thread ends")
            })
        },
    );
    match measured {
        Ok(done) => {
            let ledger = &done.ledger;
            let is_exact = |counter| u64::from(ledger.get(counter).exact().is_some());
            let comparison = Comparison::new()
                .exact("requests", 2, ledger[Counter::ReadRequests])
                .exact("exact used", 0, is_exact(Counter::ReadaheadHitPages))
                .exact("exact wasted", 0, is_exact(Counter::ReadaheadWastedPages))
                .exact("exact misses", 1, is_exact(Counter::ReadMissedPages))
                .silently("misses", 1, ledger[Counter::ReadMissedPages]);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
    Ok(())
}
