//! SIGBUS of a store to a mapped file that has no space: the store goes to memory of its own instead, and is known to
//! have failed.

use std::cell::Cell;
use std::sync::Once;

use crate::oracle::page_size;

thread_local! {
    /// Signals that this thread has had. A thread's own cell, without a destructor: a handler may use it.
    static SIGNALS: Cell<u64> = const { Cell::new(0) };
}

/// Gives a page of memory to the address whose access raised the signal.
extern "C" fn give_memory(
    _signal: libc::c_int,
    information: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    SIGNALS.set(SIGNALS.get() + 1);
    // SAFETY: the kernel passes the information of the signal, which for SIGBUS has an address. mmap(2) is a system call
    // alone, and replaces a page of the mapping that the thread was accessing.
    let given = unsafe {
        let address = (*information).si_addr() as usize;
        let page = address - address % page_size() as usize;
        libc::mmap(
            page as *mut libc::c_void,
            page_size() as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if given == libc::MAP_FAILED {
        // SAFETY: ends the process, which would otherwise get the same signal for ever.
        unsafe { libc::_exit(1) };
    }
}

/// Whether an access of a mapped file ends in SIGBUS, which it survives.
pub fn raises(access: impl FnOnce()) -> bool {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler does nothing but what a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = give_memory as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
    let before = SIGNALS.get();
    access();
    SIGNALS.get() > before
}
