//! Cache hierarchy of the machine: each level in sysfs and as measured.
//!
//! Levels are found in the curve of latencies. A level of sysfs without a level in the curve (other programs use the
//! cache, or the hypervisor invents one) is read at the sizes of sysfs, and marked.
//!
//! # Layout
//! - `levels`: from curves to levels, with size and latency of each; `matched`: levels by cache of sysfs
//! - `again`: repeated measurement of disturbed figures, and a finer one at the end of a level
//! - this file: the measurement, and its notes

mod again;
mod level;
mod levels;
mod matched;

use std::path::Path;
use std::time::{Duration, Instant};

use cachewise_units::{Bytes, PageSize};

use crate::measure::budget::Budget;
use crate::measure::chase::{Arena, PageKind};
use crate::measure::estimate::{Estimate, Trust};
use crate::measure::order::Order;
use crate::measure::pin::Pinned;
use crate::measure::sweep::{Curve, SweepOptions, sizes, sweep, sweep_memory};
use crate::measure::tlb::{Pages, TlbStep, steps, translation};
use crate::{Cache, Error, Topology};
use again::{again, refine};
use level::LARGEST;
pub use level::{LatencySource, Level};
use levels::{levels, spread};

/// Lines of most machines, where sysfs does not tell.
const USUAL_LINE: usize = 64;

/// How many times the last cache is swept: beyond four times hardly anything is left of it.
const BEYOND: u64 = 8;

/// Options of a measurement.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// The CPU; the current one if `None`.
    pub cpu: Option<u32>,
    /// The largest size.
    pub largest: Option<Bytes>,
    /// Small or huge pages.
    pub pages: PageKind,
    /// The machine's base page.
    pub page: PageSize,
    /// How long it may take; the first round is done whatever it takes.
    pub time: Duration,
}

/// The measured hierarchy.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    /// The CPU that was measured.
    pub cpu: u32,
    /// Duration of a core cycle in nanoseconds.
    pub cycle_ns: Option<Estimate>,
    /// From the nearest to memory.
    pub levels: Vec<Level>,
    /// How many levels the curve has.
    pub found: usize,
    /// Steps in the cost of address translation.
    pub tlb: Vec<TlbStep>,
    /// That cost, by number of pages.
    pub translation: Vec<Pages>,
    /// The page-local curve, then the random one.
    pub curves: Vec<Curve>,
    /// How long it took.
    pub took: Duration,
    /// Remarks on the measurement.
    pub notes: Vec<String>,
}

impl Hierarchy {
    /// Measures it.
    ///
    /// # Errors
    /// If there is no such CPU for this process, or not enough memory.
    pub fn measure(topology: &Topology, options: &TableOptions) -> Result<Hierarchy, Error> {
        let begin = Instant::now();
        let cpu = options
            .cpu
            .unwrap_or_else(|| rustix::thread::sched_getcpu() as u32);
        let _pinned = Pinned::to(cpu)?;
        let told = topology.data_path(cpu);
        let last = told.iter().rev().find_map(|cache| cache.size);
        let line = told.iter().find_map(|cache| cache.line);
        let largest = options.largest.unwrap_or_else(|| {
            let wanted = last.map_or(0, |last| last.0.saturating_mul(BEYOND));
            Bytes(wanted.clamp(LARGEST.0, LARGEST.1))
        });
        let sweep_options = SweepOptions {
            largest: largest.0 as usize,
            fine_up_to: last.map_or(LARGEST.0 / 4, |last| last.0) as usize,
            line: line.map_or(USUAL_LINE, |line| line.0 as usize),
            page: options.page.get() as usize,
            pages: options.pages,
            rounds: 3,
            turn: Duration::from_millis(3),
        };
        let mut arena = Arena::new(sweep_options.largest, options.pages)?;
        // Half for rounds over the caches, a tenth more for what is to be repeated, and a fifth for translation; memory
        // takes what it takes.
        let rounds = Budget::for_duration(options.time.mul_f64(0.5));
        let repeats = Budget::for_duration(options.time.mul_f64(0.6));
        let all = sizes(&sweep_options);
        let mut curves = vec![
            Curve::new(Order::PageLocal, &all),
            Curve::new(Order::Random, &all),
        ];
        sweep(&mut curves, &sweep_options, &mut arena, rounds);
        again(&mut curves, &sweep_options, &mut arena, repeats);
        refine(&mut curves[0], &sweep_options, &mut arena, repeats);
        sweep_memory(&mut curves, &sweep_options, &mut arena);
        let translation = translation(
            &mut arena,
            &sweep_options,
            Budget::for_duration(options.time.mul_f64(0.2)),
        );
        let (levels, found) = levels(topology, &told, &curves, options.page);
        let cycles: Vec<f64> = curves
            .iter()
            .flat_map(|curve| &curve.points)
            .flat_map(|point| point.cycle_ns.iter().copied())
            .collect();
        let mut hierarchy = Hierarchy {
            cpu,
            cycle_ns: spread(&cycles),
            levels,
            found,
            tlb: steps(&translation),
            translation,
            curves,
            took: begin.elapsed(),
            notes: Vec::new(),
        };
        hierarchy.notes = notes(&hierarchy, topology, &told);
        Ok(hierarchy)
    }

