//! The attached probe.

use std::collections::{HashMap, HashSet};
use std::mem::{offset_of, size_of};
use std::time::Duration;

use cachewise_model::{Counter, Ledger, Measured, Missing, Reason};
use cachewise_units::Pages;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};

use crate::accesses::Accesses;
use crate::back_end::BackEnd;
use crate::error::Error;
use crate::groups::GROUPS;
use crate::intervals::Intervals;
use crate::names::Names;
use crate::object::Programs;
use crate::options::{Detail, Options, Scope};
use crate::record::{self, Booked, Raw, process_key};
use crate::skeleton::types;
use crate::snapshot::{Change, Culprit, Eviction, Lost, ProcessId, ProcessInfo, Row, Snapshot};
use crate::stacks::{self, StackRest, Stacks};
use crate::table::{each, take_each};

/// BPF_F_TEST_RUN_ON_CPU
const RUN_ON_CPU: u32 = 1;

/// A group of programs of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The name of the group.
    pub name: &'static str,
    /// The back-end; `None` if the group is omitted.
    pub back_end: Option<BackEnd>,
    /// The numbers that are missing without the group, if the kernel lacks it.
    pub missing: Option<&'static str>,
}

/// Counts from when it is attached until it is dropped.
pub struct Probe {
    names: Option<Names>,
    programs: Programs,
    detail: Detail,
    per_file_evictions: bool,
    has_times: bool,
    scope: Scope,
    intervals: Option<Intervals>,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe")
            .field("detail", &self.detail)
            .finish_non_exhaustive()
    }
}

impl Probe {
    /// Ends the thread that collects names: for a program that cannot be started while that thread counts towards a
    /// limit on processes. Names are collected by each snapshot from then on, and files that find the ring full have
    /// none.
    pub fn end_thread(&mut self) {
        if let Some(names) = &mut self.names {
            names.end_thread();
        }
    }

    /// Loads the programs and starts to count.
    ///
    /// # Errors
    /// [`Error::Refused`] if the kernel lets nothing be loaded, which without root is the rule;
    /// [`Error::NoProcess`] if the process to watch does not exist.
    ///
    /// # Cost
    /// Some 60 ms, most of it the verifier's.
    pub fn attach(options: &Options) -> Result<Probe, Error> {
        if matches!(options.scope, Scope::Process(_)) && !proc_is_ours() {
            return Err(Error::PidNamespace);
        }
        if options.files.len() > Options::MAX_FILES {
            return Err(Error::TooManyFiles(options.files.len()));
        }
        let programs = Programs::load(options)?;
        let names = match options.detail {
            Detail::Totals => None,
            Detail::Rows => {
                let ring =
                    MapHandle::try_from(&programs.skeleton().maps.records).map_err(|source| {
                        Error::Map {
                            operation: "open the ring of files' names",
                            source: source.into(),
                        }
                    })?;
                Some(Names::collect(ring)?)
            }
        };
        let per_file_evictions = options.detail == Detail::Rows
            || !options.files.is_empty()
            || (options.scope == Scope::System && options.cgroup.is_none());
        let mut probe = Probe {
            names,
            programs,
            detail: options.detail,
            per_file_evictions,
            has_times: options.has_times(),
            scope: options.scope,
            intervals: options.intervals.then(Intervals::new).transpose()?,
        };
        if options.scope == Scope::System && options.detail == Detail::Rows {
            // Accounts of tasks start here: work before it must not count when they first have a row.
            probe.programs.walk(0)?;
        }
        if let Scope::Process(pid) = options.scope {
            if !cachewise_kstat::Kernel::new().process_exists(pid) {
                return Err(Error::NoProcess(pid));
            }
            probe.programs.walk(pid)?;
            for pid in &options.also {
                // One that has ended since has nothing to count.
                probe.programs.walk(*pid)?;
            }
        }
        Ok(probe)
    }

    /// The back-end that counts reads.
    #[must_use]
    pub fn back_end(&self) -> BackEnd {
        let reads = self.programs.chosen.iter().find(|chosen| chosen.is_reads());
        reads.map_or(BackEnd::Procfs, |chosen| chosen.means.back_end)
    }

