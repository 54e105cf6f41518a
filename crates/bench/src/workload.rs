//! [`Workload`]: what is to be done to which file, in values that can be kept and compared.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use cachewise_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Access, Error};

/// What is to be measured. [`run`](crate::run()) checks it as a whole.
///
/// Sizes are read as whole numbers of bytes or as text (`"64K"`), times as seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// The file, or block device, that is read or written.
    pub file: PathBuf,
    /// Makes the file, of this size, where it is not there; removed again by [`Made`](crate::Made) unless kept.
    #[serde(with = "optional_size")]
    pub size: Option<Bytes>,
    /// By which system calls.
    pub engine: Engine,
    /// How much at a time.
    #[serde(with = "size")]
    pub chunk: Bytes,
    /// Which places.
    pub access: Access,
    /// Whether each operation begins at a multiple of the chunk, as with real programs' blocks; `false` begins it at
    /// any byte, as cache-bench does, so that 4 KiB are of two pages.
    pub aligned: bool,
    /// Decides the places: the same ones with the same seed.
    pub seed: u64,
    /// Ends after so many useful bytes, those of all threads together.
    #[serde(with = "optional_size")]
    pub bytes: Option<Bytes>,
    /// Ends after so long.
    #[serde(with = "optional_seconds")]
    pub time: Option<Duration>,
    /// Works for so long before it begins to count.
    #[serde(with = "seconds")]
    pub warm_up: Duration,
    /// How many threads.
    pub threads: usize,
    /// With io_uring: how many requests of a thread are under way at a time.
    pub depth: u32,
    /// What of the file is to be in the page cache when it begins, and how that came there.
    pub fill: Fill,
    /// What a file that is made holds: so much of it can be compressed away, in per cent.
    pub compress_pct: u8,
    /// What the kernel is told of the places.
    pub advice: Advice,
    /// Lets [`Engine::Write`] change a file that is there already, whose contents are lost.
    pub overwrite: bool,
    /// Runs in a control group of its own with this limit of memory.
    #[serde(with = "optional_size")]
    pub memory_max: Option<Bytes>,
    /// And this limit of swap beside it.
    #[serde(with = "optional_size")]
    pub swap_max: Option<Bytes>,
    /// And reclaims beyond this (`memory.high`; with version 1 a soft limit).
    #[serde(with = "optional_size")]
    pub memory_high: Option<Bytes>,
    /// And swaps this readily, 0 to 200 (`memory.swappiness`, of version 1 only).
    pub swappiness: Option<u32>,
    /// A process beside it that takes memory.
    pub bloat: Option<Bloat>,
    /// From interval to interval.
    #[serde(with = "seconds")]
    pub interval: Duration,
    /// Whether the time of each operation is taken.
    pub latency: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            file: PathBuf::new(),
            size: None,
            engine: Engine::Pread,
            chunk: Bytes(64 << 10),
            access: Access::Uniform,
            aligned: true,
            seed: 1,
            bytes: None,
            time: None,
            warm_up: Duration::ZERO,
            threads: 1,
            depth: 1,
            fill: Fill::AsFound,
            compress_pct: 0,
            advice: Advice::Normal,
            overwrite: false,
            memory_max: None,
            swap_max: None,
            memory_high: None,
            swappiness: None,
            bloat: None,
            interval: Duration::from_secs(2),
            latency: true,
        }
    }
}

/// More threads than this only wait for each other.
const MOST_THREADS: usize = 256;

/// More requests than the kernel lets a ring have.
const MOST_DEPTH: u32 = 32_768;

/// A chunk is held in memory, once for each request under way.
const LARGEST_CHUNK: Bytes = Bytes(1 << 30);

