//! [`Bloater`]: the process that takes memory, separate so that the kernel can kill it alone.

use std::ffi::CStr;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, kill_process, waitid, waitpid,
};

use crate::random::Random;
use crate::{Bloat, BloatEnd, Error};

/// Memory shared by both processes.
#[repr(C)]
struct Board {
    /// The requested amount, and the amount taken.
    wanted: AtomicU64,
    has: AtomicU64,
    /// The `errno` of a failed start.
    failed: AtomicI32,
    is_begun: AtomicBool,
}

/// A child process that takes memory.
#[derive(Debug)]
pub(crate) struct Bloater {
    pid: Pid,
    board: Shared,
    settings: Bloat,
    began: Instant,
    /// The signal that killed it, and the time.
    killed: Option<(i32, f64)>,
    is_gone: bool,
}

/// The board, in memory shared with the child.
#[derive(Debug)]
struct Shared(*mut Board);

// SAFETY: the board has atomics only, and lives until this is dropped.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> io::Result<Shared> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Board>(),
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
            )
        }?;
        Ok(Shared(address.cast()))
    }

    fn get(&self) -> &Board {
        // SAFETY: zeroed memory, page-aligned and large enough, is a valid board; it is unmapped on drop only.
        unsafe { &*self.0 }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references to it borrow this.
        let _ = unsafe { rustix::mm::munmap(self.0.cast(), size_of::<Board>()) };
    }
}

/// Bytes written at a time.
const PIECE: u64 = 1 << 20;

/// Sleep if no more memory is requested.
const NAP: Duration = Duration::from_millis(10);

impl Bloater {
    /// Starts the process, which inherits the control group.
    ///
    /// # Errors
    /// There is no memory or no process available, or its oom_score_adj cannot be set.
    pub fn start(settings: Bloat) -> Result<Bloater, Error> {
        let cannot = |why: String| Error::Invalid { what: "bloat", why };
        let board =
            Shared::new().map_err(|error| cannot(format!("no memory to share: {error}")))?;
        let mut adjustment = [0; 8];
        let adjustment = decimal(settings.oom_score_adj, &mut adjustment);
        let page = cachewise_sys::page_size().get();
        let parent = rustix::process::getpid();
        // All signals are blocked: otherwise our handlers would run in it, on pipes that it shares
        // with us.
        let blocked = block_signals();
        // SAFETY: until it is killed, the child only makes system calls and uses its own memory; it
        // takes no lock and allocates nothing, so locks of other threads at the time of the fork do
        // not matter.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            child(board.get(), &settings, adjustment, page, parent);
        }
        restore_signals(&blocked);
        let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else {
            return Err(cannot(format!(
                "no process can be made: {}",
                io::Error::last_os_error()
            )));
        };
        let mut bloater = Bloater {
            pid,
            board,
            settings,
            began: Instant::now(),
            killed: None,
            is_gone: false,
        };
        while !bloater.board.get().is_begun.load(Ordering::Acquire) && bloater.is_alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
        match bloater.board.get().failed.load(Ordering::Acquire) {
            0 => Ok(bloater),
            errno => {
                let error = io::Error::from_raw_os_error(errno);
                let hint = match errno {
                    libc::EACCES | libc::EPERM => {
                        "; a negative oom_score_adj needs root: leave out --bloat-oom-score-adj, or use 0 or more"
                    }
                    _ => "; take less",
                };
                Err(cannot(format!(
                    "the process that takes memory cannot begin: {error}{hint}"
                )))
            }
        }
    }

    /// The memory that it has.
    pub fn has(&self) -> u64 {
        self.board.get().has.load(Ordering::Relaxed)
    }

    /// Requests the memory that is due after `read` bytes.
    pub fn ask(&mut self, read: u64) {
        let size = self.settings.size.0;
        let due = match (self.settings.as_read, self.settings.rate) {
            (true, _) => read,
            (false, Some(rate)) => (rate.0 as f64 * self.began.elapsed().as_secs_f64()) as u64,
            (false, None) => size,
        };
        self.board
            .get()
            .wanted
            .store(due.min(size), Ordering::Relaxed);
    }

    /// Whether it still takes memory before the measurement.
    pub fn is_growing_first(&mut self) -> bool {
        let at_once = !self.settings.as_read && self.settings.rate.is_none();
        at_once && self.has() < self.settings.size.0 && self.is_alive()
    }

    /// Starts its clock.
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// Whether it is alive; records its end otherwise.
    pub fn is_alive(&mut self) -> bool {
        if self.is_gone {
            return false;
        }
        // It is reaped only at the end: then the kernel adds its reads, from swap, to those of this
        // process.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.pid), look) {
            Ok(None) | Err(rustix::io::Errno::INTR) => true,
            Ok(Some(status)) => {
                self.note(&status);
                false
            }
            Err(_) => {
                self.is_gone = true;
                false
            }
        }
    }

    fn note(&mut self, status: &WaitIdStatus) {
        self.is_gone = true;
        let signal = status.terminating_signal();
        self.killed = signal.map(|signal| (signal, self.began.elapsed().as_secs_f64()));
    }

    /// Ends it if it is still alive.
    pub fn end(mut self) -> BloatEnd {
        self.is_alive();
        let bytes = self.has();
        let killed = self.killed;
        drop(self);
        BloatEnd { bytes, killed }
    }
}

