//! Settings that are chosen by a word: [`Engine`], [`Fill`], [`Advice`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Defines an enum whose values have words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $noun:literal, { $($(#[$help:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$help])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The word of the value.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $($name::$value => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $name::ALL.iter().copied().find(|one| one.word() == text).ok_or_else(|| {
                    let all: Vec<&str> = $name::ALL.iter().map(|one| one.word()).collect();
                    format!("no {} {text:?}; there are {}", $noun, all.join(", "))
                })
            }
        }
    };
}

words! {
    /// System calls that read or write the file.
    Engine, "engine", {
        /// pread(2).
        Pread = "pread",
        /// preadv2(2) with `RWF_NOWAIT`, which returns only cached bytes; if they are not all,
        /// pread(2) for the rest. So the kernel reports whether each operation waited. The first
        /// call also starts the read of missing pages, and a device may finish before the kernel
        /// looks again: therefore cachestat(2) (Linux 6.5) runs before it, outside of the
        /// operation's latency.
        Nowait = "nowait",
        /// A shared mapping, from which each chunk is copied.
        MmapCopy = "mmap-copy",
        /// A shared mapping, in which one byte of each page is read.
        MmapTouch = "mmap-touch",
        /// pread(2) of a file opened with `O_DIRECT`: bypasses the page cache.
        Direct = "direct",
        /// pwrite(2) through the page cache.
        Write = "write",
        /// io_uring: first with `RWF_NOWAIT`, then without; `depth` requests in flight.
        IoUring = "io-uring",
    }
}

words! {
    /// State of the page cache at the start. The way to reach it decides the size of the file's
    /// folios, which changes the speed of cached reads by a factor of 3.
    Fill, "fill", {
        /// Unchanged.
        AsFound = "as-found",
        /// Evicted, and verified.
        Cold = "cold",
        /// Unchanged, then read in order, as in cache-bench.
        Preread = "preread",
        /// Evicted, then read in order: large folios.
        Sequential = "sequential",
        /// Evicted, then every page read in random order without readahead: folios of one page.
        Random = "random",
        /// Written anew: the state after writing; only for a file made by `size`.
        Write = "write",
    }
}

words! {
    /// Access advice for the kernel (fadvise and madvise).
    Advice, "advice", {
        /// None.
        Normal = "normal",
        /// Random: no readahead, no read-around of page faults.
        Random = "random",
        /// Sequential: twice the readahead.
        Sequential = "sequential",
    }
}

impl Engine {
    /// Whether it reads through the page cache, with hits and misses.
    #[must_use]
    pub const fn is_cached_read(self) -> bool {
        !matches!(self, Engine::Direct | Engine::Write)
    }

    /// Whether it reads mapped memory.
    #[must_use]
    pub const fn is_mapped(self) -> bool {
        matches!(self, Engine::MmapCopy | Engine::MmapTouch)
    }
}