impl Workload {
    /// Checks all that can be checked without looking at the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting, what is wrong with it, and what to write.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: &'static str, why: String| Err(Error::Invalid { what, why });
        if self.file.as_os_str().is_empty() {
            return wrong("file", "none is given: name the one to be read".into());
        }
        if self.chunk.is_zero() {
            return wrong(
                "chunk",
                "it is 0: nothing is read by reading nothing; 64K is usual".into(),
            );
        }
        if self.chunk > LARGEST_CHUNK {
            let why = format!(
                "{} is more than {LARGEST_CHUNK}, which is the most",
                self.chunk
            );
            return wrong("chunk", why);
        }
        if self.size == Some(Bytes::ZERO) {
            return wrong("size", "a file of no bytes cannot be read".into());
        }
        if self.bytes == Some(Bytes::ZERO) {
            return wrong("bytes", "it is 0: there would be nothing to measure".into());
        }
        if self.time == Some(Duration::ZERO) {
            return wrong("time", "it is 0: there would be nothing to measure".into());
        }
        if self.bytes.is_none() && self.time.is_none() {
            return wrong(
                "bytes",
                "neither bytes nor time are given: it would never end".into(),
            );
        }
        if self.interval.is_zero() {
            return wrong("interval", "it is 0: rows would never end".into());
        }
        if self.threads == 0 || self.threads > MOST_THREADS {
            return wrong(
                "threads",
                format!("{} is not from 1 to {MOST_THREADS}", self.threads),
            );
        }
        if self.depth == 0 || self.depth > MOST_DEPTH {
            return wrong(
                "depth",
                format!("{} is not from 1 to {MOST_DEPTH}", self.depth),
            );
        }
        if self.depth > 1 && self.engine != Engine::IoUring {
            let why = format!(
                "only io_uring has several requests under way, not {}",
                self.engine
            );
            return wrong("depth", why);
        }
        if self.compress_pct > 100 {
            return wrong(
                "compress-pct",
                format!("{} % is more than all", self.compress_pct),
            );
        }
        if self.swap_max.is_some() && self.memory_max.is_none() {
            return wrong(
                "swap-max",
                "without memory-max there is no control group to set it on".into(),
            );
        }
        if self.memory_max.is_none() && (self.memory_high.is_some() || self.swappiness.is_some()) {
            return wrong(
                "memory-high, swappiness",
                "without memory-max there is no control group to set them on".into(),
            );
        }
        if self.swappiness.is_some_and(|swappiness| swappiness > 200) {
            return wrong("swappiness", "it is a whole number from 0 to 200".into());
        }
        if self.memory_max == Some(Bytes::ZERO) {
            return wrong("memory-max", "nothing runs in no memory".into());
        }
        if self.engine == Engine::Write && self.fill == Fill::Write {
            return wrong(
                "fill",
                "`write` fills a file for reading, and this one is written anyway".into(),
            );
        }
        if let Some(bloat) = &self.bloat {
            bloat.check()?;
        }
        self.access.check()
    }
}

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
        /// for the rest. So the kernel says of each operation whether it is a hit or a miss. The first call starts the
        /// read of what is not there, too: where a fast device is done before the kernel looks again, which was 2 of
        /// 1,000 times on a virtual disk, a miss passes for a hit.
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

/// A process that takes memory, so that there is less for the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bloat {
    /// How much it takes in the end.
    #[serde(with = "size")]
    pub size: Bytes,
    /// How much of it a second; all at once, and before it is measured, without it.
    #[serde(with = "optional_size", default)]
    pub rate: Option<Bytes>,
    /// Takes as much as is read, up to its size, as cache-bench does, which keeps what it reads.
    #[serde(default)]
    pub as_read: bool,
    /// Which part of it, from its beginning, is touched again each second, in per cent.
    #[serde(default)]
    pub touch_pct: u8,
    /// Its place in the order in which the kernel kills for want of memory.
    #[serde(default = "first_to_go")]
    pub oom_score_adj: i16,
}

const fn first_to_go() -> i16 {
    1000
}

