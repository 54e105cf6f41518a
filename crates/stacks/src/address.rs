//! Addresses of calls, independent of where a process has mapped its files.

/// The code of a call: of a return address, the byte before it, which is in the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Address {
    /// In a mapped file: its number, and the address as the file has it.
    InFile(u32, u64),
    /// In a mapped file that could not be opened: its number.
    Unopened(u32),
    /// In memory of a process, by its id, that is no file's: a JIT compiler made the code.
    Bare(u32, u64),
    /// In the kernel.
    Kernel(u64),
}
