//! io_uring: several reads of a thread in flight.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};
use quanta::Clock;
use rustix::io::Errno;

use super::Buffer;
use super::cachestat::Cachestat;
use crate::tally::{Done, Outcome, Tally};
use crate::target::Target;

/// A ring, and a buffer for each request.
pub(crate) struct Uring<'a> {
    ring: IoUring,
    fd: BorrowedFd<'a>,
    requests: Vec<Request>,
    size: u64,
    cachestat: Cachestat<'a>,
}

/// A read in flight.
struct Request {
    buffer: Buffer,
    offset: u64,
    requested: usize,
    got: usize,
    /// Cached bytes when it was requested.
    cached: usize,
    /// The first try, without waiting.
    is_first: bool,
    began: u64,
}

impl<'a> Uring<'a> {
    pub fn new(target: &'a Target, chunk: usize, depth: u32) -> io::Result<Self> {
        let ring = IoUring::new(depth)?;
        let mut requests = Vec::with_capacity(depth as usize);
        for _ in 0..depth {
            requests.push(Request {
                buffer: Buffer::new(chunk)?,
                offset: 0,
                requested: 0,
                got: 0,
                cached: 0,
                is_first: true,
                began: 0,
            });
        }
        Ok(Uring {
            ring,
            fd: target.fd(),
            requests,
            size: target.size.0,
            cachestat: Cachestat::new(target),
        })
    }

    /// Reads at all of these offsets.
    pub fn read(
        &mut self,
        offsets: &[u64],
        clock: Option<&Clock>,
        tally: &mut Tally,
    ) -> io::Result<()> {
        let chunk = self
            .requests
            .first()
            .map_or(0, |request| request.buffer.len());
        let mut offsets = offsets.iter().copied();
        let mut free: Vec<usize> = (0..self.requests.len()).collect();
        let mut under_way = 0;
        let mut failed = None;
        loop {
            // After a failure, wait only for reads in flight: the kernel writes into our buffers
            // until then.
            while failed.is_none()
                && let Some(index) = free.pop()
            {
                let Some(offset) = offsets.next() else {
                    free.push(index);
                    break;
                };
                let request = &mut self.requests[index];
                request.offset = offset;
                request.requested = (chunk as u64).min(self.size - offset) as usize;
                (request.got, request.is_first) = (0, true);
                match self.cachestat.at(offset, request.requested) {
                    Ok(cached) => request.cached = cached,
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
                request.began = clock.map_or(0, Clock::raw);
                self.ask(index)?;
                under_way += 1;
            }
            if under_way == 0 {
                return failed.map_or(Ok(()), Err);
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            loop {
                let Some(entry) = self.ring.completion().next() else {
                    break;
                };
                let index = entry.user_data() as usize;
                let request = &mut self.requests[index];
                let again = match entry.result() {
                    code if code == -Errno::INTR.raw_os_error()
                        || code == -Errno::AGAIN.raw_os_error() && request.is_first =>
                    {
                        if request.is_first {
                            request.cached = 0;
                        }
                        true
                    }
                    code if code < 0 => {
                        failed.get_or_insert(io::Error::from_raw_os_error(-code));
                        false
                    }
                    read => {
                        let read = read.unsigned_abs() as usize;
                        request.got += read;
                        if request.is_first {
                            request.cached = request.cached.min(read);
                        }
                        // 0 bytes mean the end of the file.
                        request.got < request.requested && (read > 0 || request.is_first)
                    }
                };
                if again && failed.is_none() {
                    request.is_first = false;
                    self.ask(index)?;
                    continue;
                }
                under_way -= 1;
                free.push(index);
                if failed.is_none() {
                    let done = Done {
                        bytes: request.got as u64,
                        cached: request.cached as u64,
                        outcome: if request.cached == request.requested {
                            Outcome::Hit
                        } else {
                            Outcome::Miss
                        },
                    };
                    match clock {
                        Some(clock) => {
                            let taken = clock.delta_as_nanos(request.began, clock.raw());
                            tally.count_timed(done, taken);
                        }
                        None => tally.count(done),
                    }
                }
            }
        }
    }

    /// Queues the rest of a request.
    fn ask(&mut self, index: usize) -> io::Result<()> {
        let request = &mut self.requests[index];
        let flags = if request.is_first {
            libc::RWF_NOWAIT
        } else {
            0
        };
        let rest = &mut request.buffer.as_mut()[request.got..request.requested];
        let length = u32::try_from(rest.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let entry = opcode::Read::new(types::Fd(self.fd.as_raw_fd()), rest.as_mut_ptr(), length)
            .offset(request.offset + request.got as u64)
            .rw_flags(flags)
            .build()
            .user_data(index as u64);
        // SAFETY: the buffer belongs to the request, which lives until `drop` has waited for it; the descriptor is
        // borrowed for as long as the ring is.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::other("the ring has less room than it was made with"))
    }
}

impl Drop for Uring<'_> {
    fn drop(&mut self) {
        // Reads that could not be waited for in `read` may still write: those buffers are never
        // freed.
        if self.ring.completion().is_empty() && self.ring.submission().is_empty() {
            return;
        }
        std::mem::forget(std::mem::take(&mut self.requests));
    }
}

impl std::fmt::Debug for Uring<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("depth", &self.requests.len())
            .finish_non_exhaustive()
    }
}