    /// A latency in core cycles.
    #[must_use]
    pub fn cycles(&self, ns: f64) -> Option<f64> {
        self.cycle_ns.map(|cycle| ns / cycle.value)
    }
}

fn notes(hierarchy: &Hierarchy, topology: &Topology, told: &[&Cache]) -> Vec<String> {
    let mut notes = topology.notes.clone();
    let contended = |estimate: &Option<Estimate>| {
        estimate.is_some_and(|found| found.trust() == Trust::Contended)
    };
    let is_contended = |level: &&Level| contended(&level.local) || contended(&level.capacity);
    let names: Vec<&str> = hierarchy
        .levels
        .iter()
        .filter(is_contended)
        .map(|level| level.name.as_str())
        .collect();
    if !names.is_empty() {
        notes.push(format!(
            "{} contended: other programs used this CPU or its caches, and rounds differ, so only the range is known. \
             Try again on a quiet machine, or choose another CPU with --cpu",
            names.join(", ")
        ));
    }
    for level in &hierarchy.levels {
        if level.seen == LatencySource::SysfsSize {
            notes.push(format!(
                "{}: the curve has no level there, so its latency was read at the sizes of sysfs, and its size was not \
                 measured",
                level.name
            ));
        }
    }
    let not_reached = hierarchy
        .levels
        .iter()
        .filter(|level| level.seen == LatencySource::NotReached);
    let not_reached: Vec<&str> = not_reached.map(|level| level.name.as_str()).collect();
    if !not_reached.is_empty() {
        notes.push(format!(
            "{}: not measured, as --largest does not exceed the lower levels: use a larger --largest",
            not_reached.join(", ")
        ));
    }
    if told.is_empty() {
        notes
            .push("sysfs lists no caches of this CPU: levels have numbers instead of names".into());
    }
    if hierarchy.cycle_ns.is_none() {
        notes.push("no cycles: they cannot be timed on this architecture".into());
    }
    if is_virtual() {
        notes.push(
            "this is a virtual machine: sysfs reports what the hypervisor claims, other machines may share the last-level \
             cache, and address translation uses nested page tables"
                .into(),
        );
    }
    notes
}

fn is_virtual() -> bool {
    let info = std::fs::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_first_level_and_memory() {
        let topology = Topology::read("/sys".as_ref()).unwrap();
        let options = TableOptions {
            cpu: None,
            // So large that there is memory, on most machines.
            largest: Some(Bytes(96 << 20)),
            pages: PageKind::Small,
            page: PageSize::new(rustix::param::page_size() as u32).unwrap(),
            time: Duration::from_millis(500),
        };
        let found = Hierarchy::measure(&topology, &options).unwrap();
        assert!(
            found.found >= 2,
            "something is nearer than something else: {}",
            found.found
        );
        let first = found.levels.first().unwrap();
        let last = found.levels.last().unwrap();
        assert_eq!(last.name, "memory", "it ends there");
        let ns = |level: &Level| level.local.map(|local| local.low);
        match ns(last) {
            Some(memory) => assert!(
                Some(memory) > ns(first).map(|ns| 3.0 * ns),
                "{first:?} {last:?}"
            ),
            None => assert_eq!(
                last.seen,
                LatencySource::NotReached,
                "a larger cache: {last:?}"
            ),
        }
        let small = TableOptions {
            largest: Some(Bytes(256 << 10)),
            time: Duration::from_millis(100),
            ..options.clone()
        };
        let within = Hierarchy::measure(&topology, &small).unwrap();
        let last = within.levels.last().unwrap();
        if topology
            .caches
            .iter()
            .any(|cache| cache.size > Some(Bytes(256 << 10)))
        {
            assert!(
                last.local.is_none(),
                "what is in a cache is not memory: {last:?}"
            );
            assert!(
                within.notes.iter().any(|note| note.contains("--largest")),
                "{:?}",
                within.notes
            );
        }
        assert!(
            found.cycle_ns.is_some() || cfg!(not(target_arch = "x86_64")),
            "a clock"
        );
        let refused = TableOptions {
            cpu: Some(60_000),
            ..options
        };
        let error = Hierarchy::measure(&topology, &refused)
            .unwrap_err()
            .to_string();
        assert!(error.contains("CPU 60000"), "it names the CPU: {error}");
    }
}
