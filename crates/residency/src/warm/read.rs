//! Reading pages for the sake of having read them.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cachewise_sys::{fadvise_will_need_range, page_size, start_thread_in};
use cachewise_units::{ByteRange, Bytes, PageRange};

use super::options::WarmOptions;
use super::short::WarmShortfall;
use crate::limiter::STEPS_PER_SECOND;
use crate::sysfs::read_ahead;
use crate::{Inode, Limiter, Progress};

/// Bytes per read call. A call larger than the kernel's readahead window makes the largest folios:
/// with 256 KiB the same 512 MiB took four times as long, with 4 MiB no less.
const CALL: u64 = 1 << 20;

/// Bytes that one thread takes at a time.
const JOB: u64 = 16 << 20;

/// Bytes per advice: no device has a smaller window or transfer, so none is cut.
pub(crate) const ADVICE: u64 = 128 << 10;

/// The bytes read, and the reason for an early end.
pub(super) struct Read {
    pub bytes: Bytes,
    pub ended: Option<WarmShortfall>,
}

/// Reads all of these pages.
pub(super) fn all(
    fd: BorrowedFd<'_>,
    inode: &Inode,
    pages: &[PageRange],
    options: &WarmOptions<'_>,
) -> Read {
    if pages.is_empty() {
        return Read {
            bytes: Bytes::ZERO,
            ended: None,
        };
    }
    // Reads alone would also insert the kernel's readahead: advice for everything that is read
    // prevents that, at the price of small folios. If the limit is well above a window, a window
    // more or less does not matter.
    let advises_all = options.limiter.is_some_and(|limiter| {
        let window = read_ahead(inode.device).0;
        limiter.per_second().0 / STEPS_PER_SECOND < 2 * window
    });
    let parts = parts(inode, pages, !advises_all);
    let planned: u64 = parts.iter().map(|part| part.range.len).sum();
    options.watch.tell(Progress::Planned(Bytes(planned)));
    let jobs = planned.div_ceil(JOB);
    let threads = (options.threads.get() as u64).min(jobs);
    let reader = Reader {
        fd,
        options,
        advises_all,
        parts: Mutex::new(Parts {
            all: parts,
            next: 0,
        }),
        bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        ended: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        // The caller's thread works as well, alone if no other can be had.
        let _others: Vec<_> = (1..threads)
            .map_while(|_| start_thread_in(scope, "read", || reader.work()).ok())
            .collect();
        reader.work();
    });
    Read {
        bytes: Bytes(reader.bytes.into_inner()),
        ended: reader
            .ended
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner),
    }
}

/// A range to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    range: ByteRange,
    /// Whether the range is prefetched by advice before it is read, so that readahead ends there.
    is_tail: bool,
}

/// Divides each range of pages into a body and a tail, if tails are treated separately. At the end
/// of the file readahead ends by itself.
fn parts(inode: &Inode, pages: &[PageRange], has_tails: bool) -> Vec<Part> {
    let file = ByteRange {
        start: 0,
        len: inode.size.0,
    };
    let mut window = None;
    let mut parts = Vec::with_capacity(pages.len());
    for range in pages {
        let Some(range) = range.bytes(page_size()).intersection(file) else {
            continue;
        };
        let tail = match range.end() == file.end() {
            true => 0,
            false if !has_tails => 0,
            // As little as the kernel might ever read ahead.
            false if range.len <= ADVICE => range.len,
            // One window begins where the last one's mark is hit, and that may be the last page of the body.
            false => 2 * window.get_or_insert_with(|| read_ahead(inode.device)).0,
        };
        let tail = tail.min(range.len) / page_size().get() * page_size().get();
        let body = range.len - tail;
        let (start, is_tail) = (range.start, false);
        parts.push(Part {
            range: ByteRange { start, len: body },
            is_tail,
        });
        let (start, is_tail) = (start + body, true);
        parts.push(Part {
            range: ByteRange { start, len: tail },
            is_tail,
        });
    }
    parts.retain(|part| !part.range.is_empty());
    parts
}

/// The parts that no thread has taken yet.
struct Parts {
    all: Vec<Part>,
    next: usize,
}

impl Parts {
    /// Takes about one job of parts: a tail as a whole, so that it is prefetched before any of it
    /// is read.
    fn take(&mut self) -> Vec<Part> {
        let (mut job, mut size) = (Vec::new(), 0);
        while size < JOB
            && let Some(part) = self.all.get_mut(self.next)
        {
            let len = match part.is_tail {
                true => part.range.len,
                false => part.range.len.min(JOB - size),
            };
            let start = part.range.start;
            job.push(Part {
                range: ByteRange { start, len },
                ..*part
            });
            part.range.start += len;
            part.range.len -= len;
            if part.range.is_empty() {
                self.next += 1;
            }
            size += len;
        }
        job
    }
}

