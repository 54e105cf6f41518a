//! Checks of a [`Workload`] that need neither machine nor file.

use std::time::Duration;

use cachewise_units::Bytes;

use super::{Engine, Fill, Workload};
use crate::Error;

/// More threads only wait for each other.
const MOST_THREADS: usize = 256;

/// The kernel's maximum for a ring.
const MOST_DEPTH: u32 = 32_768;

/// A chunk is held in memory, once per request in flight.
const LARGEST_CHUNK: Bytes = Bytes(1 << 30);

/// Longer than any useful measurement, and near the limit of clocks.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Memory of a measurement without its buffers: with less the kernel would kill it before it can
/// report.
const OWN_MEMORY: Bytes = Bytes(16 << 20);

impl Workload {
    /// Checks everything that does not depend on the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting, the fault, and a valid form.
    pub fn check(&self) -> Result<(), Error> {
        self.check_sizes()?;
        self.check_times()?;
        self.check_requests()?;
        self.check_memory()?;
        if self.file.as_os_str().is_empty() {
            return wrong("file", "none is given: name the one to be read");
        }
        if self.engine == Engine::Write && self.fill == Fill::Write {
            return wrong(
                "fill",
                "`write` fills a file for reading, and this one is written anyway",
            );
        }
        if let Some(bloat) = &self.bloat {
            bloat.check()?;
        }
        self.access.check()
    }

