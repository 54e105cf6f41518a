//! What is chosen by a word: [`Engine`], [`Fill`], [`Advice`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A list of words, each with the value that it stands for.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $noun:literal, { $($(#[$help:meta])* $value:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$help])* #[serde(rename = $word)] $value,)+
        }

        impl $name {
            /// Every one, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$value),+];

            /// The word for it.
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
    /// By which system calls the file is read or written.
    Engine, "engine", {
        /// pread(2), one after the other.
        Pread = "pread",
        /// preadv2(2) with `RWF_NOWAIT`, which takes only what is in the page cache; where that is not all, pread(2)
        /// for the rest. So the kernel says of each operation whether it had to wait. As the first call starts the read of
        /// what is missing, and a device may be done before the kernel looks again, cachestat(2) is asked before, outside of
        /// the operation's time, where there is one (Linux 6.5).
        Nowait = "nowait",
        /// A shared mapping, of which each chunk is copied.
        MmapCopy = "mmap-copy",
        /// A shared mapping, of which one byte of each page is read.
        MmapTouch = "mmap-touch",
        /// pread(2) of a file opened with `O_DIRECT`: around the page cache.
        Direct = "direct",
        /// pwrite(2) through the page cache.
        Write = "write",
        /// io_uring: first with `RWF_NOWAIT`, then as it comes; `depth` requests at a time.
        IoUring = "io-uring",
    }
}

words! {
    /// What of the file is in the page cache when the measurement begins. How it came there decides how large its folios are,
    /// and by that the speed of what is cached, by a factor of 3.
    Fill, "fill", {
        /// Whatever is there.
        AsFound = "as-found",
        /// Nothing: it is evicted, and looked at whether it went.
        Cold = "cold",
        /// What is there, and then it is read from its beginning to its end, as cache-bench does.
        Preread = "preread",
        /// Evicted, then read from its beginning to its end: large folios.
        Sequential = "sequential",
        /// Evicted, then every page read, in random order, without read-ahead: folios of one page.
        Random = "random",
        /// Written anew, so it is what writing left; only of a file that is made by `size`.
        Write = "write",
    }
}

words! {
    /// What the kernel is told of the places (fadvise and madvise).
    Advice, "advice", {
        /// Nothing.
        Normal = "normal",
        /// That they are random: no read-ahead, nor read-around of page faults.
        Random = "random",
        /// That they follow each other: twice the read-ahead.
        Sequential = "sequential",
    }
}

impl Engine {
    /// Whether it reads through the page cache, so that there are hits and misses.
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
