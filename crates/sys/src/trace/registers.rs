//! The registers of a stopped task, and how a system call is written into them.

/// The registers, as `PTRACE_GETREGSET` gives them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) type Registers = libc::user_regs_struct;

/// The registers of a task that stands behind its system call, so that it makes this call next.
#[cfg(target_arch = "x86_64")]
pub(super) fn for_call(registers: &Registers, number: libc::c_long, given: [u64; 3]) -> Registers {
    /// Length of the instruction that makes a call.
    const INSTRUCTION: u64 = 2;
    let mut next = *registers;
    next.rip = next.rip.wrapping_sub(INSTRUCTION);
    next.rax = number as u64;
    [next.rdi, next.rsi, next.rdx] = given;
    next
}

/// The registers of a task that stands behind its system call, so that it makes this call next.
#[cfg(target_arch = "aarch64")]
pub(super) fn for_call(registers: &Registers, number: libc::c_long, given: [u64; 3]) -> Registers {
    /// Length of the instruction that makes a call.
    const INSTRUCTION: u64 = 4;
    let mut next = *registers;
    next.pc = next.pc.wrapping_sub(INSTRUCTION);
    next.regs[8] = number as u64;
    next.regs[..3].copy_from_slice(&given);
    next
}