impl Bloat {
    /// So much at once, never touched again, and the first to be killed.
    #[must_use]
    pub const fn of(size: Bytes) -> Bloat {
        Bloat {
            size,
            rate: None,
            as_read: false,
            touch_pct: 0,
            oom_score_adj: first_to_go(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |what, why: &str| {
            let why = why.to_owned();
            Err(Error::Invalid { what, why })
        };
        if self.size.is_zero() {
            return wrong("bloat", "it is 0: leave it out, and there is none");
        }
        if usize::try_from(self.size.0).is_err() || self.size.0 > 1 << 46 {
            return wrong("bloat", "no process can have so much memory");
        }
        if self.rate == Some(Bytes::ZERO) {
            return wrong("bloat-rate", "at 0 a second it never begins");
        }
        if self.touch_pct > 100 {
            return wrong(
                "bloat-touch",
                "more than 100 % of it is not there to be touched",
            );
        }
        if !(-1000..=1000).contains(&self.oom_score_adj) {
            return wrong("oom-score-adj", "the kernel takes -1000 to 1000");
        }
        Ok(())
    }
}

/// A size as a whole number of bytes; as text too where it is read.
mod size {
    use cachewise_units::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    pub enum Written {
        Number(i64),
        Text(String),
    }

    impl Written {
        pub fn bytes<E: de::Error>(self) -> Result<Bytes, E> {
            match self {
                Written::Number(bytes) => u64::try_from(bytes)
                    .map(Bytes)
                    .map_err(|_| E::custom(format!("{bytes} is negative, and sizes are not"))),
                Written::Text(text) => text.parse().map_err(E::custom),
            }
        }
    }

    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(bytes.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        Written::deserialize(deserializer)?.bytes()
    }
}

mod optional_size {
    use cachewise_units::Bytes;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands it over so")]
    pub fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => serializer.serialize_some(&bytes.0),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Bytes>, D::Error> {
        Option::<super::size::Written>::deserialize(deserializer)?
            .map(super::size::Written::bytes)
            .transpose()
    }
}

/// A time as seconds with a fraction; as text (`"500ms"`) too where it is read.
mod seconds {
    use std::time::Duration;

    use cachewise_units::Interval;
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    pub enum Written {
        Number(f64),
        Text(String),
    }

    impl Written {
        pub fn time<E: de::Error>(self) -> Result<Duration, E> {
            match self {
                Written::Number(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| {
                    E::custom(format!("{seconds} is no time in seconds: {error}"))
                }),
                Written::Text(text) => text.parse().map(Interval::get).map_err(E::custom),
            }
        }
    }

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Written::deserialize(deserializer)?.time()
    }
}

mod optional_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "serde hands it over so")]
    pub fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_some(&time.as_secs_f64()),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<super::seconds::Written>::deserialize(deserializer)?
            .map(super::seconds::Written::time)
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Workload {
        Workload {
            file: "/data".into(),
            bytes: Some(Bytes(1 << 20)),
            ..Workload::default()
        }
    }

    #[test]
    fn what_is_usual_is_in_order() {
        usual().check().unwrap();
    }

    #[test]
    fn each_impossible_setting_is_named() {
        let bloat = |bloat: Bloat| Workload {
            bloat: Some(bloat),
            ..usual()
        };
        for (workload, what) in [
            (
                Workload {
                    file: PathBuf::new(),
                    ..usual()
                },
                "file",
            ),
            (
                Workload {
                    chunk: Bytes::ZERO,
                    ..usual()
                },
                "chunk",
            ),
            (
                Workload {
                    chunk: Bytes(1 << 40),
                    ..usual()
                },
                "chunk",
            ),
            (
                Workload {
                    size: Some(Bytes::ZERO),
                    ..usual()
                },
                "size",
            ),
            (
                Workload {
                    bytes: Some(Bytes::ZERO),
                    ..usual()
                },
                "bytes",
            ),
            (
                Workload {
                    bytes: None,
                    ..usual()
                },
                "bytes",
            ),
            (
                Workload {
                    time: Some(Duration::ZERO),
                    ..usual()
                },
                "time",
            ),
            (
                Workload {
                    interval: Duration::ZERO,
                    ..usual()
                },
                "interval",
            ),
            (
                Workload {
                    threads: 0,
                    ..usual()
                },
                "threads",
            ),
            (
                Workload {
                    depth: 0,
                    ..usual()
                },
                "depth",
            ),
            (
                Workload {
                    depth: 8,
                    ..usual()
                },
                "depth",
            ),
            (
                Workload {
                    compress_pct: 101,
                    ..usual()
                },
                "compress-pct",
            ),
            (
                Workload {
                    swap_max: Some(Bytes(1)),
                    ..usual()
                },
                "swap-max",
            ),
            (
                Workload {
                    memory_high: Some(Bytes(1)),
                    ..usual()
                },
                "memory-high",
            ),
            (
                Workload {
                    memory_max: Some(Bytes(1 << 30)),
                    swappiness: Some(201),
                    ..usual()
                },
                "swappiness",
            ),
            (
                Workload {
                    memory_max: Some(Bytes::ZERO),
                    ..usual()
                },
                "memory-max",
            ),
            (bloat(Bloat::of(Bytes::ZERO)), "bloat"),
            (bloat(Bloat::of(Bytes(u64::MAX))), "bloat"),
            (
                bloat(Bloat {
                    rate: Some(Bytes::ZERO),
                    ..Bloat::of(Bytes(1))
                }),
                "bloat-rate",
            ),
            (
                bloat(Bloat {
                    touch_pct: 101,
                    ..Bloat::of(Bytes(1))
                }),
                "bloat-touch",
            ),
            (
                bloat(Bloat {
                    oom_score_adj: 1001,
                    ..Bloat::of(Bytes(1))
                }),
                "oom-score-adj",
            ),
            (
                Workload {
                    access: Access::Zipf(f64::NAN),
                    ..usual()
                },
                "access",
            ),
        ] {
            let error = workload.check().unwrap_err().to_string();
            assert!(error.starts_with(what), "{what} is named: {error}");
        }
    }

    #[test]
    fn a_workload_survives_being_written_down() {
        let workload = Workload {
            access: Access::Hot {
                accesses: 90.0,
                of_file: 10.0,
            },
            engine: Engine::IoUring,
            time: Some(Duration::from_millis(2500)),
            bloat: Some(Bloat::of(Bytes(300 << 20))),
            ..usual()
        };
        let text = serde_json::to_string(&workload).unwrap();
        assert!(
            text.contains("\"hot:90:10\""),
            "words that people can type: {text}"
        );
        assert_eq!(
            serde_json::from_str::<Workload>(&text).unwrap(),
            workload,
            "there and back"
        );
        let typed = r#"{"file":"/data","chunk":"4K","bytes":"1M","interval":"500ms"}"#;
        let typed: Workload = serde_json::from_str(typed).unwrap();
        assert_eq!(typed.chunk, Bytes(4096), "sizes as people write them");
        assert_eq!(typed.interval, Duration::from_millis(500), "and times");
    }

    #[test]
    fn what_is_unknown_or_impossible_is_refused() {
        for (text, why) in [
            (r#"{"flie":"/data"}"#, "unknown field `flie`"),
            (r#"{"chunk":-1}"#, "negative"),
            (r#"{"chunk":"64KB"}"#, "64KiB"),
            (r#"{"engine":"mmap"}"#, "unknown variant `mmap`"),
            (r#"{"access":"zipf:x"}"#, "zipf"),
            (r#"{"time":-1.0}"#, "no time in seconds"),
        ] {
            let error = serde_json::from_str::<Workload>(text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let error = "dircet".parse::<Engine>().unwrap_err();
        assert!(error.contains("io-uring"), "the choice is shown: {error}");
    }
}
