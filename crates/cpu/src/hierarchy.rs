//! The machine's hierarchy of caches: what sysfs says of each level beside what was measured.
//!
//! Levels are found in the curve of latencies. A level of sysfs in which none was found (others use the cache, or
//! the hypervisor claims one) is read at the sizes that sysfs says, and marked so.

use std::path::Path;
use std::time::{Duration, Instant};

use cachewise_units::{Bytes, PageSize};

use crate::measure::budget::Budget;
use crate::measure::chase::{Arena, PageKind};
use crate::measure::estimate::{Estimate, Trust, quantile};
use crate::measure::order::Order;
use crate::measure::pin::Pinned;
use crate::measure::plateau::{self, Plateau, plateaus, rises_through};
use crate::measure::sweep::{Curve, Point, SweepOptions, sizes, sweep, sweep_memory, turn};
use crate::measure::tlb::{Pages, TlbStep, steps, translation};
use crate::{Cache, Error, Topology};

/// Lines of most machines, where sysfs does not tell.
const USUAL_LINE: usize = 64;

/// How many times the last cache is swept: beyond four times hardly anything is left of it.
const BEYOND: u64 = 8;

/// Beyond so many times the last cache most loads go to memory.
const TO_MEMORY: f64 = 1.5;

/// Memory is swept at least up to here, as sysfs may not tell of the last cache, and at most up to there.
const LARGEST: (u64, u64) = (256 << 20, 1 << 30);

/// How to measure.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// On which CPU; the one that this thread is on if nothing is said.
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

/// Where a level's latency was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// On a level of the curve.
    Found,
    /// At the sizes that sysfs says, as the curve has no level there.
    Told,
    /// Nowhere: nothing so large was measured.
    NotReached,
}

