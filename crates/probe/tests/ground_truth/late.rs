//! Reads that end short, of tasks that do nothing more until another task has evicted the file.
//!
//! The probe learns how such a read ended at the task's next event or at its end. Pages that the read did not reach
//! are readahead. By then they are gone, and the pages that take their place are not.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;

use libtest_mimic::Trial;

use cachewise_model::Counter;
use cachewise_probe::BackEnd;

use crate::image::FileSystem;
use crate::oracle::{Folios, Subject, page_size};
use crate::partial::{HALF_BYTES as REQUEST, HalfMemory};
use crate::problem::{Context, Problem, Result};
use crate::reader::{At, Call, will_need};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label};

const FILE_BYTES: u64 = 8 << 20;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    FileSystem::CACHED
        .into_iter()
        .map(|kind| trial(kind, "evicted_before_the_result_is_known", evicted))
        .collect()
}

/// A read that ends short.
#[derive(Debug, Clone, Copy)]
enum Short {
    /// pread(2) of a number of bytes, into memory that ends after the second number.
    Memory(u64, u64),
    /// sendfile(2) to a socket that nothing reads from.
    Socket,
}

impl Short {
    const ALL: [(&'static str, Short); 3] = [
        ("half way", Short::Memory(REQUEST, REQUEST / 2)),
        ("of one page", Short::Memory(100, 0)),
        ("full socket", Short::Socket),
    ];

    /// Reads from the beginning of the file; gives bytes.
    fn read(self, file: &File) -> Result<u64> {
        match self {
            Short::Memory(bytes, served) => {
                let memory = HalfMemory::new()?;
                let to = memory.before_its_end(served);
                // SAFETY: the kernel writes to the first half, which is this function's own.
                let got = unsafe { libc::pread(file.as_raw_fd(), to, bytes as usize, 0) };
                Ok(u64::try_from(got).unwrap_or(0))
            }
            Short::Socket => {
                let (to, _from) = UnixStream::pair().context("socketpair")?;
                to.set_nonblocking(true).context("set it non-blocking")?;
                let got = rustix::fs::sendfile(&to, file, Some(&mut 0), FILE_BYTES as usize)
                    .context("sendfile")?;
                Ok(got as u64)
            }
        }
    }
}

/// A thread reads, this one evicts the file, and the thread ends.
fn read_then_evict(short: Short, subject: &Subject) -> Result<u64> {
    let file = File::open(subject.path()).context("open for reading")?;
    let (has_read, when_read) = mpsc::channel();
    let (has_evicted, when_evicted) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let got = short.read(&file);
            let _ = has_read.send(());
            let _ = when_evicted.recv();
            got
        });
        let _ = when_read.recv();
        let evicted = subject.evict();
        drop(has_evicted);
        let got = reader
            .join()
            .map_err(|_| Problem::new("the reader panicked"))?;
        evicted.and(got)
    })
}

fn evicted(room: &mut Room) -> Result<()> {
    if room.stand.back_end() == BackEnd::SysExit {
        room.note("left out: the result of a call is known at its end".to_owned());
        return Ok(());
    }
    for (name, short) in Short::ALL {
        for is_prefetched in [false, true] {
            one(room, name, short, is_prefetched)?;
        }
    }
    Ok(())
}

fn one(room: &mut Room, name: &str, short: Short, is_prefetched: bool) -> Result<()> {
    let subject = room.file("data", FILE_BYTES)?;
    let label =
        |what: &str| {
            Label::new(room.kind.name(), format!("{name}, evicted, {what}"))
                .state(if is_prefetched { "warm" } else { "cold" })
        };
    let (first, second) = (label("short"), label("whole"));
    let way = room.way(Call::Pread, Folios::Small);
    let measured = room.stand.measure(
        &first,
        &subject,
        Evictions::Belong,
        || subject.evict(),
        |(), _| {
            if is_prefetched {
                let file = File::open(subject.path()).context("open for reading")?;
                will_need(&file, 0, subject.bytes())?;
            }
            // The kernel limits the pages of one advice; they begin with the first.
            let prefetched = subject.residency()?.cached;
            Ok((read_then_evict(short, &subject)?, prefetched))
        },
    );
    match measured {
        Ok(done) => {
            let ledger = &done.ledger;
            let is_exact = ledger.get(Counter::ReadaheadHitPages).exact().is_some();
            let (got, prefetched) = done.expected;
            let used = got.div_ceil(page_size()).min(prefetched);
            let comparison = Comparison::new()
                .exact("requests", 1, ledger[Counter::ReadRequests])
                .exact("first uses", used, ledger[Counter::ReadaheadHitPages])
                .silently("exact first uses", 0, is_exact.into());
            room.judge(first, comparison);
        }
        Err(problem) => room.failed(&first, &problem),
    }
    let measured = room.stand.measure(
        &second,
        &subject,
        Evictions::Belong,
        || subject.evict(),
        |(), tools| {
            let mut reader = way.open(subject.path(), tools)?;
            for offset in (0..subject.bytes()).step_by(REQUEST as usize) {
                reader.request(At::Offset(offset), REQUEST)?;
            }
            Ok(())
        },
    );
    match measured {
        Ok(done) => {
            let ledger = &done.ledger;
            let comparison = Comparison::new()
                .exact(
                    "pages",
                    subject.pages(),
                    ledger[Counter::ReadRequestedPages],
                )
                .exact(
                    "first uses",
                    ledger[Counter::ReadaheadPages],
                    ledger[Counter::ReadaheadHitPages],
                )
                .silently("inserted", subject.pages(), done.inserted);
            room.judge(second, comparison);
        }
        Err(problem) => room.failed(&second, &problem),
    }
    Ok(())
}
