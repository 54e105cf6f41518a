//! Which level of a curve is which cache.

use crate::Cache;
use crate::measure::estimate::Trust;
use crate::measure::plateau::Plateau;
use crate::measure::sweep::Point;

/// Leaves out what neighbours make on the way up from one level to the next: a short level not far below the next one,
/// at the sizes of which rounds do not agree.
pub(super) fn without_slopes(mut found: Vec<Plateau>, points: &[Point]) -> Vec<Plateau> {
    /// A cache is at least this many times as fast as memory, or `THAN_NEXT` times as fast as the
    /// next cache, or its rounds agree, or its range is longer than `OCTAVES`.
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
pub(super) fn matched<'a>(
    found: &[Plateau],
    told: &[&'a Cache],
) -> Vec<(Option<Plateau>, Option<&'a Cache>)> {
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
        // A level that ends far below this cache is one that sysfs does not list.
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

#[cfg(test)]
mod tests {
    use cachewise_units::Bytes;

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
}
