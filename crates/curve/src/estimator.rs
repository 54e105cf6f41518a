//! From accesses to a curve.

use cachewise_units::{PageSize, Pages};

use crate::access::{Access, Kind, Rate};
use crate::cache::{Cache, Policy, Touch};
use crate::curve::{Curve, Point};
use crate::memory::{MAX_SIZES, Memory, SMALLEST, is_in_grid, next_size};
use crate::pages::Slots;
use crate::readahead::Request;
use crate::stack::{Distances, Stack};

/// Files whose last page is remembered.
const RECENT_FILES: usize = 1024;

/// Lengths of readahead that are counted separately, as exponents of two: longer ones make no difference.
const WINDOWS: usize = 10;

/// Below this number of pages the rate estimates the footprint better than the count in half of the sample.
const ENOUGH_PAGES: usize = 16384;

/// Pages of a request that are simulated at once: a request without an end must not take memory without an end.
const MOST_AT_ONCE: u64 = 4096;

/// A memory size that the caller has requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given(usize);

/// Simulates memories of many sizes at once, in bounded space.
#[derive(Debug)]
pub struct Estimator {
    page_bytes: u64,
    rate: Rate,
    /// The share of pages that the sample has: near the rate, and exact for the pages that were there when it was lowered.
    share: f64,
    slots: Slots,
    /// Those of the read at hand.
    wanted: Vec<u32>,
    /// Pages that were read, by the power of two of the readahead.
    windows: [u64; WINDOWS],
    /// The last page that was read, by file.
    recent: Vec<Option<(u64, u64)>>,
    unlimited: Memory,
    given: Vec<Memory>,
    /// In ascending order.
    grid: Vec<Memory>,
    next_size: u64,
    stack: Stack,
    distances: Distances,
    counts: Counts,
}

/// Pages since the start of counting.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Requested, sampled or not.
    requested: u64,
    /// Requested or read ahead for the first time, weighted.
    first: f64,
}

impl Estimator {
    /// Default of the number of pages that are simulated at most: 512 MiB of pages of 4 KiB without sampling.
    pub const MAX_PAGES: usize = 128 * 1024;

    /// Simulates at most `max_pages` pages; where a load uses more, a sample of them. Takes at most 24 bytes for each
    /// page and size, of which there are [`Estimator::MAX_SIZES`], those of [`Estimator::memory`] and one more, and 100
    /// bytes for each page.
    #[must_use]
    pub fn new(page_size: PageSize, max_pages: usize) -> Self {
        Estimator::with_policy(page_size, max_pages, Policy::default())
    }

    /// [`Estimator::new`] with a policy of eviction.
    #[must_use]
    pub fn with_policy(page_size: PageSize, max_pages: usize, policy: Policy) -> Self {
        let max_pages = max_pages.max(64);
        Estimator {
            page_bytes: Pages(1).bytes(page_size).0,
            rate: Rate::ALL,
            share: 1.0,
            slots: Slots::new(max_pages),
            wanted: Vec::new(),
            windows: [0; WINDOWS],
            recent: vec![None; RECENT_FILES],
            unlimited: Memory::unlimited(policy),
            given: Vec::new(),
            grid: Vec::new(),
            next_size: SMALLEST,
            stack: Stack::new(max_pages),
            distances: Distances::default(),
            counts: Counts::default(),
        }
    }

    /// Sizes that are simulated at most beside the given ones.
    pub const MAX_SIZES: usize = MAX_SIZES;

    /// Simulates this size too, from now on: memory for pages of files, that is without what programs and the kernel
    /// take for themselves.
    pub fn memory(&mut self, memory: Pages) -> Given {
        let rate = self.share;
        let limited = self
            .unlimited
            .limited(memory.0.max(1), self.page_bytes, rate);
        self.given.push(Memory {
            is_given: true,
            ..limited
        });
        Given(self.given.len() - 1)
    }

    /// Changes a given size: programs take more memory for themselves, or less.
    pub fn resize(&mut self, given: Given, memory: Pages) {
        let rate = self.share;
        let given = &mut self.given[given.0];
        if given.pages != memory.0 {
            given.resize(memory.0.max(1), self.page_bytes, rate);
        }
    }

