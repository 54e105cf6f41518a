//! The census: every inode of this machine that has pages in the page cache.
//!
//! A program in the kernel walks the lists of inodes of the super blocks. It therefore finds inodes that no path
//! reaches: closed and deleted files, memfd and shared memory, files of other mount namespaces, inodes of the file
//! systems themselves, block devices. It reads only memory: it opens no file, and changes no access time, page or lock.
//!
//! A census is not a snapshot: each inode is counted as it was when the walk reached it. An inode that exists from the
//! beginning to the end is listed exactly once.
//!
//! ```no_run
//! use cachewise_kstat::Kernel;
//! use cachewise_probe::census::{Census, Options};
//!
//! let mut census = Census::open()?;
//! let report = census.take(&Options::default())?;
//! let kernel = Kernel::new();
//! let mounts = kernel.mounts(None)?;
//! for inode in &report.inodes {
//!     if let Some(path) = inode.path(&kernel, &mounts) {
//!         println!("{:>9} {}", inode.pages, path.display());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kernel
//! Linux 5.17 and later, with BTF; CAP_BPF and CAP_PERFMON. These two capabilities show the names of files in
//! directories and containers that are otherwise closed to the caller.

mod inode;
mod report;
mod skeleton;

use std::time::{Duration, Instant};

use cachewise_kstat::Kernel;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::error::Error;
use crate::kernel_types::KernelTypes;
use crate::loading::{Storage, quietly, run};

pub use inode::{CachedInode, Name};
use report::Receiver;
pub use report::{Missed, Report, Summary, Sums};

use skeleton::{CensusSkel, CensusSkelBuilder, types};

/// Results of a run in the kernel: `enum census_state` in `bpf/census.h`.
mod state {
    pub const DONE: u32 = 0;
    pub const FULL: u32 = 2;
    pub const AGAIN: u32 = 3;
}

/// Time limit of a run in the kernel, which blocks its CPU.
const RUN_TIME: Duration = Duration::from_micros(500);

/// Maximum attempts to read the list of super blocks, if one is removed from it during the read, which takes
/// some microseconds.
const COLLECT_TRIES: u32 = 64;

/// Maximum number of reports that the ring is full while it is empty.
const STUCK_TRIES: u32 = 16;

/// Selection of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// Inodes with pages in the cache.
    #[default]
    Cached,
    /// Inodes without pages in the cache, some of which the kernel remembers as reclaimed.
    Evicted,
    /// Both.
    Both,
}

/// Options of a census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The inodes to report.
    pub select: Select,
    /// Report names. Without names, a census of many small files takes less than half the time.
    pub names: bool,
    /// Maximum inodes that a run in the kernel visits, up to [`Options::MOST_INODES_PER_RUN`].
    pub inodes_per_run: u32,
}

impl Options {
    /// Visited in about half a millisecond.
    pub const MOST_INODES_PER_RUN: u32 = 4000;
}

impl Default for Options {
    fn default() -> Self {
        Options {
            select: Select::Cached,
            names: true,
            inodes_per_run: Options::MOST_INODES_PER_RUN,
        }
    }
}

/// The loaded programs of the census. They are attached to nothing, and go when this is dropped.
pub struct Census {
    // Dropped in this order: the skeleton, then the storage it lives in.
    skeleton: CensusSkel<'static>,
    ring: MapHandle,
    _storage: Storage,
}

impl std::fmt::Debug for Census {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Census").finish_non_exhaustive()
    }
}

impl Census {
    /// Loads the programs. One may take any number of censuses with them.
    ///
    /// # Errors
    /// [`Error::Refused`] if the kernel does not let them be loaded, which without root is the rule;
    /// [`Error::KernelTypes`] if it does not show its types.
    ///
    /// # Cost
    /// Some 7 ms, half of what libbpf's own search in the kernel's types would make it; 1.5 MB of kernel memory.
    pub fn open() -> Result<Census, Error> {
        let storage = Storage::new();
        // SAFETY: called once, and the skeleton that lives in it is dropped before it: on an early return
        // as the later of two locals, else by the order of the fields.
        let place = unsafe { storage.get() };
        let mut builder = CensusSkelBuilder::default();
        let types = KernelTypes::read()?.give_to(builder.object_builder_mut())?;
        let skeleton =
            quietly(|| builder.open(place)?.load()).map_err(|source| Error::Refused {
                operation: "load the programs of the census".into(),
                source: source.into(),
            })?;
        drop(types); // libbpf has read it
        let ring = MapHandle::try_from(&skeleton.maps.ring).map_err(ring_error)?;
        Ok(Census {
            skeleton,
            ring,
            _storage: storage,
        })
    }

