//! Requests of ptrace(2).

use std::io;
use std::mem::{MaybeUninit, size_of};

/// A system call of a stopped task.
#[derive(Debug, Default)]
pub(super) struct SyscallInfo {
    /// Before it: the number and what was given.
    pub(super) call: Option<(libc::c_long, [u64; 6])>,
    /// Behind it: what it returned.
    pub(super) result: Option<i64>,
}

pub(super) fn syscall_info(task: libc::pid_t) -> io::Result<SyscallInfo> {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    request(
        libc::PTRACE_GET_SYSCALL_INFO,
        task,
        size_of::<libc::ptrace_syscall_info>(),
        info.as_mut_ptr() as usize,
    )?;
    // SAFETY: plain integers, of which all-zero is a value; the kernel has filled in the part that `op` names.
    let info = unsafe { info.assume_init() };
    Ok(match info.op {
        libc::PTRACE_SYSCALL_INFO_SECCOMP => {
            // SAFETY: the kernel says that it filled in this part.
            let seccomp = unsafe { info.u.seccomp };
            SyscallInfo {
                call: Some((seccomp.nr as libc::c_long, seccomp.args)),
                result: None,
            }
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => {
            // SAFETY: as above.
            let exit = unsafe { info.u.exit };
            SyscallInfo {
                call: None,
                result: Some(exit.sval),
            }
        }
        _ => SyscallInfo::default(),
    })
}

pub(super) fn resume(task: libc::pid_t, how: libc::c_uint, signal: libc::c_int) -> io::Result<()> {
    request(how, task, 0, signal as usize).map(drop)
}

/// One ptrace(2). The request decides the meaning of `address` and `data`; pointers among them must be valid for the
/// length of the call.
pub(super) fn request(
    request: libc::c_uint,
    task: libc::pid_t,
    address: usize,
    data: usize,
) -> io::Result<libc::c_long> {
    // SAFETY: the callers in this module give pointers to live memory of the size that the request asks for.
    match unsafe { libc::ptrace(request, task, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}
