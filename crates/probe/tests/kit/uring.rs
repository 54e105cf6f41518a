//! io_uring, with the ways in which a program can learn that its requests have completed.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::{EventfdFlags, epoll};

use crate::problem::{Context, Problem, Result};

/// The most requests of one call.
pub const IN_FLIGHT: u32 = 64;

/// User data of requests that only wake the kernel up.
const NOP: u64 = u64::MAX;

/// How a program finds that its requests have completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reap {
    /// It waits in io_uring_enter(2).
    Wait,
    /// It waits in epoll_wait(2) for an eventfd of the ring.
    Epoll,
    /// It looks at the completion queue again and again, without a system call.
    Poll,
    /// It looks between calls that have to do with nothing.
    OtherCalls,
    /// It looks between reads of another file.
    OtherReads,
    /// It looks between requests that do nothing.
    Nops,
    /// A thread of the kernel submits, and the program waits.
    SqPoll,
    /// The kernel does not interrupt it (IORING_SETUP_COOP_TASKRUN), and it looks between calls.
    Cooperative,
    /// The kernel goes on with a request only while the program waits (IORING_SETUP_DEFER_TASKRUN).
    Deferred,
}

impl Reap {
    /// All of them.
    pub const ALL: [Reap; 9] = [
        Reap::Wait,
        Reap::Epoll,
        Reap::Poll,
        Reap::OtherCalls,
        Reap::OtherReads,
        Reap::Nops,
        Reap::SqPoll,
        Reap::Cooperative,
        Reap::Deferred,
    ];

    /// For the table.
    pub fn name(self) -> &'static str {
        match self {
            Reap::Wait => "waiting",
            Reap::Epoll => "eventfd and epoll",
            Reap::Poll => "polling",
            Reap::OtherCalls => "other calls",
            Reap::OtherReads => "other reads",
            Reap::Nops => "nops",
            Reap::SqPoll => "SQPOLL",
            Reap::Cooperative => "COOP_TASKRUN",
            Reap::Deferred => "DEFER_TASKRUN",
        }
    }
}

/// A ring, reaped in one way.
pub struct Uring {
    ring: IoUring,
    reap: Reap,
    event: Option<(OwnedFd, OwnedFd)>,
    other: File,
}

impl Uring {
    /// Makes one. `None`: this kernel does not have that way.
    pub fn new(reap: Reap) -> Result<Option<Self>> {
        let mut builder = IoUring::builder();
        match reap {
            Reap::SqPoll => {
                builder.setup_sqpoll(1000);
            }
            Reap::Cooperative => {
                builder.setup_coop_taskrun();
            }
            Reap::Deferred => {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            _ => {}
        }
        let ring = match builder.build(IN_FLIGHT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
            ring => ring.context("io_uring_setup")?,
        };
        let event = if reap == Reap::Epoll {
            Some(event_of(&ring)?)
        } else {
            None
        };
        let other = File::open("/proc/self/exe").context("open another file")?;
        Ok(Some(Uring {
            ring,
            reap,
            event,
            other,
        }))
    }

    /// Registers files and buffers.
    pub fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// Submits requests in one call and returns their results in their order when all but `silent` of them have
    /// completed. A request that does not report its success has the result `None`.
    ///
    /// # Safety
    /// The memory that the entries point to must live until this returns; all of it has completed then, unless it returns an
    /// error, after which the ring is not to be used any more.
    pub unsafe fn run(
        &mut self,
        entries: Vec<squeue::Entry>,
        silent: usize,
    ) -> Result<Vec<Option<i32>>> {
        let count = entries.len();
        let mut results = vec![None; count];
        // Published at once: a polling kernel thread ends a chain where the entries that it sees end.
        let mut queue = self.ring.submission();
        for (number, entry) in entries.into_iter().enumerate() {
            let entry = entry.user_data(number as u64);
            // SAFETY: by the caller.
            unsafe { queue.push(&entry) }.context("the submission queue is full")?;
        }
        drop(queue);
        self.ring.submit().context("io_uring_enter")?;
        let mut left = count - silent;
        while left > 0 {
            self.look()?;
            let done: Vec<cqueue::Entry> = self.ring.completion().collect();
            for entry in done.iter().filter(|entry| entry.user_data() != NOP) {
                let place = results.get_mut(entry.user_data() as usize);
                *place.ok_or_else(|| Problem::new("a completion of no request"))? =
                    Some(entry.result());
                left -= 1;
            }
        }
        Ok(results)
    }

    /// Passes the time until there can be a completion.
    fn look(&mut self) -> Result<()> {
        match self.reap {
            Reap::Wait | Reap::SqPoll | Reap::Deferred => {
                self.ring.submit_and_wait(1).context("io_uring_enter")?;
            }
            Reap::Epoll => {
                let Some((queue, event)) = &self.event else {
                    return Err(Problem::new("there is no eventfd"));
                };
                let mut events = [MaybeUninit::<epoll::Event>::uninit(); 1];
                match epoll::wait(queue, &mut events[..], None) {
                    // The kernel goes on with requests of this task meanwhile.
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error).context("epoll_wait"),
                }
                match rustix::io::read(event, &mut [0_u8; 8]) {
                    Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
                    Err(error) => return Err(error).context("read the eventfd"),
                }
            }
            Reap::Poll => std::hint::spin_loop(),
            Reap::OtherCalls | Reap::Cooperative => {
                let _ = rustix::process::getppid();
            }
            Reap::OtherReads => {
                rustix::io::pread(&self.other, &mut [0_u8; 100], 0).context("read another file")?;
            }
            Reap::Nops => {
                let nop = opcode::Nop::new().build().user_data(NOP);
                // SAFETY: it points to nothing.
                unsafe { self.ring.submission().push(&nop) }.context("push a nop")?;
                self.ring.submit_and_wait(1).context("io_uring_enter")?;
            }
        }
        Ok(())
    }
}

/// An eventfd that the ring writes to, and an epoll queue that waits for it.
fn event_of(ring: &IoUring) -> Result<(OwnedFd, OwnedFd)> {
    let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .context("eventfd")?;
    ring.submitter()
        .register_eventfd(event.as_raw_fd())
        .context("register an eventfd")?;
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll_create1")?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&queue, &event, data, epoll::EventFlags::IN).context("epoll_ctl")?;
    Ok((queue, event))
}

/// The bytes that a request moved, which must not fail.
pub fn bytes(result: Option<i32>) -> Result<u64> {
    let result = result.ok_or_else(|| Problem::new("a request has no result"))?;
    u64::try_from(result).map_err(|_| {
        let error = std::io::Error::from_raw_os_error(-result);
        Problem::new(format!("io_uring: {error}"))
    })
}
