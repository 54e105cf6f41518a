//! A run under valgrind's callgrind, with this machine's caches.
//!
//! By default callgrind reads CPUID, which in virtual machines has the numbers of the host, so the geometry is passed to
//! it. It simulates two levels, the first and the last, without prefetching and address translation, and runs one thread
//! at a time.

use std::ffi::OsString;
use std::path::PathBuf;

use super::Profile;
use crate::{Cache, CacheKind, Error, Topology};

/// With `--cacheuse=yes` callgrind 3.19 takes an empty entry of a cache for one of tag 0, which addresses below the size of a
/// way have: the first touch of each line there counts as a hit. It loads position-independent programs at 1 MiB and
/// 32 KiB, so that no program has memory below 1 MiB.
const LARGEST_WAY: u64 = 1 << 20;

/// A cache in callgrind's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// In bytes.
    pub size: u64,
    /// Ways.
    pub ways: u64,
    /// In bytes.
    pub line: u64,
}

impl Geometry {
    /// That of a cache, as far as it can be simulated: the number of sets has to be a power of two, so for others
    /// there are fewer sets with more ways, and the same size.
    #[must_use]
    pub fn from_cache(cache: &Cache) -> Option<Geometry> {
        let (size, ways, line) = (cache.size?.0, u64::from(cache.ways?), cache.line?.0);
        let sets = size.checked_div(line.checked_mul(ways)?)?;
        if sets == 0 || !line.is_power_of_two() {
            return None;
        }
        let sets = 1 << sets.ilog2();
        let ways = size / (line * sets);
        Some(Geometry {
            size: sets * ways * line,
            ways,
            line,
        })
    }

    /// The same size with ways of at most [`LARGEST_WAY`], so that there may be more of them.
    #[must_use]
    fn with_small_ways(self) -> Geometry {
        let mut ways = self.ways;
        while self.size / ways > LARGEST_WAY {
            ways *= 2;
        }
        Geometry { ways, ..self }
    }

    fn option(&self, name: &str) -> OsString {
        format!("--{name}={},{},{}", self.size, self.ways, self.line).into()
    }
}

/// A program to be run under callgrind.
#[derive(Debug)]
pub struct Simulation {
    /// The command line.
    pub command: Vec<OsString>,
    /// The simulated caches: first-level data and instructions, last level. `None`, if sysfs has no size: callgrind
    /// guesses.
    pub caches: [Option<Geometry>; 3],
    place: tempfile::TempDir,
}

impl Simulation {
    /// Prepares it; `valgrind` is where that was found.
    ///
    /// # Errors
    /// If there is no place for what callgrind writes.
    pub fn for_program(
        topology: &Topology,
        valgrind: &std::path::Path,
        program: &[OsString],
    ) -> Result<Simulation, Error> {
        let place = tempfile::Builder::new()
            .prefix("cachewise-")
            .tempdir()
            .map_err(Error::io("make a directory in", std::env::temp_dir()))?;
        let first = |kind: CacheKind| {
            let caches = topology.caches.iter();
            let mut caches = caches.filter(|cache| cache.level == 1);
            let found = caches.find(|cache| cache.kind == kind || cache.kind == CacheKind::Unified);
            found.and_then(Geometry::from_cache)
        };
        let last = topology.caches.iter().filter(|cache| cache.level > 1);
        let last = last
            .max_by_key(|cache| cache.level)
            .and_then(Geometry::from_cache);
        let last = last.map(Geometry::with_small_ways);
        let caches = [first(CacheKind::Data), first(CacheKind::Instruction), last];
        let mut command: Vec<OsString> = vec!["env".into(), godebug(), valgrind.into()];
        command.extend(
            [
                "--tool=callgrind",
                // A script or a wrapper is rarely what is wanted, but what it starts.
                "--trace-children=yes",
                "--cache-sim=yes",
                "--branch-sim=yes",
                "--cacheuse=yes",
                "--dump-instr=yes",
                "--compress-strings=yes",
            ]
            .map(OsString::from),
        );
        for (name, cache) in ["D1", "I1", "LL"].iter().zip(&caches) {
            command.extend(cache.map(|cache| cache.option(name)));
        }
        // Child processes write files of their own, and messages of valgrind do not mix with the
        // program's output.
        let named = |option: &str, file: &str| {
            let mut text = OsString::from(option);
            text.push(place.path().join(file));
            text
        };
        command.push(named("--callgrind-out-file=", "out.%p"));
        command.push(named("--log-file=", "log.%p"));
        command.extend(program.iter().cloned());
        Ok(Simulation {
            command,
            caches,
            place,
        })
    }

