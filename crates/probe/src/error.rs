//! Errors of the probe.

/// The kind of an [`Error`], for a caller that decides by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller lacks a capability.
    Denied,
    /// This kernel does not have what is needed.
    Unsupported,
    /// The request of the caller cannot be fulfilled.
    Invalid,
    /// Anything else.
    Other,
}

/// The error of libbpf, with its own account of the cause.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BpfError(#[from] pub(crate) libbpf_rs::Error);

/// Why a probe could not be had or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused to load or attach a program.
    #[error("the kernel refused to {operation}")]
    Refused {
        /// The operation.
        operation: String,
        /// The error of libbpf.
        source: BpfError,
    },
    /// No way to count reads.
    #[error(
        "this kernel has no event for reads: neither the tracepoint mm_filemap_get_pages (6.12), nor functions \
         that can be hooked into, nor sys_exit"
    )]
    NoBackEnd,
    /// No event for the use of resident pages.
    #[error(
        "this kernel does not show who uses a page that is resident: it lacks the tracepoint mm_filemap_get_pages \
         (Linux 6.12)"
    )]
    NoUses,
    /// The kernel's description of its own types is missing or malformed.
    #[error(
        "cannot read the kernel's types from {} (CONFIG_DEBUG_INFO_BTF)",
        cachewise_units::escaped(path)
    )]
    KernelTypes {
        /// The searched path.
        path: std::path::PathBuf,
        /// The error of the kernel.
        source: std::io::Error,
    },
    /// A map of the attached probe could not be read or written.
    #[error("cannot {operation}")]
    Map {
        /// The operation.
        operation: &'static str,
        /// The error of libbpf.
        source: BpfError,
    },
    /// A loaded program could not be run.
    #[error("cannot run the program that is to {operation}")]
    Run {
        /// The purpose of the program.
        operation: &'static str,
        /// The error of libbpf.
        source: BpfError,
    },
    /// A walk over the kernel's inodes made no progress.
    #[error("the census makes no progress: the ring of its records is full and empty at once")]
    Stuck,
    /// The kernel's structures do not have the shape that this crate was built with.
    #[error(
        "the probe's {what} has {found} bytes where {expected} are needed: this is a bug in cachewise"
    )]
    Shape {
        /// The structure.
        what: &'static str,
        /// Its size in bytes.
        found: usize,
        /// The expected size in bytes.
        expected: usize,
    },
    /// More files than a probe can watch.
    #[error("cannot watch {0} files: the maximum is {max}", max = crate::Options::MAX_FILES)]
    TooManyFiles(usize),
    /// Process ids in /proc are not those of this process's PID namespace.
    #[error(
        "/proc is that of another PID namespace than this process's, so that a process id means two \
         things: mount one over it (mount -t proc proc /proc, or unshare --mount-proc)"
    )]
    PidNamespace,
    /// No such process.
    #[error("process {0} does not exist")]
    NoProcess(u32),
    /// No memory for a file in memory, or no descriptor for it.
    #[error("cannot hand the kernel's types to libbpf")]
    Memory(#[source] std::io::Error),
    /// A thread could not be started.
    #[error("cannot start the thread that collects file names")]
    Thread(#[source] std::io::Error),
}

impl Error {
    /// The kind of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Refused { source, .. } => match source.0.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => ErrorKind::Denied,
                libbpf_rs::ErrorKind::NotFound
                | libbpf_rs::ErrorKind::InvalidInput
                | libbpf_rs::ErrorKind::Unsupported => ErrorKind::Unsupported,
                _ => ErrorKind::Other,
            },
            Error::TooManyFiles(_) | Error::NoProcess(_) => ErrorKind::Invalid,
            Error::PidNamespace | Error::NoBackEnd | Error::NoUses | Error::KernelTypes { .. } => {
                ErrorKind::Unsupported
            }
            Error::Map { .. }
            | Error::Run { .. }
            | Error::Stuck
            | Error::Shape { .. }
            | Error::Memory(_)
            | Error::Thread(_) => ErrorKind::Other,
        }
    }

    /// Returns whether bpf(2) is not available at all: this kernel lacks it (`CONFIG_BPF_SYSCALL`), or a seccomp filter
    /// refuses it.
    #[must_use]
    pub fn lacks_bpf(&self) -> bool {
        match self {
            Error::Refused { source, .. }
            | Error::Map { source, .. }
            | Error::Run { source, .. } => source.0.kind() == libbpf_rs::ErrorKind::Unsupported,
            _ => false,
        }
    }

    /// Whether the kernel had no memory for tables or programs: the machine's is short, or the control group's, to which
    /// they are charged.
    #[must_use]
    pub fn lacks_memory(&self) -> bool {
        matches!(self, Error::Refused { source, .. } if source.0.kind() == libbpf_rs::ErrorKind::OutOfMemory)
    }
}
