//! A seccomp filter that stops a task at some system calls for its tracer.

use std::io;

/// The architecture of the calls that are stopped: others (of 32-bit programs) have other numbers.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn unless_equal(k: u32, skip: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: JUMP_IF_EQUAL,
        jt: 0,
        jf: skip,
        k,
    }
}

/// The filter that stops at these calls, at most 100, and allows all others.
pub(super) fn program(calls: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let allow = statement(RETURN, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![
        statement(LOAD, ARCHITECTURE_AT),
        unless_equal(ARCHITECTURE, 1),
        statement(LOAD, NUMBER_AT),
    ];
    // Of another architecture the number is not loaded: no call has that of an architecture.
    for call in calls {
        let number = u32::try_from(*call).unwrap_or(u32::MAX);
        program.extend([
            unless_equal(number, 1),
            statement(RETURN, libc::SECCOMP_RET_TRACE),
        ]);
    }
    program.push(allow);
    program
}

/// Installs a filter for this process and all that it starts.
///
/// It allocates nothing, so that it may be called between fork and exec.
pub(super) fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    let install = || {
        // SAFETY: the pointer is to a complete program of `len` instructions, which the kernel checks and copies
        // before the call returns.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) }
    };
    if install() == 0 {
        return Ok(());
    }
    // Without CAP_SYS_ADMIN the kernel requires that no program gains rights by being started.
    // SAFETY: a single system call on this process.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 && install() == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
