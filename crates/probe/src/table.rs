//! Reading a whole hash table of the kernel's, a batch of entries to a system call.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;

use libbpf_rs::{MapCore, libbpf_sys};

use crate::error::Error;

/// Entries to ask for at a time. The kernel goes bucket by bucket and may give fewer although more are
/// left, so the end is known by ENOENT only (libbpf-rs takes any short batch for the last one).
const BATCH: u32 = 1024;

/// Calls `visit` with the key and value of each entry. Entries that come or go meanwhile may be missed
/// or met, each at most once.
pub(crate) fn each(
    map: &impl MapCore,
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    batches(libbpf_sys::bpf_map_lookup_batch, map, visit)
}

/// As [`each`], and removes the entries. No other program may write to the table meanwhile: counts added to a removed
/// entry are lost.
pub(crate) fn take_each(
    map: &impl MapCore,
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    batches(libbpf_sys::bpf_map_lookup_and_delete_batch, map, visit)
}

type BatchCall = unsafe extern "C" fn(
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut u32,
    *const libbpf_sys::bpf_map_batch_opts,
) -> c_int;

fn batches(
    call: BatchCall,
    map: &impl MapCore,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (key_size, value_size) = (map.key_size() as usize, map.value_size() as usize);
    let mut keys = vec![0u8; key_size * BATCH as usize];
    let mut values = vec![0u8; value_size * BATCH as usize];
    // For hash tables the position is a bucket's number, whatever the key's size.
    let mut position = 0u32;
    let mut begun = false;
    loop {
        let mut count = BATCH;
        let mut next = 0u32;
        let from = if begun {
            (&raw mut position).cast()
        } else {
            std::ptr::null_mut()
        };
        // SAFETY: the buffers have room for `count` keys and values of this map's sizes, the positions
        // are the u32 that hash tables use, and all outlive the call.
        let status = unsafe {
            call(
                map.as_fd().as_raw_fd(),
                from,
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                &raw mut count,
                std::ptr::null(),
            )
        };
        let at_end = status == -libc_enoent();
        if status != 0 && !at_end {
            return Err(Error::Map {
                operation: "read a table of the probe",
                source: libbpf_rs::Error::from_raw_os_error(-status).into(),
            });
        }
        let got = count as usize;
        let entries = keys
            .chunks_exact(key_size)
            .zip(values.chunks_exact(value_size));
        for (key, value) in entries.take(got) {
            visit(key, value)?;
        }
        if at_end {
            return Ok(());
        }
        position = next;
        begun = true;
    }
}

fn libc_enoent() -> i32 {
    rustix::io::Errno::NOENT.raw_os_error()
}