    /// Takes a census, and keeps all that it finds.
    ///
    /// # Errors
    /// As [`Census::stream`].
    ///
    /// # Cost
    /// As [`Census::stream`], and some 300 bytes for each inode found.
    pub fn take(&mut self, options: &Options) -> Result<Report, Error> {
        let mut inodes = Vec::new();
        let summary = self.stream(options, |inode| inodes.push(inode))?;
        Ok(Report { inodes, summary })
    }

    /// Takes a census, and calls `each` with every inode that is found, once, as the walk goes on.
    ///
    /// # Errors
    /// [`Error::Run`], [`Error::Map`] and [`Error::Stuck`] if the programs cannot be run or their results
    /// not be had. A census that is not complete is no error: see [`Summary::missed`].
    ///
    /// # Cost
    /// About 150 ns for each inode that the kernel has in memory, and 1 to 2 us for each that is found, in
    /// runs of at most half a millisecond. Memory: 40 bytes for each inode found on one file system.
    pub fn stream(
        &mut self,
        options: &Options,
        each: impl FnMut(CachedInode),
    ) -> Result<Summary, Error> {
        self.stream_at_most(step_limit(), options, each)
    }

    fn stream_at_most(
        &mut self,
        limit: u64,
        options: &Options,
        each: impl FnMut(CachedInode),
    ) -> Result<Summary, Error> {
        let started = Instant::now();
        self.prepare(options)?;
        let mut missed = Missed {
            super_blocks: !self.collect()?,
            ..Missed::default()
        };
        let mut receiver = Receiver::new(each);
        let (runs, cut_short) = {
            let ring = receive(&self.ring, &mut receiver)?;
            self.walk(&ring, limit)?
        };
        let mut summary = receiver.finish()?;
        let control = *self.control()?;
        missed.super_blocks |= control.overflow != 0;
        missed.rest = cut_short;
        summary.missed = missed;
        summary.super_blocks = control.supers;
        summary.visited = control.inodes;
        summary.recoveries = control.recoveries;
        summary.restarts = control.restarts;
        summary.runs = runs;
        summary.kernel_time = Duration::from_nanos(control.total_ns);
        summary.longest_run = Duration::from_nanos(control.longest_ns);
        summary.elapsed = started.elapsed();
        if options.select == Select::Evicted {
            summary.sums = None;
        }
        Ok(summary)
    }

    fn prepare(&mut self, options: &Options) -> Result<(), Error> {
        *self.control()? = types::census {
            budget: options
                .inodes_per_run
                .clamp(1, Options::MOST_INODES_PER_RUN),
            budget_ns: RUN_TIME.as_nanos() as u32,
            cached: (options.select != Select::Evicted).into(),
            evicted: (options.select != Select::Cached).into(),
            names: options.names.into(),
            ..types::census::default()
        };
        Ok(())
    }