    /// Sentences for the user: groups that this kernel lacks, and what the back-ends in use do not count.
    #[must_use]
    pub fn notes(&self) -> Vec<&'static str> {
        let missing = self
            .programs
            .missing
            .iter()
            .map(|group| group.reason.words());
        let chosen = self.programs.chosen.iter();
        missing
            .chain(chosen.filter_map(|chosen| chosen.means.note))
            .collect()
    }

    /// The groups of programs that a kernel may do without, each with what came of it here.
    pub fn groups(&self) -> impl Iterator<Item = Part> {
        GROUPS.iter().map(|group| {
            let missing = self.programs.missing.iter();
            let mut chosen = self.programs.chosen.iter();
            Part {
                name: group.name,
                back_end: chosen
                    .find(|chosen| chosen.group.name == group.name)
                    .map(|chosen| chosen.means.back_end),
                missing: missing
                    .filter(|missing| missing.name == group.name)
                    .map(|group| group.reason.words())
                    .next(),
            }
        })
    }

    /// The accesses of watched processes from now on, with [`Options::accesses`]. Call it once: each access is read by one
    /// of several callers.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give out its ring, as without that option.
    pub fn accesses(&self) -> Result<Accesses, Error> {
        let maps = &self.programs.skeleton().maps;
        let open = |map| {
            MapHandle::try_from(map).map_err(|source: libbpf_rs::Error| Error::Map {
                operation: "open the ring of accesses",
                source: source.into(),
            })
        };
        Accesses::open(open(&maps.accesses)?, open(&maps.sample)?)
    }

    /// The stacks of watched tasks from now on, with [`Options::stacks`]. Call it once: each record is read by one of
    /// several callers.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give out its ring.
    pub fn stacks(&self) -> Result<Stacks, Error> {
        let map = MapHandle::try_from(&self.programs.skeleton().maps.stacks);
        Stacks::open(map.map_err(|source| Error::Map {
            operation: "open the ring of stacks",
            source: source.into(),
        })?)
    }

    /// Weights so far that no record of [`Probe::stacks`] has. Read them after the ring.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give them out.
    pub fn stack_rest(&self) -> Result<StackRest, Error> {
        let maps = &self.programs.skeleton().maps;
        let mut rest = StackRest::default();
        each(&maps.evictors, |_, value| {
            rest.evicted.push(stacks::evicted(value)?);
            Ok(())
        })?;
        if let Some(bss) = maps.bss_data.as_deref() {
            let [outside_calls, lost] = &bss.no_stacks;
            rest.outside_calls = stacks::weights(outside_calls);
            rest.lost = stacks::weights(lost);
            rest.lost_stacks = bss.lost.stacks;
        }
        Ok(rest)
    }

    /// Everything counted so far; or since the last snapshot, with [`Options::intervals`].
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give out what was counted.
    ///
    /// # Cost
    /// One system call for each CPU and one for each thousand rows; with [`Options::intervals`] it waits
    /// some 10 to 30 ms, without using a CPU, until running programs have ended.
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let mut snapshot = match self.detail {
            Detail::Totals => self.totals()?,
            Detail::Rows => self.rows()?,
        };
        for group in &self.programs.missing {
            for counter in group.counters_missing() {
                snapshot
                    .total
                    .set_missing(*counter, Missing::NotOffered(group.reason));
                for row in &mut snapshot.rows {
                    row.ledger
                        .set_missing(*counter, Missing::NotOffered(group.reason));
                }
            }
        }
        let (times, why) = match (self.has_times, self.scope) {
            (false, _) => (&Counter::TIMES[..], Reason::TimesByProcess),
            (true, Scope::System) => (&Counter::OF_RUNS[..], Reason::IdleTimesOfRuns),
            (true, _) => (&[][..], Reason::NotMeasured),
        };
        for counter in times {
            let missing = Missing::NotOffered(why);
            snapshot.total.set_missing(*counter, missing);
            for row in &mut snapshot.rows {
                row.ledger.set_missing(*counter, missing);
            }
        }
        if !self.per_file_evictions {
            for counter in [
                Counter::EvictedReclaimPages,
                Counter::EvictedOtherPages,
                Counter::ReadaheadWastedPages,
            ] {
                snapshot
                    .total
                    .set_missing(counter, Missing::NotOffered(Reason::EvictionsByFile));
            }
        }
        Ok(snapshot)
    }

    fn totals(&mut self) -> Result<Snapshot, Error> {
        let cpus = self
            .programs
            .skeleton()
            .maps
            .cpus
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Map {
                operation: "read the sums",
                source: source.into(),
            })?
            .unwrap_or_default();
        let mut sum = Booked::default();
        for cpu in &cpus {
            let raw = Raw::new(cpu, "sums of a CPU", size_of::<types::cpu>())?;
            let mut booked = Booked::read(raw, offset_of!(types::cpu, total));
            for (counter, offset) in [
                (Counter::ReadRequests, offset_of!(types::cpu, requests)),
                (Counter::ReadRequestedPages, offset_of!(types::cpu, pages)),
                (Counter::ReadRequestedBytes, offset_of!(types::cpu, bytes)),
                (Counter::ReadHitPages, offset_of!(types::cpu, hits)),
            ] {
                booked.add_to(counter, raw.u64(offset));
            }
            sum.add(&booked);
        }
        if let Some(earlier) = &mut self.intervals {
            let so_far = sum.clone();
            sum = sum.since(&std::mem::replace(&mut earlier.total, so_far));
            sum = earlier.carried.settle(&[], sum);
            earlier.carried.end_interval();
        }
        let mut total = sum.settled();
        // Only rows say it for the files watched; for the machine, vmstat does.
        total.set_missing(
            Counter::RefaultPages,
            Missing::NotOffered(Reason::RefaultsByFile),
        );
        let mut lost = self.lost();
        if let Some(earlier) = &mut self.intervals {
            lost = lost.since(&std::mem::replace(&mut earlier.lost, lost));
        }
        Ok(Snapshot {
            total,
            rows: Vec::new(),
            files: HashMap::new(),
            processes: Vec::new(),
            outside: HashMap::new(),
            evictions: Vec::new(),
            culprits: HashMap::new(),
            direct_in_flight: 0,
            lost,
            changes: self.changes(),
        })
    }

    fn rows(&mut self) -> Result<Snapshot, Error> {
        self.wait_for_leaving();
        // Rows were read before: a process that has ended by now has all of its requests in them.
        if self.programs.has_tasks() {
            self.programs.walk(0)?;
        }
        let mut processes: Vec<ProcessInfo> = Vec::new();
        each(&self.programs.skeleton().maps.processes, |key, value| {
            processes.push(record::process(key, value)?);
            Ok(())
        })?;
        processes.sort_by_key(|process| (process.id.start, process.id.tgid));
        let stuck = self.flush()?;
        let (mut rows, evictions) = self.take_rows()?;
        if self.scope == Scope::System {
            drop_mere_queues(&mut rows);
        }
        let culprits = self.culprits(&evictions)?;
        let mut outside = HashMap::new();
        each(&self.programs.skeleton().maps.outside, |key, value| {
            let key = Raw::new(key, "file", size_of::<types::file_id>())?;
            let pages = Raw::new(value, "pages of others", size_of::<u64>())?;
            outside.insert(record::file_id(key, 0), Pages(pages.u64(0)));
            Ok(())
        })?;
        let mut direct_in_flight = 0;
        each(&self.programs.skeleton().maps.direct_requests, |_, _| {
            direct_in_flight += 1;
            Ok(())
        })?;
        let mut total = Ledger::default();
        for row in &rows {
            total += &row.ledger;
        }
        let mut lost = self.lost();
        lost.skipped += stuck;
        let maps = &self.programs.skeleton().maps;
        let mut files = HashMap::new();
        // Files that the tables have no longer, and those whose names are to be sent again, have to take slots anew.
        let mut is_era_over = false;
        if let Some(names) = &mut self.names {
            let nameless = names.nameless(&self.programs.writes_seen)?;
            look_again(&self.programs, &nameless)?;
            let seen = &self.programs.writes_seen;
            let unreadable;
            (files, unreadable) = match &mut self.intervals {
                None => names.all(seen)?,
                Some(intervals) => {
                    let named = names.used(rows.iter().filter_map(|row| row.file), seen)?;
                    let unused = names.unused(maps.files.max_entries() as usize);
                    intervals.forget(&maps.files, &unused);
                    is_era_over = !unused.is_empty();
                    named
                }
            };
            lost.names += unreadable;
        }
        if let Some(intervals) = &mut self.intervals {
            let with_rows = rows.iter().filter_map(|row| row.process);
            processes = intervals.processes(&maps.processes, processes, with_rows)?;
            lost.forgotten = intervals.forgotten;
            lost = lost.since(&std::mem::replace(&mut intervals.lost, lost));
            if intervals.names_are_old() {
                is_era_over = true;
                let skeleton = self.programs.skeleton_mut();
                if let Some(bss) = skeleton.maps.bss_data.as_deref_mut() {
                    bss.naming_round = bss.naming_round.wrapping_add(1);
                    let round = bss.naming_round;
                    Intervals::forget_file_systems(&skeleton.maps.file_systems, round)?;
                }
                if let Some(names) = &mut self.names {
                    names.next_round();
                }
            }
            if is_era_over
                && let Some(bss) = self.programs.skeleton_mut().maps.bss_data.as_deref_mut()
            {
                bss.era = bss.era.wrapping_add(1);
            }
        }
        Ok(Snapshot {
            total,
            rows,
            files,
            processes,
            outside,
            evictions,
            culprits,
            direct_in_flight,
            lost,
            changes: self.changes(),
        })
    }

    /// Reads the rows and evictions; with intervals, also removes them.
    fn take_rows(&mut self) -> Result<(Vec<Row>, Vec<Eviction>), Error> {
        let mut rows = Vec::new();
        let mut evictions = Vec::new();
        let read_eviction = |key: &[u8], value: &[u8]| {
            let eviction = record::eviction(key, value)?;
            if eviction.pages != Pages(0) {
                evictions.push(eviction);
            }
            Ok(())
        };
        let mut carried = self
            .intervals
            .as_mut()
            .map(|of| std::mem::take(&mut of.carried));
        let read = |key: &[u8], value: &[u8]| {
            let row = Raw::new(value, "row", size_of::<types::ledger>())?;
            let mut booked = Booked::read(row, 0);
            if let Some(carried) = &mut carried {
                booked = carried.settle(key, booked);
            }
            let ledger = booked.settled();
            if ledger.is_zero() {
                return Ok(());
            }
            let key = Raw::new(key, "row key", size_of::<types::row_key>())?;
            let process_offset = offset_of!(types::row_key, process);
            let process = record::process_id(key, process_offset);
            let file = record::file_id(key, offset_of!(types::row_key, file));
            rows.push(Row {
                process: (process.tgid != 0).then_some(process),
                file: file.is_known().then_some(file),
                cgroup: key.u32(process_offset + offset_of!(types::process_id, cgroup)),
                ledger,
            });
            Ok(())
        };
        let Some(intervals) = &self.intervals else {
            let maps = &self.programs.skeleton().maps;
            each(&maps.rows, read)?;
            each(&maps.evictions, read_eviction)?;
            return Ok((rows, evictions));
        };
        let other = self.programs.turn_over()?;
        intervals.wait_for_programs()?;
        let maps = &self.programs.skeleton().maps;
        if other {
            take_each(&maps.rows_other, read)?;
            take_each(&maps.evictions_other, read_eviction)?;
        } else {
            take_each(&maps.rows, read)?;
            take_each(&maps.evictions, read_eviction)?;
        }
        if let (Some(intervals), Some(mut carried)) = (&mut self.intervals, carried) {
            carried.end_interval();
            intervals.carried = carried;
        }
        self.programs.make_overflow_rows()?;
        Ok((rows, evictions))
    }

    /// The processes of these evictions, as far as the kernel's side still has them.
    fn culprits(&self, evictions: &[Eviction]) -> Result<HashMap<ProcessId, Culprit>, Error> {
        let table = &self.programs.skeleton().maps.culprits;
        let ids: HashSet<ProcessId> = evictions.iter().filter_map(|e| e.culprit).collect();
        let mut culprits = HashMap::with_capacity(ids.len());
        for id in ids {
            let found = table
                .lookup(&process_key(id), MapFlags::ANY)
                .map_err(|source| Error::Map {
                    operation: "read a process that evicted pages",
                    source: source.into(),
                })?;
            if let Some(value) = found {
                culprits.insert(id, record::culprit(&value)?);
            }
        }
        Ok(culprits)
    }

    /// Waits a moment for tasks on their way out to give up their CPU for the last time: a parent learns of the end of
    /// its child before that.
    fn wait_for_leaving(&self) {
        let leaving = || {
            let bss = self.programs.skeleton().maps.bss_data.as_deref();
            bss.is_some_and(|bss| bss.leaving.cast_signed() > 0)
        };
        let mut tries = 0..50;
        while self.has_times && leaving() && tries.next().is_some() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Has each CPU book what it holds back; returns how many never came to it.
    fn flush(&self) -> Result<u64, Error> {
        let flush = &self.programs.skeleton().progs.flush;
        let map_error = |source: libbpf_rs::Error| Error::Map {
            operation: "have a CPU book its reads",
            source: source.into(),
        };
        let mut stuck = 0;
        for cpu in 0..libbpf_rs::num_possible_cpus().map_err(map_error)? {
            // A CPU in the middle of an event says so; an event takes well under a microsecond.
            let mut tries = 0..1000;
            stuck += loop {
                let input = ProgramInput {
                    cpu: cpu as u32,
                    flags: RUN_ON_CPU,
                    ..ProgramInput::default()
                };
                match flush.test_run(input) {
                    Ok(output) if output.return_value == 0 => break 0,
                    // There are more of its sums.
                    Ok(output) if output.return_value == 2 => {}
                    Ok(_) if tries.next().is_some() => {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    Ok(_) => break 1,
                    // Not online: it has nothing to book.
                    Err(error) if is_offline(&error) => break 0,
                    Err(error) => return Err(map_error(error)),
                }
            };
        }
        Ok(stuck)
    }

    fn changes(&self) -> Vec<Change> {
        let bss = self.programs.skeleton().maps.bss_data.as_deref();
        let counts = bss.map_or(&[][..], |bss| &bss.changes[1..]);
        let kinds = Change::ALL.into_iter().zip(counts);
        kinds
            .filter(|(_, count)| **count > 0)
            .map(|(kind, _)| kind)
            .collect()
    }

    fn lost(&self) -> Lost {
        let skeleton = self.programs.skeleton();
        let mut lost = Lost {
            skipped: self.programs.skipped(),
            ..Lost::default()
        };
        if let Some(bss) = skeleton.maps.bss_data.as_deref() {
            let counted = &bss.lost;
            lost.rows = counted.rows;
            lost.tasks = counted.tasks;
            lost.names = counted.names;
            lost.prefetch_pages = counted.prefetch;
            lost.direct_requests = counted.direct;
            lost.uring_requests = counted.flights;
            lost.processes = counted.processes;
            lost.returns = counted.returns;
        }
        lost
    }
}

/// Leaves out processes of the machine that used no file and waited for a CPU at most.
fn drop_mere_queues(rows: &mut Vec<Row>) {
    let used = rows.iter().filter(|row| !row.is_of_no_file());
    let used: HashSet<ProcessId> = used.filter_map(|row| row.process).collect();
    rows.retain(|row| {
        let is_used = row.process.is_none_or(|process| used.contains(&process));
        is_used || row.ledger.time(&Counter::STORAGE_WAITS) != Measured::Exact(Duration::ZERO)
    });
}

/// Has the kernel's side look again at what these files, by their inodes' addresses, are called.
fn look_again(programs: &Programs, nameless: &[u64]) -> Result<(), Error> {
    for address in nameless {
        let mut context = address.to_ne_bytes();
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let program = &programs.skeleton().progs.look_again;
        program.test_run(input).map_err(|source| Error::Map {
            operation: "ask for a file's name",
            source: source.into(),
        })?;
    }
    Ok(())
}

/// Returns whether a program could not run because its CPU is offline.
fn is_offline(error: &libbpf_rs::Error) -> bool {
    // libbpf-rs keeps the number to itself; its text is the standard library's.
    let offline = std::io::Error::from(rustix::io::Errno::NXIO).to_string();
    format!("{error:#}").contains(&offline)
}

/// Returns whether process ids in /proc are those of this process's PID namespace.
fn proc_is_ours() -> bool {
    let own = std::process::id().to_string();
    std::fs::read_link("/proc/self").is_ok_and(|link| link.as_os_str() == own.as_str())
}