impl Drop for Bloater {
    fn drop(&mut self) {
        // A zombie still owns its pid.
        let _ = kill_process(self.pid, Signal::KILL);
        while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.pid), WaitOptions::empty()) {}
    }
}

/// A number in decimal without allocation.
fn decimal(number: i16, into: &mut [u8; 8]) -> &[u8] {
    let mut left = number.unsigned_abs();
    let mut place = into.len();
    loop {
        place -= 1;
        into[place] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        place -= 1;
        into[place] = b'-';
    }
    &into[place..]
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets live on our stack and are filled in before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the set is the one that `block_signals` was given by the kernel.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// The endless loop of the child.
fn child(board: &Board, settings: &Bloat, adjustment: &[u8], page: u64, parent: Pid) -> ! {
    let fail = |errno: i32| -> ! {
        board.failed.store(errno, Ordering::Release);
        board.is_begun.store(true, Ordering::Release);
        // SAFETY: ends this process without running anything of the parent's.
        unsafe { libc::_exit(1) }
    };
    const PATH: &CStr = c"/proc/self/oom_score_adj";
    // SAFETY: system calls on constants and on our own stack.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have ended before that was set.
        if libc::getppid() != parent.as_raw_nonzero().get() {
            libc::_exit(1);
        }
        let fd = libc::open(PATH.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 || libc::write(fd, adjustment.as_ptr().cast(), adjustment.len()) < 0 {
            fail(*libc::__errno_location());
        }
        libc::close(fd);
    }
    let size = settings.size.0;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        // SAFETY: as any reading of errno.
        fail(unsafe { *libc::__errno_location() });
    }
    board.is_begun.store(true, Ordering::Release);
    let memory: *mut u8 = memory.cast();
    let mut random = Random::new(0, u64::from(parent.as_raw_nonzero().get().unsigned_abs()));
    let mut has = 0;
    // The next page to touch, and the number of pages due, with a fraction.
    let (mut next, mut due) = (0_u64, 0_f64);
    loop {
        let wanted = board.wanted.load(Ordering::Relaxed).min(size);
        if has < wanted {
            let piece = PIECE.min(wanted - has);
            // SAFETY: the piece is inside of the mapping, which has no other user.
            let piece =
                unsafe { std::slice::from_raw_parts_mut(memory.add(has as usize), piece as usize) };
            random.fill(piece);
            has += piece.len() as u64;
            board.has.store(has, Ordering::Relaxed);
            continue;
        }
        let nap = libc::timespec {
            tv_sec: 0,
            tv_nsec: NAP.subsec_nanos().into(),
        };
        // SAFETY: the time lives on our stack.
        unsafe { libc::nanosleep(&raw const nap, std::ptr::null_mut()) };
        let part = has * u64::from(settings.touch) / 100;
        due += part as f64 / page as f64 * NAP.as_secs_f64();
        while due >= 1.0 && part >= page {
            due -= 1.0;
            next = if (next + 1) * page < part {
                next + 1
            } else {
                0
            };
            // SAFETY: below `part`, which is at most the mapped size.
            unsafe { memory.add((next * page) as usize).read_volatile() };
        }
    }
}

#[cfg(test)]
mod tests {
    use cachewise_units::Bytes;

    use super::*;

    fn grown(bloater: &mut Bloater) {
        bloater.ask(0);
        while bloater.is_growing_first() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn bloater_takes_the_requested_memory_and_ends_with_its_parent() {
        let mut bloater = Bloater::start(Bloat::of_size(Bytes(8 << 20))).unwrap();
        grown(&mut bloater);
        let pid = bloater.pid.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let anon = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .unwrap();
        let kib: u64 = anon.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib >= 8 << 10, "it really has it: {kib} KiB");
        let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
        assert_eq!(score.trim(), "1000", "it is the first victim");
        let end = bloater.end();
        assert_eq!(
            end,
            BloatEnd {
                bytes: 8 << 20,
                killed: None
            },
            "ended by us"
        );
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "and reaped"
        );
    }

    #[test]
    fn bloater_records_the_signal_that_killed_it() {
        let mut bloater = Bloater::start(Bloat::of_size(Bytes(1 << 20))).unwrap();
        grown(&mut bloater);
        kill_process(bloater.pid, Signal::KILL).unwrap();
        while bloater.is_alive() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let place = format!("/proc/{}", bloater.pid.as_raw_nonzero());
        let place = std::path::Path::new(&place);
        assert!(
            place.exists(),
            "its reads are not added to ours before the end"
        );
        let killed = bloater.end().killed.map(|(signal, _)| signal);
        assert_eq!(killed, Some(libc::SIGKILL), "by which signal");
        assert!(!place.exists(), "then it is reaped");
    }

    #[test]
    fn decimal_writes_numbers_without_allocating() {
        for number in [0, 7, 1000, -1000, i16::MIN] {
            let text = String::from_utf8(decimal(number, &mut [0; 8]).to_vec()).unwrap();
            assert_eq!(text, number.to_string(), "as everywhere");
        }
    }
}