    /// Finds the super blocks; false: not all of them, so fast do they come and go.
    fn collect(&self) -> Result<bool, Error> {
        for _ in 0..COLLECT_TRIES {
            if run(&self.skeleton.progs.collect, "find the file systems")? != state::AGAIN {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the walk to its end; returns the number of runs, and whether it was broken off.
    fn walk(&mut self, ring: &RingBuffer<'_>, limit: u64) -> Result<(u64, bool), Error> {
        let (mut runs, mut stuck) = (0, 0);
        loop {
            let state = run(&self.skeleton.progs.walk, "walk over the inodes")?;
            runs += 1;
            let taken = ring.consume_raw();
            if taken < 0 {
                return Err(ring_error(libbpf_rs::Error::from_raw_os_error(-taken)));
            }
            match state {
                state::DONE => return Ok((runs, false)),
                state::FULL if taken == 0 => {
                    stuck += 1;
                    if stuck > STUCK_TRIES {
                        return Err(Error::Stuck);
                    }
                }
                _ if self.control()?.inodes > limit => return Ok((runs, true)),
                _ => stuck = 0,
            }
        }
    }

    fn control(&mut self) -> Result<&mut types::census, Error> {
        match self.skeleton.maps.bss_data.as_deref_mut() {
            Some(data) => Ok(&mut data.census),
            None => Err(Error::Shape {
                what: "state of the census",
                found: 0,
                expected: size_of::<types::census>(),
            }),
        }
    }
}

fn receive<'r, F: FnMut(CachedInode)>(
    ring: &MapHandle,
    receiver: &'r mut Receiver<F>,
) -> Result<RingBuffer<'r>, Error> {
    let mut builder = RingBufferBuilder::new();
    builder
        .add(ring, |bytes| receiver.take(bytes))
        .map_err(ring_error)?;
    builder.build().map_err(ring_error)
}

fn ring_error(source: libbpf_rs::Error) -> Error {
    Error::Map {
        operation: "read the records of the census",
        source: source.into(),
    }
}

/// The most inodes to visit: several times those that there are. A walk that has to go back this much does
/// not come to an end.
fn step_limit() -> u64 {
    const TIMES: u64 = 8;
    const LEAST: u64 = 1 << 20;
    let text = Kernel::new().setting("fs.inode-nr").ok().flatten();
    let inodes = text.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    match inodes {
        Some(inodes) => inodes.saturating_mul(TIMES).saturating_add(LEAST),
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// None, and said so, without root.
    fn open(what: &str) -> Option<Census> {
        match Census::open() {
            Ok(census) => Some(census),
            Err(error) if error.kind() == ErrorKind::Denied => {
                println!("skipped: census: {what}: needs root");
                None
            }
            Err(error) => panic!("the census can be opened: {error:?}"),
        }
    }

    #[test]
    fn a_walk_that_does_not_end_is_broken_off_and_said_to_be() {
        let Some(mut census) = open("a walk that does not end") else {
            return;
        };
        let options = Options {
            inodes_per_run: 10,
            ..Options::default()
        };
        let whole = census.stream(&options, |_| {}).unwrap();
        assert!(!whole.is_partial(), "all of it: {whole:?}");
        let part = census.stream_at_most(50, &options, |_| {}).unwrap();
        assert!(part.missed.rest && part.is_partial(), "not all: {part:?}");
        assert!(part.visited < 100, "soon after the limit: {part:?}");
    }

    #[test]
    fn nothing_is_lost_when_the_ring_is_full() {
        const FILES: usize = 400;
        let Some(mut census) = open("a full ring") else {
            return;
        };
        // Records of 3.5 KB each, so that they do not fit in at once.
        let directory = tempfile::tempdir().unwrap();
        let mut deep = directory.path().to_owned();
        deep.extend(std::iter::repeat_n("d".repeat(250), 14));
        let last = directory.path().file_name().unwrap().to_owned();
        deep.push(&last);
        std::fs::create_dir_all(&deep).unwrap();
        for number in 0..FILES {
            std::fs::write(deep.join(number.to_string()), "x").unwrap();
        }
        census.prepare(&Options::default()).unwrap();
        assert!(census.collect().unwrap(), "the file systems are found");
        // No thread takes the records.
        let full = (0..1_000_000).any(|_| {
            run(&census.skeleton.progs.walk, "walk over the inodes").unwrap() == state::FULL
        });
        assert!(full, "the ring has room for a part of them");
        let mut found = Vec::new();
        let mut receiver = Receiver::new(|inode: CachedInode| {
            if let Name::Path(path) = &inode.name
                && path.parent().is_some_and(|parent| parent.ends_with(&last))
            {
                found.push(path.file_name().unwrap().to_owned());
            }
        });
        let ring = receive(&census.ring, &mut receiver).unwrap();
        census.walk(&ring, u64::MAX).unwrap();
        drop(ring);
        receiver.finish().unwrap();
        assert_eq!(found.len(), FILES, "each of them is found, once");
    }

    #[test]
    fn the_states_are_those_of_the_kernels_side() {
        let header = include_str!("bpf/census.h");
        let states = header.split("enum census_state {").nth(1).unwrap();
        let states = states.split("};").next().unwrap();
        let names: Vec<&str> = states
            .split(|byte: char| !byte.is_ascii_uppercase() && byte != '_')
            .filter(|word| word.starts_with("CENSUS_"))
            .collect();
        let place = |name: &str| {
            let place = names.iter().position(|state| *state == name);
            place.map(|place| place as u32)
        };
        assert_eq!(place("CENSUS_DONE"), Some(state::DONE), "{states}");
        assert_eq!(place("CENSUS_FULL"), Some(state::FULL), "{states}");
        assert_eq!(place("CENSUS_AGAIN"), Some(state::AGAIN), "{states}");
    }
}