struct Reader<'a> {
    fd: BorrowedFd<'a>,
    options: &'a WarmOptions<'a>,
    /// Whether everything is prefetched by advice before it is read, not only tails.
    advises_all: bool,
    parts: Mutex<Parts>,
    bytes: AtomicU64,
    stop: AtomicBool,
    ended: Mutex<Option<WarmShortfall>>,
}

impl Reader<'_> {
    /// Work of each thread.
    fn work(&self) {
        let mut buffer = Vec::new();
        loop {
            let job = {
                let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
                parts.take()
            };
            if job.is_empty() {
                return;
            }
            if let Err(short) = self.job(&job, &mut buffer) {
                let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                ended.get_or_insert(short);
                // A thread that sees this finds the reason already stored, so the end is not
                // reported as cancelled.
                self.stop.store(true, Ordering::Release);
                return;
            }
        }
    }

    fn job(&self, job: &[Part], buffer: &mut Vec<u8>) -> Result<(), WarmShortfall> {
        for tail in job.iter().filter(|part| part.is_tail) {
            self.in_steps(tail.range, ADVICE, self.options.limiter, |step| {
                self.advise(step);
                Ok(step.len)
            })?;
        }
        for part in job {
            // The kernel has begun with a tail, so that its time is paid for.
            let limiter = self.options.limiter.filter(|_| !part.is_tail);
            self.in_steps(part.range, CALL, limiter, |step| {
                if self.advises_all {
                    self.advise(step);
                }
                self.read(step, buffer)
            })?;
        }
        Ok(())
    }

    /// Asks for what is going to be read.
    fn advise(&self, step: ByteRange) {
        let mut start = step.start;
        while start < step.end() {
            let len = ADVICE.min(step.end() - start);
            // Advice that is not taken costs nothing but pages beyond the range: reading follows.
            let _ = fadvise_will_need_range(self.fd, ByteRange { start, len });
            start += len;
        }
    }

    /// Goes through a range, no faster than is allowed, until the file ends or it is to stop.
    fn in_steps(
        &self,
        range: ByteRange,
        most: u64,
        limiter: Option<&Limiter>,
        mut act: impl FnMut(ByteRange) -> Result<u64, WarmShortfall>,
    ) -> Result<(), WarmShortfall> {
        let watch = self.options.watch;
        let most = limiter.map_or(most, |limiter| limiter.step(most));
        let mut start = range.start;
        while start < range.end() {
            if self.stop.load(Ordering::Acquire) || watch.is_cancelled() {
                return Err(WarmShortfall::Cancelled);
            }
            let len = most.min(range.end() - start);
            if limiter.is_some_and(|limiter| !limiter.wait(Bytes(len), watch.cancel)) {
                return Err(WarmShortfall::Cancelled);
            }
            match act(ByteRange { start, len })? {
                0 => break,
                done => start += done,
            }
        }
        Ok(())
    }

    /// Reads as much as there is at a place; 0 at the end of the file.
    fn read(&self, step: ByteRange, buffer: &mut Vec<u8>) -> Result<u64, WarmShortfall> {
        buffer.resize(buffer.len().max(step.len as usize), 0);
        let wanted = &mut buffer[..step.len as usize];
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(self.fd, &mut *wanted, step.start));
        let read = read.map_err(|errno| WarmShortfall::Failed {
            at: step.start,
            error: cachewise_sys::Error::Io {
                operation: "pread",
                path: None,
                source: errno.into(),
            },
        })? as u64;
        self.bytes.fetch_add(read, Ordering::Relaxed);
        self.options.watch.tell(Progress::Done(Bytes(read)));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: u64, len: u64, is_tail: bool) -> Part {
        Part {
            range: ByteRange { start, len },
            is_tail,
        }
    }

    #[test]
    fn a_job_has_whole_tails_and_as_much_of_a_body_as_fits() {
        let mut parts = Parts {
            all: vec![
                part(0, JOB + 5, false),
                part(JOB + 5, 2 * JOB, true),
                part(9 * JOB, 7, true),
            ],
            next: 0,
        };
        assert_eq!(parts.take(), [part(0, JOB, false)], "a job's worth");
        assert_eq!(
            parts.take(),
            [part(JOB, 5, false), part(JOB + 5, 2 * JOB, true)],
            "the rest, and a tail that is not divided"
        );
        assert_eq!(parts.take(), [part(9 * JOB, 7, true)], "what is left");
        assert_eq!(parts.take(), [], "and no more");
    }
}
