//! A file that shrinks under a mapping: the kernel sends SIGBUS to a thread that reads beyond its
//! end, which by default ends the process without a message.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of mappings at the same time: one per running measurement.
const SLOTS: usize = 16;

/// A guarded mapping: its start, its length, and whether a read beyond the end occurred. Address 0
/// marks a free slot.
struct Guarded {
    start: AtomicUsize,
    len: AtomicUsize,
    lost: AtomicBool,
}

static GUARDED: [Guarded; SLOTS] = [const {
    Guarded {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; SLOTS];

/// Held while guarding and unguarding; the handler takes no lock.
static CHANGING: Mutex<bool> = Mutex::new(false);

/// A mapping in which reads beyond the file's end return zeros, and are recorded.
#[derive(Debug)]
pub(super) struct Guard(usize);

impl Guard {
    /// # Errors
    /// The handler cannot be set; too many mappings are guarded.
    pub fn of_range(start: usize, len: usize) -> io::Result<Guard> {
        let mut is_set = CHANGING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !*is_set {
            set_handler()?;
            *is_set = true;
        }
        for (index, place) in GUARDED.iter().enumerate() {
            if place.start.load(Ordering::Relaxed) == 0 {
                place.lost.store(false, Ordering::Relaxed);
                place.len.store(len, Ordering::Relaxed);
                place.start.store(start, Ordering::Release);
                return Ok(Guard(index));
            }
        }
        Err(io::Error::other(
            "too many mappings are measured at the same time",
        ))
    }

    pub fn is_lost(&self) -> bool {
        GUARDED[self.0].lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _changing = CHANGING.lock();
        GUARDED[self.0].start.store(0, Ordering::Release);
    }
}

fn set_handler() -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`; the fields that matter are set below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the structure outlives the call; the handler does only what is allowed in one.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Maps a page of zeros where the file has none any more, and the read continues; outside of
/// guarded mappings the default action follows.
extern "C" fn on_bus_error(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands over a valid structure, and for SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    for place in &GUARDED {
        let start = place.start.load(Ordering::Acquire);
        let len = place.len.load(Ordering::Relaxed);
        if start == 0 || !(start..start + len).contains(&address) {
            continue;
        }
        place.lost.store(true, Ordering::Relaxed);
        // From the page to the end: the rest is lost too, and each page would cause another signal.
        // The page size was cached when the mapping was made, so this only loads a number.
        let page = cachewise_sys::page_size().get() as usize;
        let from = address & !(page - 1);
        // SAFETY: the range is inside one of our mappings, to which there is no Rust reference; it
        // stays mapped, by zeros. mmap(2) is a bare system call, and so allowed in a handler.
        let mapped = unsafe {
            libc::mmap(
                from as *mut c_void,
                start + len - from,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: signal(2) is allowed in a handler. The instruction runs again, and this time ends the process.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}