/// One level.
#[derive(Debug, Clone)]
pub struct Level {
    /// `L1d`, `L2`, `memory`; `level 2` where sysfs tells no such cache.
    pub name: String,
    /// What sysfs says of it.
    pub told: Option<Cache>,
    /// Cores and hardware threads that share it, as sysfs says.
    pub shared_by: Option<(usize, usize)>,
    /// How much fits, in bytes, as measured.
    pub capacity: Option<Estimate>,
    /// Where the latency was read.
    pub seen: Seen,
    /// The latency in nanoseconds, page by page.
    pub local: Option<Estimate>,
    /// The latency in nanoseconds, all over the place.
    pub random: Option<Estimate>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    /// The CPU that was measured.
    pub cpu: u32,
    /// What a core cycle took, in nanoseconds.
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
    /// What there is to say of it.
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
        let rounds = Budget::of(options.time.mul_f64(0.5));
        let repeats = Budget::of(options.time.mul_f64(0.6));
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
            Budget::of(options.time.mul_f64(0.2)),
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

/// Measures the sizes again at which rounds do not agree, until the time is over: a neighbour may have been busy.
fn again(curves: &mut [Curve], options: &SweepOptions, arena: &mut Arena, budget: Budget) {
    for curve in curves {
        let order = curve.order;
        for point in &mut curve.points {
            let agree = point
                .cached()
                .is_some_and(|found| found.trust() == Trust::Good);
            if !agree && point.size <= options.fine_up_to && budget.is_left() {
                turn(point, order, options, arena, 1);
            }
        }
    }
}

/// Puts more sizes where a level of some hundred pages ends: whole pages, as a first level has a whole number of.
fn refine(curve: &mut Curve, options: &SweepOptions, arena: &mut Arena, budget: Budget) {
    const MOST_PAGES: usize = 1024;
    const MORE: usize = 5;
    for level in plateaus(&cached(&curve.points), plateau::FLAT) {
        let Some(capacity) = level.capacity else {
            continue;
        };
        let above = curve
            .points
            .partition_point(|point| (point.size as f64) < capacity);
        let Some((below, above)) = above
            .checked_sub(1)
            .and_then(|below| Some((curve.points.get(below)?.size, curve.points.get(above)?.size)))
        else {
            continue;
        };
        let (first, last) = (below.div_ceil(options.page), above / options.page);
        if last > MOST_PAGES {
            continue;
        }
        let step = ((last - first) / MORE).max(1);
        for pages in (first..=last).step_by(step) {
            let size = pages * options.page;
            let place = curve.points.partition_point(|point| point.size < size);
            if curve
                .points
                .get(place)
                .is_none_or(|point| point.size != size)
            {
                let mut fresh = Curve::new(curve.order, &[size]).points;
                for point in &mut fresh {
                    for round in 0..options.rounds {
                        if round > 0 && !budget.is_left() {
                            break;
                        }
                        turn(point, curve.order, options, arena, 1);
                    }
                }
                curve.points.splice(place..place, fresh);
            }
        }
    }
}

/// Sizes and latencies, as caches are measured.
fn cached(points: &[Point]) -> Vec<(f64, f64)> {
    let known = points.iter().filter_map(|point| {
        let found = point.cached()?;
        Some((point.size as f64, found.value))
    });
    known.collect()
}

/// The figures of several rounds; a tenth of them at either end may be off.
fn spread(figures: &[f64]) -> Option<Estimate> {
    Some(Estimate {
        value: quantile(figures, 0.5)?,
        low: quantile(figures, 0.1)?,
        high: quantile(figures, 0.9)?,
    })
}

/// The latency of the sizes in a range, on this curve.
fn latency(curve: &Curve, from: f64, to: f64, is_memory: bool) -> Option<Estimate> {
    let inside: Vec<&Point> = curve
        .points
        .iter()
        .filter(|point| (from..=to).contains(&(point.size as f64)))
        .collect();
    let rounds = inside.iter().flat_map(|point| match is_memory {
        true => &point.median,
        false => &point.low,
    });
    let rounds = spread(&rounds.copied().collect::<Vec<f64>>())?;
    let value = match is_memory {
        true => rounds.value,
        false => {
            let points = inside.iter().filter_map(|point| point.cached());
            quantile(&points.map(|found| found.value).collect::<Vec<f64>>(), 0.5)?
        }
    };
    Some(Estimate {
        value,
        low: rounds.low.min(value),
        high: rounds.high.max(value),
    })
}

/// The levels, and how many the curve has.
fn levels(
    topology: &Topology,
    told: &[&Cache],
    curves: &[Curve],
    page: PageSize,
) -> (Vec<Level>, usize) {
    let [local, random] = curves else {
        return (Vec::new(), 0);
    };
    let found = without_slopes(
        plateaus(&cached(&local.points), plateau::FLAT),
        &local.points,
    );
    // What does not go beyond the last cache has not been to memory: its last level is a cache, too.
    let most = local.points.last().map_or(0.0, |point| point.size as f64);
    let beyond = told.iter().rev().find_map(|cache| cache.size);
    // Where sysfs tells no cache, so much is more than most have.
    let beyond = beyond.map_or(LARGEST.0 as f64 / 2.0, |last| last.0 as f64 * TO_MEMORY);
    let has_memory = most > beyond;
    let (memory, caches) = match found.split_last() {
        None => return (Vec::new(), 0),
        Some((memory, caches)) if has_memory => (Some(memory), caches),
        Some(_) => (None, &found[..]),
    };
    let matched = matched(caches, told);
    let mut levels = Vec::new();
    let mut below = 0.0;
    for (place, (seen, cache)) in matched.into_iter().enumerate() {
        let size = cache.and_then(|cache| cache.size).map(|size| size.0 as f64);
        let (from, to) = match (seen, size) {
            (Some(seen), _) => (seen.from, seen.to),
            // Well inside: near either end the neighbours' latencies come in.
            (None, size) => (below * 1.4, size.unwrap_or(0.0) * 0.6),
        };
        let is_last = cache.map(|cache| cache.level) == told.last().map(|cache| cache.level);
        // Of a cache that is larger than all that was measured nothing is known.
        let is_reached = seen.is_some() || from < most;
        levels.push(Level {
            name: cache.map_or_else(|| format!("level {}", place + 1), Cache::name),
            told: cache.cloned(),
            shared_by: cache.map(|cache| (topology.cores_of(&cache.cpus), cache.cpus.len())),
            capacity: seen
                .and_then(|seen| capacity(&local.points, seen, &found, place, is_last, page)),
            seen: match (seen, is_reached) {
                (Some(_), _) => Seen::Found,
                (None, true) => Seen::Told,
                (None, false) => Seen::NotReached,
            },
            local: latency(local, from, to, false),
            random: latency(random, from, to, false),
        });
        below = size
            .or(seen.and_then(|seen| seen.capacity))
            .unwrap_or(below);
    }
    levels.push(Level {
        name: "memory".into(),
        told: None,
        shared_by: None,
        capacity: None,
        seen: memory.map_or(Seen::NotReached, |_| Seen::Found),
        local: memory.and_then(|memory| latency(local, memory.from, memory.to, true)),
        // Where the local curve is flat already, the random one may still be in the cache for a part.
        random: memory
            .and_then(|memory| latency(random, memory.from.max(memory.to / 4.0), memory.to, true)),
    });
    (levels, found.len())
}

/// Leaves out what neighbours make on the way up from one level to the next: a short level not far below the next one,
/// at the sizes of which rounds do not agree.
fn without_slopes(mut found: Vec<Plateau>, points: &[Point]) -> Vec<Plateau> {
    /// A cache is at least so many times as fast as memory, or as the next one, or its rounds agree, or it is longer
    /// than this.
    const FASTER: f64 = 3.0;
    const THAN_NEXT: f64 = 2.0;
    const OCTAVES: f64 = 1.0;
    let levels: Vec<f64> = found.iter().map(|seen| seen.level).collect();
    let Some(memory) = levels.last().copied() else {
        return found;
    };
    found.retain(|seen| {
        let next = levels.iter().find(|level| **level > seen.level);
        let is_slow =
            next.is_some_and(|next| seen.level * THAN_NEXT > *next || seen.level * FASTER > memory);
        let is_short = (seen.to / seen.from).log2() < OCTAVES;
        let inside = points
            .iter()
            .filter(|point| (seen.from..=seen.to).contains(&(point.size as f64)));
        let contended = inside.clone().filter(|point| {
            let estimate = point.cached();
            estimate.is_none_or(|found| found.trust() == Trust::Contended)
        });
        let disagree = 2 * contended.count() >= inside.count();
        !(is_slow && is_short && disagree)
    });
    found
}

/// Which level of the curve is which cache of sysfs: in order, and no farther apart than a factor of four. Of the last
/// cache others may leave much less than that.
fn matched<'a>(found: &[Plateau], told: &[&'a Cache]) -> Vec<(Option<Plateau>, Option<&'a Cache>)> {
    let shared = told.iter().skip(1).last();
    let last = shared.map(|cache| cache.level);
    let apart = |seen: &Plateau, cache: &Cache| {
        /// A level ends so much beyond its cache at most.
        const BLURRED: f64 = 1.5;
        let size = cache.size?.0 as f64;
        // The last level that was measured has no end: it is part of the first cache that is as large.
        let Some(capacity) = seen.capacity else {
            return (size * BLURRED >= seen.to).then_some(0.0);
        };
        let octaves = (capacity / size).log2();
        let least = if Some(cache.level) == last {
            -5.0
        } else {
            -2.0
        };
        (least..=2.0).contains(&octaves).then_some(octaves.abs())
    };
    let mut levels: Vec<(Option<Plateau>, Option<&Cache>)> = Vec::new();
    let mut rest = found.iter().peekable();
    for (place, cache) in told.iter().enumerate() {
        let size = cache.size.map(|size| size.0 as f64);
        // What ends far below it is a level that sysfs does not tell of.
        while let Some(seen) = rest.next_if(|seen| {
            let ends_below = size
                .zip(seen.capacity)
                .is_some_and(|(size, ends)| ends < size);
            apart(seen, cache).is_none() && ends_below
        }) {
            levels.push((Some(*seen), None));
        }
        let next = told.get(place + 1);
        let seen = rest.next_if(|seen| {
            let here = apart(seen, cache);
            let there = next.and_then(|next| apart(seen, next));
            here.is_some() && there.is_none_or(|there| here <= Some(there))
        });
        levels.push((seen.copied(), Some(cache)));
    }
    levels.extend(rest.map(|seen| (Some(*seen), None)));
    levels
}

