//! Operations of programs: the calls, their arguments, and the bits of io_uring's requests.

use std::fmt;

use crate::partial::HALF_BYTES;

/// Bits of [`Argument::Flags`].
pub mod flags {
    /// By a worker thread of io_uring.
    pub const ASYNC: u64 = 1;
    /// The next request begins when this one has ended, if it was not short.
    pub const LINK: u64 = 2;
    /// Into or from memory that is registered.
    pub const FIXED: u64 = 4;
    /// With O_DIRECT.
    pub const DIRECT: u64 = 8;
    /// Into or from pieces of memory.
    pub const PIECES: u64 = 16;
    /// All of them.
    pub const ALL: u64 = 31;
}

/// The most requests of one `uring-enter`.
pub const RING_ENTRIES: u32 = 16;

/// Bytes of memory that each request of a ring has.
pub const SLOT_BYTES: u64 = HALF_BYTES / RING_ENTRIES as u64;

/// A result as the kernel gives it: bytes, or an error's number below 0.
pub type Outcome = i64;

/// The kinds of arguments, for making and shrinking them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Number of a file.
    File,
    /// Byte in a file.
    Offset,
    /// Bytes of a request.
    Length,
    /// Bytes of the request for which there is memory, or room.
    Good,
    /// Pieces of memory.
    Pieces,
    /// Number of a page of a file.
    Page,
    /// Bits, see [`flags`].
    Flags,
    /// Size of a file.
    Size,
}

macro_rules! calls {
    ($($variant:ident $name:literal [$($argument:ident)*] $help:literal;)+) => {
        /// An operation's kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Call {
            $(#[doc = $help] $variant,)+
        }

        impl Call {
            /// All of them.
            pub const ALL: &'static [Call] = &[$(Call::$variant),+];

            /// The word in a program's text.
            pub fn name(self) -> &'static str {
                match self { $(Call::$variant => $name,)+ }
            }

            /// The arguments that follow it.
            pub fn arguments(self) -> &'static [Argument] {
                match self { $(Call::$variant => &[$(Argument::$argument),*],)+ }
            }
        }
    };
}

calls! {
    Read "read" [File Offset Length] "lseek(2) and read(2).";
    Pread "pread" [File Offset Length] "pread(2).";
    Preadv "preadv" [File Offset Length Pieces] "preadv(2) into pieces of equal length, together `Length`.";
    NoWait "preadv2-nowait" [File Offset Length] "preadv2(2) with RWF_NOWAIT.";
    DontCache "preadv2-dontcache" [File Offset Length] "preadv2(2) with RWF_DONTCACHE.";
    BadRead "pread-bad" [File Offset Length Good] "pread(2) into memory that ends after `Good` bytes.";
    Sendfile "sendfile" [File Offset Length] "sendfile(2) to /dev/null.";
    SendSocket "sendfile-socket" [File Offset Length] "sendfile(2) to a socket that nothing is read from.";
    Splice "splice" [File Offset Length] "splice(2) into a pipe.";
    Write "write" [File Offset Length] "lseek(2) and write(2).";
    Pwrite "pwrite" [File Offset Length] "pwrite(2).";
    Pwritev "pwritev" [File Offset Length Pieces] "pwritev(2) from pieces of memory that was not touched before.";
    Append "append" [File Length] "write(2) with O_APPEND.";
    BadWrite "pwrite-bad" [File Offset Length Good] "pwrite(2) from memory that ends after `Good` bytes.";
    LimitedWrite "pwrite-limited" [File Offset Length Good] "pwrite(2) with RLIMIT_FSIZE `Good` bytes behind its offset.";
    SpliceIn "splice-in" [File Offset Length] "splice(2) from a pipe into the file.";
    Copy "copy" [File Offset Length File Offset] "copy_file_range(2), from the first file into the second.";
    Touch "touch" [File Page] "Reads a byte of a page of a new mapping.";
    Store "store" [File Page] "Writes a byte of a page of a new, shared mapping.";
    Madvise "madvise" [File Offset Length] "madvise(2) WILLNEED on a new mapping.";
    WillNeed "fadvise-willneed" [File Offset Length] "posix_fadvise(2) WILLNEED.";
    DontNeed "fadvise-dontneed" [File Offset Length] "posix_fadvise(2) DONTNEED.";
    Random "fadvise-random" [File] "posix_fadvise(2) RANDOM: no readahead from here on.";
    Normal "fadvise-normal" [File] "posix_fadvise(2) NORMAL.";
    Readahead "readahead" [File Offset Length] "readahead(2).";
    DirectRead "direct-read" [File Offset Length] "pread(2) with O_DIRECT.";
    DirectWrite "direct-write" [File Offset Length] "pwrite(2) with O_DIRECT.";
    AioRead "aio-read" [File Offset Length] "io_submit(2) of a read.";
    AioWrite "aio-write" [File Offset Length] "io_submit(2) of a write.";
    UringRead "uring-read" [File Offset Length Flags] "An io_uring read, put in the queue.";
    UringWrite "uring-write" [File Offset Length Flags] "An io_uring write, put in the queue.";
    UringEnter "uring-enter" [] "Submits the queue and waits for all of it.";
    Truncate "truncate" [File Size] "ftruncate(2).";
    Punch "punch" [File Offset Length] "fallocate(2) PUNCH_HOLE.";
    Allocate "allocate" [File Offset Length] "fallocate(2), the size kept.";
    Fsync "fsync" [File] "fsync(2).";
    Unlink "unlink" [File] "unlink(2): the file stays open.";
    Rename "rename" [File] "rename(2).";
    Fill "fill" [Size] "Fills the file system but for so many bytes.";
}