    /// Returns the profile of the program and its child processes, after the run.
    ///
    /// # Errors
    /// Callgrind wrote nothing, with its message; or the output has an unknown form.
    pub fn profile(&self) -> Result<Profile, Error> {
        let mut profile = Profile::default();
        let mut found = false;
        for path in self.files("out.")? {
            // One that was killed while it wrote has nothing in it.
            if path.metadata().is_ok_and(|file| file.len() > 0) {
                profile.read(&path)?;
                found = true;
            }
        }
        if found {
            return Ok(profile);
        }
        Err(Error::NotSimulated(self.said()))
    }

    fn files(&self, prefix: &str) -> Result<Vec<PathBuf>, Error> {
        let place = self.place.path();
        let entries = std::fs::read_dir(place).map_err(Error::io("list", place))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.retain(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        });
        files.sort();
        Ok(files)
    }

    /// Returns the message of valgrind that may be the reason.
    fn said(&self) -> String {
        let logs = self.files("log.").unwrap_or_default();
        let text = logs
            .iter()
            .filter_map(|log| std::fs::read_to_string(log).ok());
        let text: String = text.collect();
        let lines = text.lines().map(|line| line.trim_start_matches(['=', '-']));
        let lines = lines.map(|line| line.trim_start_matches(|c: char| c.is_ascii_digit()));
        let lines = lines.map(|line| line.trim_start_matches(['=', '-']).trim());
        let is_reason = |line: &&str| {
            ["rror", "annot", "ailed", "signal", "ermission", "wrong"]
                .iter()
                .any(|word| line.contains(word))
        };
        match lines.clone().find(is_reason) {
            Some(line) => line.to_owned(),
            None => {
                "it says nothing of why: is the program for another architecture, or was it killed?"
                    .into()
            }
        }
    }
}

/// The value of GODEBUG that keeps Go from interrupting its threads by signals, on which valgrind 3.19 fails an assertion;
/// appended to the present value. A setting of the user is kept.
fn godebug() -> OsString {
    const OFF: &str = "asyncpreemptoff=";
    let mut text = OsString::from("GODEBUG=");
    let before = std::env::var_os("GODEBUG").unwrap_or_default();
    let is_chosen = before.to_string_lossy().contains(OFF);
    let is_empty = before.is_empty();
    text.push(before);
    if !is_chosen {
        text.push(if is_empty { "" } else { "," });
        text.push(OFF);
        text.push("1");
    }
    text
}

#[cfg(test)]
mod tests {
    use cachewise_units::Bytes;

    use super::*;
    use crate::CpuList;

    fn cache(size: u64, ways: u32) -> Cache {
        Cache {
            level: 3,
            kind: CacheKind::Unified,
            size: Some(Bytes(size)),
            line: Some(Bytes(64)),
            ways: Some(ways),
            sets: None,
            cpus: CpuList::new([0]),
        }
    }

    #[test]
    fn caches_keep_their_size() {
        let plain = Geometry::from_cache(&cache(48 << 10, 12)).unwrap();
        assert_eq!(
            (plain.size, plain.ways, plain.line),
            (48 << 10, 12, 64),
            "64 sets"
        );
        // 24,576 sets: an Intel last level.
        let odd = Geometry::from_cache(&cache(30 << 20, 20)).unwrap();
        assert_eq!(odd.size, 30 << 20, "all of it");
        assert!(
            (odd.size / odd.ways / odd.line).is_power_of_two(),
            "{odd:?}"
        );
        assert_eq!(
            Geometry::from_cache(&cache(0, 8)),
            None,
            "nothing is no cache"
        );
    }

    #[test]
    fn ways_of_the_last_level_are_at_most_a_mebibyte() {
        for (size, ways, expected) in [
            (32 << 20, 16, 32),
            (30 << 20, 20, 30),
            (8 << 20, 16, 16),
            (384 << 20, 16, 384),
        ] {
            let plain = Geometry::from_cache(&cache(size, ways)).expect("a cache");
            let small = plain.with_small_ways();
            assert_eq!(
                (small.size, small.ways),
                (plain.size, expected),
                "{plain:?}"
            );
            assert!(small.size / small.ways <= LARGEST_WAY, "{small:?}");
        }
    }
}