    /// The rate of the sample. A source of accesses may leave out those of pages that it does not
    /// [have](Rate::has).
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Pages that are simulated.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.slots.len()
    }

    /// Takes half of the sample from now on: for a source that sends more than is simulated in time.
    pub fn lower_rate(&mut self) {
        if self.rate.is_whole() {
            self.rate = self.rate.with_room_for(self.window());
        }
        self.rate = self.rate.halved();
        let before = self.slots.len();
        for slot in 0..self.slots.highest() as u32 {
            if let Some((file, page)) = self.slots.page(slot)
                && !self.rate.has(file, page)
            {
                self.forget(slot);
            }
        }
        // Where all pages are used in turn, a size has all of them or none: it must not depend on whether the sample has a few
        // pages too many.
        self.share *= match before {
            0..ENOUGH_PAGES => 0.5,
            before => self.slots.len() as f64 / before as f64,
        };
        let (rate, page_bytes) = (self.share, self.page_bytes);
        for memory in self.given.iter_mut().chain(&mut self.grid) {
            memory.resize(memory.pages, page_bytes, rate);
        }
    }

    /// The readahead that a twentieth of the pages, or more, are read with at least: a few pages of libraries with a long
    /// one are no reason for long blocks, of which a sample has fewer.
    fn window(&self) -> u64 {
        let all: u64 = self.windows.iter().sum();
        let mut above = 0;
        let is_common = |exponent: &usize| {
            above += self.windows[*exponent];
            above * 20 >= all
        };
        let exponent = (0..WINDOWS).rev().find(is_common);
        exponent.map_or(1, |exponent| 1 << exponent)
    }

    /// Begins to count here: what was simulated so far has filled the memories.
    pub fn start(&mut self) {
        self.counts = Counts::default();
        self.distances.clear();
        for memory in self.all_memories() {
            memory.missed = 0.0;
            memory.fetched = 0.0;
        }
    }

    /// Simulates an access.
    pub fn access(&mut self, access: &Access) {
        let is_read = matches!(access.kind, Kind::Read | Kind::Fault);
        if is_read {
            self.counts.requested += access.pages;
            let window = access.reader.map_or(0, |reader| reader.window).max(1);
            self.windows[(window.ilog2() as usize).min(WINDOWS - 1)] += access.pages;
        }
        let end = access.first.saturating_add(access.pages);
        if end == access.first {
            return;
        }
        let continues = match access.reader {
            Some(reader) => reader.continues,
            None => *self.recent_of(access.file) == Some((access.file, access.first)),
        };
        self.simulate(access, continues);
        if is_read {
            let recent = self.recent_of(access.file);
            *recent = Some((access.file, end - 1));
        }
    }

    /// Simulates an access block by block, as far as it is in the sample: the kernel sends no others.
    fn simulate(&mut self, access: &Access, continues: bool) {
        let end = access.first.saturating_add(access.pages);
        let mut part = *access;
        while part.first < end {
            let block_end = self.rate.block_end(part.first).min(end);
            part.pages = MOST_AT_ONCE.min(block_end - part.first);
            if self.rate.has(part.file, part.first) {
                match part.kind {
                    Kind::Read | Kind::Fault => {
                        self.read(&part, continues && part.first == access.first)
                    }
                    _ => self.change(&part),
                }
            }
            part.first += part.pages;
            if let Some(reader) = &mut part.reader {
                reader.continues = false;
                // Within a sample that is whole the parts are one request.
                reader.follows |= self.rate.is_whole();
            }
        }
    }

    fn read(&mut self, access: &Access, continues: bool) {
        let Access { file, first, .. } = *access;
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.clear();
        let slots = &mut self.slots;
        wanted.extend((first..first + access.pages).map_while(|page| slots.add(file, page)));
        let has_room = wanted.len() as u64 == access.pages;
        if has_room {
            let request = Request {
                file,
                first,
                slots: &wanted,
                reader: access.reader,
                continues,
                is_fault: access.kind == Kind::Fault,
                rate: self.rate,
            };
            let weight = 1.0 / self.share;
            let memories = std::iter::once(&mut self.unlimited)
                .chain(&mut self.given)
                .chain(&mut self.grid);
            for memory in memories {
                memory.read(&mut self.slots, &request, weight);
            }
            for slot in &wanted {
                self.distance(*slot, weight);
            }
            self.grow();
        }
        self.wanted = wanted;
        if !has_room {
            self.lower_rate();
            self.simulate(access, continues);
        }
    }

    /// Writes, inserts or removes pages.
    fn change(&mut self, access: &Access) {
        for page in access.first..access.first + access.pages {
            if access.kind == Kind::Remove {
                if let Some(slot) = self.slots.find(access.file, page) {
                    self.forget(slot);
                }
            } else if let Some(slot) = self.slot(access.file, page) {
                self.change_page(slot, access.kind);
                self.grow();
            }
        }
    }

    fn change_page(&mut self, slot: u32, kind: Kind) {
        if kind == Kind::Write {
            for cache in self.all_caches() {
                cache.access(slot, Touch::Uses);
            }
            self.stack.access(slot);
            return;
        }
        if kind == Kind::Resident {
            if !self.unlimited.cache.has(slot) {
                for cache in self.all_caches() {
                    cache.read_ahead(slot);
                }
                self.stack.access(slot);
            }
            return;
        }
        let weight = 1.0 / self.share;
        for memory in self.all_memories() {
            if memory.cache.read_ahead(slot) {
                memory.fetched += weight;
            }
        }
        self.distance(slot, weight);
    }

    /// Notes how much memory LRU would have needed to have the page.
    fn distance(&mut self, slot: u32, weight: f64) {
        match self.stack.access(slot) {
            Some(distance) => self.distances.add(distance as f64 * weight, weight),
            None => self.counts.first += weight,
        }
    }

    /// The page's slot; `None`: it is not in the sample, which becomes smaller if there is no room for the page.
    fn slot(&mut self, file: u64, page: u64) -> Option<u32> {
        while self.rate.has(file, page) {
            if let Some(slot) = self.slots.add(file, page) {
                return Some(slot);
            }
            self.lower_rate();
        }
        None
    }

    fn forget(&mut self, slot: u32) {
        self.slots.remove(slot);
        self.stack.forget(slot);
        for cache in self.all_caches() {
            cache.forget(slot);
        }
    }

    /// Begins to simulate the next size when the pages in use fill it.
    fn grow(&mut self) {
        let rate = self.share;
        while self.unlimited.cache.resident() as f64 >= self.next_size as f64 * rate {
            let memory = self
                .unlimited
                .limited(self.next_size, self.page_bytes, rate);
            let most = self.next_size;
            self.grid.retain(|memory| is_in_grid(memory.pages, most));
            self.grid.push(memory);
            self.next_size = next_size(self.next_size);
        }
    }

    fn recent_of(&mut self, file: u64) -> &mut Option<(u64, u64)> {
        &mut self.recent[file as usize % RECENT_FILES]
    }

    fn all_memories(&mut self) -> impl Iterator<Item = &mut Memory> {
        std::iter::once(&mut self.unlimited)
            .chain(&mut self.given)
            .chain(&mut self.grid)
    }

    fn all_caches(&mut self) -> impl Iterator<Item = &mut Cache> {
        self.all_memories().map(|memory| &mut memory.cache)
    }

    /// The curve so far. `requested` is the number of pages that were requested, for a source that leaves out accesses
    /// that are not in the sample; without it, the number that [`Estimator::access`] was given.
    #[must_use]
    pub fn curve(&self, requested: Option<u64>) -> Curve {
        let requested = requested.unwrap_or(self.counts.requested);
        // Hot pages fall into a sample or not: what the sample has too few or too many of are hits of any memory
        // (SHARDS-adj). So misses are held against all requests and not against the sampled ones.
        let ratio = |pages: f64| match requested {
            0 => None,
            requested => Some(pages / requested as f64),
        };
        let first = self.counts.first;
        // The next size of the grid has room for all pages in use.
        let roomy = Memory {
            pages: self.next_size,
            ..self.unlimited.clone()
        };
        let mut points: Vec<Point> = self
            .given
            .iter()
            .chain(&self.grid)
            .chain([&roomy])
            .map(|memory| {
                let beyond = self.distances.beyond(memory.pages as f64);
                Point {
                    memory: Pages(memory.pages),
                    is_given: memory.is_given,
                    is_in_grid: !memory.is_given,
                    missed: Pages(memory.missed.round() as u64),
                    fetched: Pages(memory.fetched.round() as u64),
                    miss_ratio: ratio(memory.missed),
                    fetched_ratio: ratio(memory.fetched),
                    lru_miss_ratio: ratio(beyond + first),
                }
            })
            .collect();
        points.sort_by_key(|point| (point.memory, !point.is_given));
        points.dedup_by(|next, kept| {
            let is_same = next.memory == kept.memory;
            kept.is_in_grid |= is_same && next.is_in_grid;
            is_same
        });
        let footprint = self.unlimited.cache.resident() as f64 / self.share;
        Curve {
            points,
            requested: Pages(requested),
            // A sample may have too many of them.
            missed: Pages(requested.min(self.unlimited.missed.round() as u64)),
            fetched: Pages(self.unlimited.fetched.round() as u64),
            floor: ratio(self.unlimited.fetched),
            footprint: Pages(footprint.round() as u64),
            largest_window: Pages(self.unlimited.streams.largest_window),
            rate: self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator(max_pages: usize) -> Estimator {
        Estimator::new(PageSize::new(4096).unwrap(), max_pages)
    }

    fn read(file: u64, first: u64, pages: u64) -> Access {
        Access {
            file,
            first,
            pages,
            kind: Kind::Read,
            reader: None,
        }
    }

    /// Pages of a file by a distribution that prefers low numbers, spread over the file.
    fn skewed(random: &mut fastrand::Rng, pages: u64) -> u64 {
        let rank = (random.f64().powi(4) * pages as f64) as u64;
        rank.wrapping_mul(7919) % pages
    }

    #[test]
    fn sizes_follow_the_footprint() {
        let mut estimator = estimator(1 << 16);
        estimator.access(&read(1, 0, 20_000));
        let curve = estimator.curve(None);
        assert!(curve.points.len() <= Estimator::MAX_SIZES + 1);
        let largest = curve.points.last().unwrap();
        assert!((20_000..22_500).contains(&largest.memory.0), "{largest:?}");
        assert_eq!(largest.fetched_ratio, curve.floor, "all pages fit");
        let below = curve.points[curve.points.len() - 2].memory.0;
        assert!((17_000..20_000).contains(&below), "{below}");
        assert!(curve.points.first().unwrap().memory.0 <= 512);
        assert_eq!(curve.footprint, Pages(20_000));
        assert_eq!(curve.floor, Some(1.0), "each page was read once");
    }

    #[test]
    fn size_that_begins_late_equals_one_that_was_there_from_the_start() {
        let mut estimator = estimator(1 << 16);
        estimator.memory(Pages(4096));
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..60_000 {
            estimator.access(&read(1, skewed(&mut random, 10_000), 1));
        }
        let given = &estimator.given[0];
        let late = estimator.grid.iter().find(|memory| memory.pages == 4096);
        assert_eq!(late.unwrap().fetched, given.fetched);
        assert!(given.fetched > 1000.0);
    }

    #[test]
    fn page_that_was_resident_before_is_no_miss_the_first_time() {
        let mut estimator = estimator(1 << 16);
        estimator.memory(Pages(300));
        let resident = |first| Access {
            kind: Kind::Resident,
            ..read(1, first, 1)
        };
        let fault = |first| Access {
            kind: Kind::Fault,
            ..read(1, first, 1)
        };
        for page in 0..1000 {
            estimator.access(&resident(page));
            estimator.access(&fault(page));
        }
        let curve = estimator.curve(None);
        assert!(
            curve
                .points
                .iter()
                .all(|point| point.miss_ratio == Some(0.0))
        );
        assert!(
            curve
                .points
                .iter()
                .all(|point| point.lru_miss_ratio == Some(0.0))
        );
        estimator.access(&resident(0));
        estimator.access(&fault(0));
        let missed = |size: u64| {
            let points = estimator.curve(None).points;
            let point = points.into_iter().find(|point| point.memory.0 >= size);
            point.map(|point| point.missed)
        };
        assert_eq!(
            missed(300),
            Some(Pages(1)),
            "the simulated memory evicted it"
        );
        assert_eq!(missed(1024), Some(Pages(0)));
    }

    #[test]
    fn sample_of_pages_that_just_fit_has_room_for_them() {
        for pages in [30_000, 30_011, 33_333] {
            let mut estimator = estimator(1 << 16);
            estimator.memory(Pages(pages));
            estimator.memory(Pages(pages - 40));
            for round in 0..4 {
                for page in 0..pages {
                    estimator.access(&read(1, page, 1));
                }
                if round == 0 {
                    estimator.lower_rate();
                    estimator.start();
                }
            }
            let missed = |given: &Memory| given.missed / (3 * pages) as f64;
            assert!(missed(&estimator.given[0]) < 0.01, "all of {pages} fit");
            assert!(missed(&estimator.given[1]) > 0.9, "not all of {pages} fit");
        }
    }

    #[test]
    fn sample_agrees_with_all_pages() {
        for policy in [Policy::Lists, Policy::Generations, Policy::LaterGenerations] {
            sample_agrees(policy);
        }
    }

    fn sample_agrees(policy: Policy) {
        let sizes = [2_000, 8_000, 20_000].map(Pages);
        let [all, sampled] = [1 << 17, 6_000].map(|max_pages| {
            let page_size = PageSize::new(4096).unwrap();
            let mut estimator = Estimator::with_policy(page_size, max_pages, policy);
            for size in sizes {
                estimator.memory(size);
            }
            let mut random = fastrand::Rng::with_seed(5);
            for number in 0..400_000 {
                if number == 200_000 {
                    estimator.start();
                }
                estimator.access(&read(1, skewed(&mut random, 40_000), 1));
            }
            estimator.curve(None)
        });
        assert_eq!(all.rate, Rate::ALL);
        assert!(sampled.rate.share() <= 0.25, "{:?}", sampled.rate);
        for size in sizes {
            let [one, other] = [&all, &sampled].map(|curve| {
                let point = curve.points.iter().find(|point| point.memory == size);
                *point.unwrap()
            });
            let apart =
                |one: Option<f64>, other: Option<f64>| (one.unwrap() - other.unwrap()).abs();
            assert!(
                apart(one.miss_ratio, other.miss_ratio) < 0.02,
                "{policy:?}: {one:?} {other:?}"
            );
            assert!(
                apart(one.lru_miss_ratio, other.lru_miss_ratio) < 0.02,
                "{policy:?}: {one:?} {other:?}"
            );
        }
    }

    #[test]
    fn hundred_million_pages_take_bounded_space() {
        const MAX_PAGES: usize = 4096;
        let mut estimator = estimator(MAX_PAGES);
        for request in 0..100_000 {
            estimator.access(&read(request / 1000, request % 1000 * 1000, 1000));
        }
        assert_eq!(estimator.counts.requested, 100_000_000);
        assert!(estimator.slots.len() <= MAX_PAGES);
        assert!(
            estimator.slots.highest() <= MAX_PAGES,
            "slots are used again"
        );
        assert!(estimator.grid.len() <= Estimator::MAX_SIZES);
        for memory in estimator.all_memories() {
            assert!(memory.cache.folios.slots() <= MAX_PAGES);
        }
        let footprint = estimator.curve(None).footprint.0;
        assert!(
            (90_000_000..110_000_000).contains(&footprint),
            "{footprint}"
        );
    }

    #[test]
    fn written_page_is_read_without_a_miss() {
        let mut estimator = estimator(1024);
        let write = Access {
            kind: Kind::Write,
            ..read(1, 0, 10)
        };
        estimator.access(&write);
        estimator.access(&read(1, 0, 10));
        let curve = estimator.curve(None);
        assert_eq!((curve.requested, curve.floor), (Pages(10), Some(0.0)));
    }

    #[test]
    fn removed_pages_leave_room() {
        let mut estimator = estimator(1024);
        estimator.access(&read(1, 0, 100));
        let remove = Access {
            kind: Kind::Remove,
            ..read(1, 0, 100)
        };
        estimator.access(&remove);
        assert_eq!(estimator.curve(None).footprint, Pages(0));
    }

    #[test]
    fn readahead_that_is_read_is_fetched_once() {
        let mut estimator = estimator(1024);
        let ahead = Access {
            kind: Kind::ReadAhead,
            ..read(1, 0, 8)
        };
        estimator.access(&ahead);
        estimator.access(&read(1, 0, 4));
        let curve = estimator.curve(None);
        assert_eq!(curve.fetched, Pages(8), "half of it is never read");
        assert_eq!(curve.missed, Pages(0), "all was read ahead");
        assert_eq!(curve.floor, Some(2.0), "fetched pages by requested ones");
    }
}