impl Call {
    /// Whether it reads through the cache.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            Call::Read
                | Call::Pread
                | Call::Preadv
                | Call::NoWait
                | Call::DontCache
                | Call::BadRead
                | Call::Sendfile
                | Call::SendSocket
                | Call::Splice
                | Call::AioRead
                | Call::Copy
        )
    }
}

impl Call {
    /// Whether it changes no file, so that all that it has storage read is what it inserts.
    pub fn only_reads(self) -> bool {
        matches!(
            self,
            Call::Read
                | Call::Pread
                | Call::Preadv
                | Call::NoWait
                | Call::Sendfile
                | Call::Splice
                | Call::AioRead
                | Call::Touch
                | Call::Madvise
                | Call::WillNeed
                | Call::DontNeed
                | Call::Random
                | Call::Normal
                | Call::Readahead
                | Call::DirectRead
                | Call::UringRead
                | Call::UringEnter
        )
    }

    /// Whether it takes pages away from a file, or writes them anew, so that the kernel forgets that they were reclaimed.
    pub fn cuts(self) -> bool {
        self.writes()
            || matches!(
                self,
                Call::Copy | Call::Store | Call::Truncate | Call::Punch
            )
    }

    /// Whether it writes to its first file.
    pub fn writes(self) -> bool {
        matches!(
            self,
            Call::Write
                | Call::Pwrite
                | Call::Pwritev
                | Call::Append
                | Call::BadWrite
                | Call::LimitedWrite
                | Call::SpliceIn
                | Call::DirectWrite
                | Call::AioWrite
                | Call::UringWrite
        )
    }

    /// Whether the kernel adds the bytes that it moves to the account of the task: read, written.
    pub fn is_accounted(self) -> (bool, bool) {
        let read = matches!(
            self,
            Call::Read
                | Call::Pread
                | Call::Preadv
                | Call::NoWait
                | Call::DontCache
                | Call::BadRead
                | Call::DirectRead
        );
        let write = matches!(
            self,
            Call::Write
                | Call::Pwrite
                | Call::Pwritev
                | Call::Append
                | Call::BadWrite
                | Call::LimitedWrite
                | Call::DirectWrite
        );
        let both = matches!(self, Call::Sendfile | Call::SendSocket | Call::Copy);
        (read || both, write || both)
    }
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its kind.
    pub call: Call,
    /// Their number is that of [`Call::arguments`].
    pub numbers: Vec<u64>,
}

impl Operation {
    /// The first argument of a kind; 0 if it has none.
    pub fn get(&self, wanted: Argument) -> u64 {
        self.all(wanted).next().unwrap_or(0)
    }

    /// The arguments of a kind.
    pub fn all(&self, wanted: Argument) -> impl Iterator<Item = u64> {
        let arguments = self.call.arguments().iter().zip(&self.numbers);
        arguments.filter_map(move |(argument, number)| (*argument == wanted).then_some(*number))
    }

    /// The bytes that it asks for: no more than a task has memory for.
    pub fn length(&self) -> u64 {
        let most = match self.call {
            Call::UringRead | Call::UringWrite => SLOT_BYTES,
            _ => HALF_BYTES,
        };
        self.get(Argument::Length).min(most)
    }

    /// With O_DIRECT.
    pub fn is_direct(&self) -> bool {
        matches!(self.call, Call::DirectRead | Call::DirectWrite)
            || self.get(Argument::Flags) & flags::DIRECT != 0
    }

    /// The files that it works on, by their numbers.
    pub fn files(&self) -> impl Iterator<Item = usize> {
        self.all(Argument::File).map(|number| number as usize)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.call.name())?;
        self.numbers
            .iter()
            .try_for_each(|number| write!(formatter, " {number}"))
    }
}