    fn check_sizes(&self) -> Result<(), Error> {
        if self.chunk.is_zero() {
            return wrong("chunk", "it is 0: use for example 64K");
        }
        if self.chunk > LARGEST_CHUNK {
            let chunk = self.chunk;
            return wrong(
                "chunk",
                format!("{chunk} is more than {LARGEST_CHUNK}, which is the most"),
            );
        }
        if self.size == Some(Bytes::ZERO) {
            return wrong("size", "a file of no bytes cannot be read");
        }
        if self.bytes == Some(Bytes::ZERO) {
            return wrong("bytes", "it is 0: nothing would be measured");
        }
        if self.compress_pct > 100 {
            let pct = self.compress_pct;
            return wrong("compress-pct", format!("{pct} % is more than all"));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Error> {
        if self.seconds == Some(Duration::ZERO) {
            return wrong("seconds", "it is 0: nothing would be measured");
        }
        if self.bytes.is_none() && self.seconds.is_none() {
            return wrong(
                "bytes",
                "neither bytes nor time are set: it would never end",
            );
        }
        if self.interval.is_zero() {
            return wrong("interval", "it is 0: rows would never end");
        }
        let times = [
            ("seconds", self.seconds.unwrap_or_default()),
            ("warm-up", self.warm_up),
            ("interval", self.interval),
        ];
        match times.into_iter().find(|(_, time)| *time > LONGEST) {
            Some((what, time)) => {
                wrong(what, format!("{} s is longer than a year", time.as_secs()))
            }
            None => Ok(()),
        }
    }

    fn check_requests(&self) -> Result<(), Error> {
        let (threads, depth, engine) = (self.threads, self.depth, self.engine);
        if threads == 0 || threads > MOST_THREADS {
            return wrong(
                "threads",
                format!("{threads} is not from 1 to {MOST_THREADS}"),
            );
        }
        if depth == 0 || depth > MOST_DEPTH {
            return wrong("depth", format!("{depth} is not from 1 to {MOST_DEPTH}"));
        }
        if depth > 1 && engine != Engine::IoUring {
            return wrong(
                "depth",
                format!("only io_uring has several requests in flight, not {engine}"),
            );
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), Error> {
        let Some(max) = self.memory_max else {
            if self.swap_max.is_some() {
                return wrong(
                    "swap-max",
                    "without memory-max there is no control group to set it on",
                );
            }
            if self.memory_high.is_some() || self.swappiness.is_some() {
                return wrong(
                    "memory-high, swappiness",
                    "without memory-max there is no control group to set them on",
                );
            }
            return Ok(());
        };
        let least = Bytes(OWN_MEMORY.0.saturating_add(self.buffers().0));
        if max < least {
            return wrong(
                "memory-max",
                format!(
                    "{max} is less than the {least} that the measurement itself needs: the kernel would kill it before there is a \
                     figure"
                ),
            );
        }
        if self.swappiness.is_some_and(|swappiness| swappiness > 200) {
            return wrong("swappiness", "it must be a whole number from 0 to 200");
        }
        Ok(())
    }

    /// Memory of all threads' buffers, one per request in flight.
    pub(crate) fn buffers(&self) -> Bytes {
        if self.engine == Engine::MmapTouch {
            return Bytes::ZERO;
        }
        let each = match self.engine {
            Engine::IoUring => self.chunk.0,
            _ => crate::engine::Buffer::only_takes(self.chunk.0),
        };
        let buffers = u64::from(self.depth).saturating_mul(self.threads as u64);
        Bytes(each.saturating_mul(buffers))
    }
}

fn wrong(what: &'static str, why: impl Into<String>) -> Result<(), Error> {
    let why = why.into();
    Err(Error::Invalid { what, why })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{Access, Bloat};

    fn usual() -> Workload {
        Workload {
            file: "/data".into(),
            bytes: Some(Bytes(1 << 20)),
            ..Workload::default()
        }
    }

    #[test]
    fn default_workload_is_valid() {
        usual().check().unwrap();
    }

    #[test]
    fn check_names_each_invalid_setting() {
        type Change<'a> = &'a dyn Fn(&mut Workload);
        let bloat = |bloat: Bloat| move |w: &mut Workload| w.bloat = Some(bloat);
        let taken = Bloat::of_size(Bytes(1));
        let cases: [(&str, Change<'_>); 28] = [
            ("file", &|w| w.file = PathBuf::new()),
            ("chunk", &|w| w.chunk = Bytes::ZERO),
            ("chunk", &|w| w.chunk = Bytes(1 << 40)),
            ("size", &|w| w.size = Some(Bytes::ZERO)),
            ("bytes", &|w| w.bytes = Some(Bytes::ZERO)),
            ("bytes", &|w| w.bytes = None),
            ("seconds", &|w| w.seconds = Some(Duration::ZERO)),
            ("seconds", &|w| w.seconds = Some(Duration::MAX)),
            ("warm-up", &|w| w.warm_up = Duration::MAX),
            ("interval", &|w| w.interval = Duration::ZERO),
            ("interval", &|w| w.interval = Duration::MAX),
            ("threads", &|w| w.threads = 0),
            ("threads", &|w| w.threads = usize::MAX),
            ("depth", &|w| w.depth = 0),
            ("depth", &|w| w.depth = 8),
            ("compress-pct", &|w| w.compress_pct = 101),
            ("swap-max", &|w| w.swap_max = Some(Bytes(1))),
            ("memory-high", &|w| w.memory_high = Some(Bytes(1))),
            ("memory-max", &|w| w.memory_max = Some(Bytes::ZERO)),
            ("memory-max", &|w| w.memory_max = Some(Bytes(4096))),
            ("memory-max", &|w| {
                (w.memory_max, w.threads) = (Some(Bytes(64 << 20)), 64);
                w.chunk = Bytes(1 << 20);
            }),
            ("swappiness", &|w| {
                (w.memory_max, w.swappiness) = (Some(Bytes(1 << 30)), Some(201));
            }),
            ("bloat", &bloat(Bloat::of_size(Bytes::ZERO))),
            ("bloat", &bloat(Bloat::of_size(Bytes(u64::MAX)))),
            ("bloat-rate", &|w| {
                w.bloat = Some(Bloat {
                    rate: Some(Bytes::ZERO),
                    ..taken
                });
            }),
            ("bloat-touch", &|w| {
                w.bloat = Some(Bloat {
                    touch: 101,
                    ..taken
                })
            }),
            ("bloat-oom-score-adj", &|w| {
                w.bloat = Some(Bloat {
                    oom_score_adj: 1001,
                    ..taken
                })
            }),
            ("access", &|w| w.access = Access::Zipf(f64::NAN)),
        ];
        for (what, change) in cases {
            let mut workload = usual();
            change(&mut workload);
            let error = workload.check().unwrap_err().to_string();
            assert!(error.starts_with(what), "{what} is named: {error}");
        }
    }

    #[test]
    fn workload_round_trips_through_json() {
        let workload = Workload {
            access: Access::Hot {
                accesses: 90.0,
                of_file: 10.0,
            },
            engine: Engine::IoUring,
            seconds: Some(Duration::from_millis(2500)),
            bloat: Some(Bloat::of_size(Bytes(300 << 20))),
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
    fn unknown_keys_and_invalid_values_are_refused() {
        for (text, why) in [
            (r#"{"flie":"/data"}"#, "unknown field `flie`"),
            (r#"{"chunk":-1}"#, "negative"),
            (r#"{"chunk":"64KB"}"#, "64KiB"),
            (r#"{"engine":"mmap"}"#, "unknown variant `mmap`"),
            (r#"{"access":"zipf:x"}"#, "zipf"),
            (r#"{"time":-1.0}"#, "not a time in seconds"),
            (r#"{"time":1e300}"#, "not a time in seconds"),
            (r#"{"bytes":1.5}"#, "1.5 is not a size"),
            (r#"{"bytes":true}"#, "text with a unit"),
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
