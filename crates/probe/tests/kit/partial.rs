//! Requests that get no further than a part: memory that ends, and a limit on the size of files.

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use rustix::process::{Resource, Rlimit};

use crate::problem::{Context, Result};

/// Bytes of each half of [`HalfMemory`].
pub const HALF_BYTES: u64 = 1 << 20;

/// Memory of two halves, the second of which cannot be touched.
#[derive(Debug)]
pub struct HalfMemory(*mut c_void);

impl HalfMemory {
    /// Maps it.
    pub fn new() -> Result<Self> {
        let (read, write) = (ProtFlags::READ, ProtFlags::WRITE);
        // SAFETY: new memory at a place of the kernel's choice, which only `drop` unmaps; the half that is
        // protected is touched by system calls alone.
        unsafe {
            let whole = 2 * HALF_BYTES as usize;
            let start =
                rustix::mm::mmap_anonymous(ptr::null_mut(), whole, read | write, MapFlags::PRIVATE)
                    .context("mmap")?;
            let memory = HalfMemory(start);
            rustix::mm::mprotect(
                start.byte_add(HALF_BYTES as usize),
                HALF_BYTES as usize,
                MprotectFlags::empty(),
            )
            .context("mprotect")?;
            ptr::write_bytes(start.cast::<u8>(), 1, HALF_BYTES as usize);
            Ok(memory)
        }
    }

    /// Where the last `bytes` begin that can be touched.
    pub fn before_its_end(&self, bytes: u64) -> *mut c_void {
        // SAFETY: inside of the first half.
        unsafe { self.0.byte_add((HALF_BYTES - bytes) as usize) }
    }
}

impl Drop for HalfMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, which nothing refers to.
        let _ = unsafe { rustix::mm::munmap(self.0, 2 * HALF_BYTES as usize) };
    }
}

/// Puts a limit of this process back, and what its signal did.
#[derive(Debug)]
pub struct Limited(Rlimit, libc::sighandler_t);

impl Limited {
    /// Files may have this size at most, and who goes beyond gets an error instead of a signal.
    pub fn to(bytes: u64) -> Result<Self> {
        let before = rustix::process::getrlimit(Resource::Fsize);
        // SAFETY: to ignore a signal takes nothing from anybody: the default would end this process.
        let handler = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let limit = Rlimit {
            current: Some(bytes),
            ..before
        };
        rustix::process::setrlimit(Resource::Fsize, limit).context("setrlimit")?;
        Ok(Limited(before, handler))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = rustix::process::setrlimit(Resource::Fsize, self.0);
        // SAFETY: what it was before.
        unsafe { libc::signal(libc::SIGXFSZ, self.1) };
    }
}