/// A latency between two levels, where the first one is said to end: half-way up, by the logarithm. If the next one is
/// a cache, no more than this above it: what neighbours have made of that says nothing of where this one ends.
fn between(level: f64, next: f64, is_last: bool) -> f64 {
    const MOST: f64 = 1.8;
    let half_way = (next / level).sqrt();
    level
        * if is_last {
            half_way
        } else {
            half_way.min(MOST)
        }
}

/// How much fits: where the latency is half-way up to the next level, in each round.
fn capacity(
    points: &[Point],
    seen: Plateau,
    found: &[Plateau],
    place: usize,
    is_last: bool,
    page: PageSize,
) -> Option<Estimate> {
    let after = found.iter().find(|next| next.from > seen.to)?;
    let half_way = between(seen.level, after.level, is_last);
    let value = rises_through(&cached(points), half_way)?;
    let rounds = points.iter().map(|point| point.low.len()).max()?;
    let crossings = (0..rounds).filter_map(|round| {
        let of_round = points.iter().filter_map(|point| {
            let figure = point.low.get(round)?;
            Some((point.size as f64, *figure))
        });
        let of_round: Vec<(f64, f64)> = of_round.collect();
        // A round that was cut short does not reach so far.
        rises_through(&of_round, half_way)
    });
    let crossings: Vec<f64> = crossings.collect();
    // The first level's sets are as many as fit into a page, so it holds whole pages: the last that is below.
    let whole = |size: f64| match place {
        0 => {
            let page = page.get() as f64;
            (size / page).floor().max(1.0) * page
        }
        _ => size,
    };
    let range = Estimate::median_of(&crossings)?;
    Some(Estimate {
        value: whole(value),
        low: whole(range.low.min(value)),
        high: whole(range.high.max(value)),
    })
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
            "{} contended: others used this CPU or its caches meanwhile, and rounds differ; the range is what is \
             known. Try again when it is quiet, or --cpu another",
            names.join(", ")
        ));
    }
    for level in &hierarchy.levels {
        if level.seen == Seen::Told {
            notes.push(format!(
                "{}: the curve has no level there, so its latency was read at the sizes that sysfs says, and its \
                 size was not measured",
                level.name
            ));
        }
    }
    let not_reached = hierarchy
        .levels
        .iter()
        .filter(|level| level.seen == Seen::NotReached);
    let not_reached: Vec<&str> = not_reached.map(|level| level.name.as_str()).collect();
    if !not_reached.is_empty() {
        notes.push(format!(
            "{}: not measured, as nothing larger than the caches before was gone through: give a larger --largest",
            not_reached.join(", ")
        ));
    }
    if told.is_empty() {
        notes
            .push("sysfs tells no caches of this CPU: levels have numbers instead of names".into());
    }
    if hierarchy.cycle_ns.is_none() {
        notes.push("no cycles: no way to time one is known for this architecture".into());
    }
    if is_virtual() {
        notes.push(
            "this is a virtual machine: what sysfs says is what the hypervisor claims, others may use the same last \
             cache, and translation goes through two tables of pages"
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
    use crate::{CacheKind, CpuList};

    fn cache(level: u32, size: u64) -> Cache {
        Cache {
            level,
            kind: CacheKind::Unified,
            size: Some(Bytes(size)),
            line: Some(Bytes(64)),
            ways: None,
            sets: None,
            cpus: CpuList::new([0]),
        }
    }

    fn level(capacity: f64) -> Plateau {
        Plateau {
            from: capacity / 4.0,
            to: capacity / 2.0,
            level: 1.0,
            capacity: Some(capacity),
        }
    }

    /// For each level: whether one was found, and which cache it is.
    fn names(found: &[f64], told: &[&Cache]) -> Vec<(bool, Option<u32>)> {
        let found: Vec<Plateau> = found.iter().copied().map(level).collect();
        let matched = matched(&found, told).into_iter();
        matched
            .map(|(seen, cache)| (seen.is_some(), cache.map(|cache| cache.level)))
            .collect()
    }

    #[test]
    fn levels_that_were_found_are_named_by_sysfs() {
        let (l1, l2, l3) = (cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20));
        let told = [&l1, &l2, &l3];
        let (kib, mib) = (1024.0, 1_048_576.0);
        assert_eq!(
            names(&[33.0 * kib, 0.95 * mib, 12.0 * mib], &told),
            [(true, Some(1)), (true, Some(2)), (true, Some(3))],
            "one by one"
        );
        assert_eq!(
            names(&[33.0 * kib, 0.95 * mib], &told),
            [(true, Some(1)), (true, Some(2)), (false, Some(3))],
            "a neighbour has taken the last level"
        );
        assert_eq!(
            names(&[33.0 * kib, 0.95 * mib, 3.0 * mib], &told)[2],
            (true, Some(3)),
            "or has left a tenth of it"
        );
        assert_eq!(
            names(&[33.0 * kib, 0.95 * mib, 20.0 * mib, 400.0 * mib], &told)[3],
            (true, None),
            "one that sysfs does not know stays without a name"
        );
        assert_eq!(
            names(&[2.0 * kib, 33.0 * kib], &[&l1]),
            [(true, None), (true, Some(1))],
            "also before the first"
        );
        assert_eq!(
            names(&[33.0 * kib], &[]),
            [(true, None)],
            "sysfs tells nothing"
        );
        let open = Plateau {
            capacity: None,
            ..level(2.0 * mib)
        };
        let matched = matched(&[level(33.0 * kib), open], &told);
        let caches: Vec<_> = matched.iter().map(|(seen, _)| seen.is_some()).collect();
        assert_eq!(
            caches,
            [true, true, false],
            "what was measured ends inside of the second"
        );
    }

    #[test]
    fn a_slope_that_neighbours_make_is_no_level() {
        let flat = |from: f64, to: f64, level: f64| Plateau {
            from,
            to,
            level,
            capacity: None,
        };
        let levels = vec![
            flat(1.0, 8.0, 10.0),
            flat(16.0, 28.0, 50.0),
            flat(64.0, 512.0, 100.0),
        ];
        let points = |rounds: [f64; 2]| {
            let point = |size: usize| Point {
                size,
                low: rounds.to_vec(),
                median: rounds.to_vec(),
                cycle_ns: Vec::new(),
            };
            [16, 20, 28].map(point)
        };
        let left = without_slopes(levels.clone(), &points([50.0, 90.0]));
        assert_eq!(left.len(), 2, "rounds do not agree on it: {left:?}");
        let left = without_slopes(levels.clone(), &points([50.0, 52.0]));
        assert_eq!(
            left.len(),
            3,
            "they do: a cache beyond the last, of which there are some"
        );
        assert!(
            without_slopes(Vec::new(), &[]).is_empty(),
            "nothing was found"
        );
    }

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
            None => assert_eq!(last.seen, Seen::NotReached, "a larger cache: {last:?}"),
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
