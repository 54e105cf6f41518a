//! libaio: io_submit(2) and what belongs to it, without the library.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use crate::problem::{Context, Problem, Result};

/// Reads into one piece of memory.
pub const PREAD: u16 = 0;
/// Writes from one piece of memory.
pub const PWRITE: u16 = 1;
/// Reads into several pieces.
pub const PREADV: u16 = 7;
/// The most requests of one call.
pub const IN_FLIGHT: usize = 8;

/// The layout in linux/aio_abi.h.
#[repr(C)]
#[derive(Debug, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: [u64; 2],
}

/// The layout in linux/aio_abi.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result2: i64,
}

/// A context of requests.
#[derive(Debug)]
pub struct Ring(u64);

impl Ring {
    /// Makes one.
    pub fn new() -> Result<Self> {
        let mut context = 0_u64;
        // SAFETY: the kernel writes the context's number to `context`.
        let made = unsafe {
            libc::syscall(
                libc::SYS_io_setup,
                IN_FLIGHT as libc::c_long,
                &raw mut context,
            )
        };
        if made == 0 {
            Ok(Ring(context))
        } else {
            Err(io::Error::last_os_error()).context("io_setup")
        }
    }

    /// Submits one request and waits for it; gives its result as the kernel does, or that of io_submit(2).
    pub fn one(&self, opcode: u16, file: &File, offset: u64, buffer: &mut [u8]) -> Result<i64> {
        let mut request = Iocb {
            opcode,
            fd: file.as_raw_fd() as u32,
            buffer: buffer.as_mut_ptr() as u64,
            bytes: buffer.len() as u64,
            offset: offset as i64,
            ..Iocb::default()
        };
        let mut pointer = &raw mut request;
        let mut event = Event::default();
        // SAFETY: request, buffer and event live until the request has ended, for which the second call waits.
        let (submitted, ended) = unsafe {
            let submitted = libc::syscall(libc::SYS_io_submit, self.0, 1, &raw mut pointer);
            if submitted != 1 {
                let error = io::Error::last_os_error().raw_os_error();
                return Ok(-i64::from(error.unwrap_or(libc::EIO)));
            }
            let ended = libc::syscall(libc::SYS_io_getevents, self.0, 1, 1, &raw mut event, 0);
            (submitted, ended)
        };
        if (submitted, ended) == (1, 1) {
            Ok(event.result)
        } else {
            Err(Problem::new(format!("io_getevents gave {ended}")))
        }
    }

    /// Submits all in one call and waits for them; gives the bytes that they moved.
    pub fn run(
        &self,
        opcode: u16,
        file: &File,
        ranges: &[(u64, u64)],
        buffer: &mut [u8],
    ) -> Result<u64> {
        let mut rest = buffer;
        let mut requests = Vec::new();
        // One piece each, where it reads into pieces.
        let mut pieces = Vec::new();
        for (offset, length) in ranges {
            let (piece, after) = rest.split_at_mut(*length as usize);
            rest = after;
            requests.push(Iocb {
                opcode,
                fd: file.as_raw_fd() as u32,
                buffer: piece.as_mut_ptr() as u64,
                bytes: *length,
                offset: *offset as i64,
                ..Iocb::default()
            });
        }
        for request in requests.iter_mut().filter(|_| opcode == PREADV) {
            pieces.push(Box::new([request.buffer, request.bytes]));
            let piece = pieces
                .last()
                .map_or(std::ptr::null(), |piece| piece.as_ptr());
            (request.buffer, request.bytes) = (piece as u64, 1);
        }
        let mut pointers: Vec<*mut Iocb> = requests
            .iter_mut()
            .map(|request| &raw mut *request)
            .collect();
        let mut events = [Event::default(); IN_FLIGHT];
        let count = pointers.len() as libc::c_long;
        // SAFETY: requests, pieces, buffers and events live until all requests have ended, for which the second call
        // waits.
        let (submitted, ended) = unsafe {
            let submitted =
                libc::syscall(libc::SYS_io_submit, self.0, count, pointers.as_mut_ptr());
            let ended = libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                submitted,
                submitted,
                events.as_mut_ptr(),
                0,
            );
            (submitted, ended)
        };
        if (submitted, ended) != (count, count) {
            return Err(Problem::new(format!(
                "of {count} requests {submitted} were submitted and {ended} ended"
            )));
        }
        let mut moved = 0;
        for event in &events[..pointers.len()] {
            moved += u64::try_from(event.result)
                .map_err(|_| Problem::new(format!("a request gave {}", event.result)))?;
        }
        Ok(moved)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the context is this one's own, and nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}
