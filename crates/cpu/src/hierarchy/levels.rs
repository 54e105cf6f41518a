//! From curves to levels: how much fits into each, and what it costs.

use cachewise_units::PageSize;

use crate::measure::estimate::{Estimate, quantile};
use crate::measure::plateau::{self, Plateau, plateaus, rises_through};
use crate::measure::sweep::{Curve, Point};
use crate::{Cache, Topology};

use super::level::{LARGEST, LatencySource, Level};
use super::matched::{matched, without_slopes};

/// Beyond this multiple of the last cache, most loads go to memory.
const TO_MEMORY: f64 = 1.5;

/// Sizes and latencies, as caches are measured.
pub(super) fn cached(points: &[Point]) -> Vec<(f64, f64)> {
    let known = points.iter().filter_map(|point| {
        let found = point.cached()?;
        Some((point.size as f64, found.value))
    });
    known.collect()
}

/// The figures of several rounds; a tenth of them at either end may be off.
pub(super) fn spread(figures: &[f64]) -> Option<Estimate> {
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
pub(super) fn levels(
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
    // A sweep that does not exceed the last cache has not reached memory: its last level is a
    // cache, too.
    let most = local.points.last().map_or(0.0, |point| point.size as f64);
    let beyond = told.iter().rev().find_map(|cache| cache.size);
    // Without a cache in sysfs, this exceeds most caches.
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
        // A cache larger than the largest measured size remains unknown.
        let is_reached = seen.is_some() || from < most;
        levels.push(Level {
            name: cache.map_or_else(|| format!("level {}", place + 1), Cache::name),
            told: cache.cloned(),
            shared_by: cache.map(|cache| (topology.cores_of(&cache.cpus), cache.cpus.len())),
            capacity: seen
                .and_then(|seen| capacity(&local.points, seen, &found, place, is_last, page)),
            seen: match (seen, is_reached) {
                (Some(_), _) => LatencySource::Curve,
                (None, true) => LatencySource::SysfsSize,
                (None, false) => LatencySource::NotReached,
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
        seen: memory.map_or(LatencySource::NotReached, |_| LatencySource::Curve),
        local: memory.and_then(|memory| latency(local, memory.from, memory.to, true)),
        // Where the local curve is flat already, the random one may still be in the cache for a part.
        random: memory
            .and_then(|memory| latency(random, memory.from.max(memory.to / 4.0), memory.to, true)),
    });
    (levels, found.len())
}

/// The latency at which a level ends, between its own and that of the next level: half-way, by the logarithm. If the next
/// level is a cache, at most `MOST` times its own: use of that cache by other programs must not move the end of this one.
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
