//! [`simulate`]: what an order would cost, without reading anything.

use std::cmp::Reverse;

use cachewise_units::{ByteRange, Bytes};

use super::lru::TwoLists;
use super::{
    After, FileId, FileState, History, Keep, Mode, Plan, PlanOptions, RangeClass, Snapshot, plan,
};

/// In which order a cycle reads the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SimulatedOrder {
    /// File after file, as given.
    Given,
    /// Files with most bytes in the cache first, each as a whole.
    FilesByCached,
    /// Of all files the chunks that are resident first, then the others, in the order of the files.
    ExtentsFirst,
    /// By [`plan`], with its drop-behind and its history. A shuffle has another seed in each cycle.
    Planned(PlanOptions),
}

/// Reads files of these sizes again and again, from a cold start and with so much memory, and returns what each cycle
/// reads from the disk. Nothing is really read.
///
/// The cache models the kernel's classic reclaim, with an active and an inactive list; without
/// readahead, other processes, and the kernel's batches. So the result shows the effect of the
/// order alone.
///
/// # Cost
/// Under a microsecond for each 256 KiB and cycle, or for each 4096th part of the files where these are over 1 GiB,
/// and for each file.
#[must_use]
pub fn simulate(
    sizes: &[Bytes],
    memory: Bytes,
    order: SimulatedOrder,
    cycles: usize,
) -> Vec<Bytes> {
    let mut machine = Machine::new(sizes, memory, order);
    (0..cycles).map(|_| machine.cycle()).collect()
}

/// Size of a simulated page: a quarter of a chunk.
const GRAIN: u64 = 256 << 10;
const GRAINS_PER_CHUNK: u64 = 4;
/// How many grains there are at most in files that are larger than one.
const MOST_GRAINS: u64 = 1 << 12;

struct Machine {
    order: SimulatedOrder,
    sizes: Vec<u64>,
    grain: u64,
    /// Of each file the number of its first grain.
    first: Vec<usize>,
    cache: TwoLists,
    history: History,
    cycles: u64,
    /// Bytes that this cycle has read from the disk.
    read: u64,
}

impl Machine {
    fn new(sizes: &[Bytes], memory: Bytes, order: SimulatedOrder) -> Self {
        let sizes: Vec<u64> = sizes.iter().map(|size| size.0).collect();
        let total = sizes
            .iter()
            .fold(0, |sum: u64, size| sum.saturating_add(*size));
        let grain = (total / MOST_GRAINS).next_power_of_two().max(GRAIN);
        let mut first = Vec::with_capacity(sizes.len());
        let mut grains = Vec::new();
        for &size in &sizes {
            first.push(grains.len());
            grains.extend((0..size.div_ceil(grain)).map(|index| grain.min(size - index * grain)));
        }
        Self {
            order,
            sizes,
            grain,
            first,
            cache: TwoLists::new(memory.0, grains),
            history: History::default(),
            cycles: 0,
            read: 0,
        }
    }

    /// Reads every byte once.
    fn cycle(&mut self) -> Bytes {
        self.cycles += 1;
        self.read = 0;
        let snapshot = self.snapshot();
        match self.order {
            SimulatedOrder::Given => {
                let files = 0..snapshot.files.len();
                files.for_each(|file| self.read_range(file, snapshot.files[file].whole()));
            }
            SimulatedOrder::FilesByCached => {
                let mut files: Vec<_> = (0..snapshot.files.len()).collect();
                let cached = |file: &FileState| file.resident_in(file.whole());
                files.sort_by_key(|file| Reverse(cached(&snapshot.files[*file])));
                files
                    .into_iter()
                    .for_each(|file| self.read_range(file, snapshot.files[file].whole()));
            }
            SimulatedOrder::ExtentsFirst => {
                let mut chunks = Vec::new();
                for (file, state) in snapshot.files.iter().enumerate() {
                    chunks.extend(state.chunks(snapshot.chunk).map(|range| {
                        let is_absent = state.resident_in(range) != Some(Bytes(range.len));
                        (is_absent, file, range)
                    }));
                }
                chunks.sort_by_key(|(is_absent, ..)| *is_absent);
                chunks
                    .into_iter()
                    .for_each(|(_, file, range)| self.read_range(file, range));
            }
            SimulatedOrder::Planned(mut options) => {
                if let Mode::Shuffle(seed) = &mut options.mode {
                    *seed = seed.wrapping_add(self.cycles);
                }
                self.history.begin(&snapshot);
                let plan = plan(&snapshot, &self.history, &options);
                let hits = self.carry_out(&plan, &snapshot, options.keep);
                self.history.end(&plan, hits);
            }
        }
        Bytes(self.read)
    }

    fn grains(&self, file: usize, range: ByteRange) -> std::ops::Range<usize> {
        let first = self.first[file];
        first + (range.start / self.grain) as usize
            ..first + range.end().div_ceil(self.grain) as usize
    }

    fn read_range(&mut self, file: usize, range: ByteRange) {
        for grain in self.grains(file, range) {
            self.read = self.read.saturating_add(self.cache.read(grain));
        }
    }

    /// Does what a [`Scan`](super::Scan) does, and returns what came of the planned hits.
    fn carry_out(&mut self, plan: &Plan, snapshot: &Snapshot, keep: Keep) -> Bytes {
        let mut hits = 0;
        for step in plan.steps() {
            let grains = self.grains(step.file, step.range);
            let was_absent: Vec<_> = grains
                .clone()
                .filter(|grain| !self.cache.is_resident(*grain))
                .collect();
            let before = self.read;
            self.read_range(step.file, step.range);
            let file = &snapshot.files[step.file];
            self.history.read(file.id, step.range.start);
            if step.class == RangeClass::Hit {
                hits += step.range.len.saturating_sub(self.read - before);
                if keep != Keep::Share && plan.declined.is_none() {
                    was_absent
                        .into_iter()
                        .for_each(|grain| self.cache.drop(grain));
                }
            } else if step.after == After::Drop {
                for absent in file.absent_in(step.range) {
                    let grains = self.grains(step.file, absent);
                    grains.for_each(|grain| self.cache.drop(grain));
                }
            }
        }
        Bytes(hits)
    }

    fn snapshot(&self) -> Snapshot {
        let files = self.sizes.iter().enumerate().map(|(index, &size)| {
            let mut resident: Vec<ByteRange> = Vec::new();
            let whole = ByteRange {
                start: 0,
                len: size,
            };
            let offsets = (0..).step_by(self.grain as usize);
            for (grain, start) in self.grains(index, whole).zip(offsets) {
                let len = self.grain.min(size - start);
                match resident.last_mut() {
                    _ if !self.cache.is_resident(grain) => {}
                    Some(last) if last.end() == start => last.len += len,
                    _ => resident.push(ByteRange { start, len }),
                }
            }
            FileState {
                id: FileId {
                    device: (0, 0),
                    number: index as u64,
                },
                size: Bytes(size),
                resident: Some(resident),
                open_elsewhere: false,
            }
        });
        Snapshot {
            files: files.collect(),
            chunk: Bytes(self.grain * GRAINS_PER_CHUNK),
            headroom: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Eight files of 128 MiB, as in the bench.
    const FILES: [Bytes; 8] = [Bytes(128 * MIB); 8];

    fn planned(mode: Mode, keep: Keep) -> SimulatedOrder {
        SimulatedOrder::Planned(PlanOptions {
            mode,
            keep,
            each_link: false,
        })
    }

    /// Returns the MiB that a cycle reads in the end: the mean of the last eight of 24.
    fn settled(memory: u64, order: SimulatedOrder) -> u64 {
        let cycles = simulate(&FILES, Bytes(memory * MIB), order, 24);
        cycles[16..].iter().map(|read| read.0).sum::<u64>() / 8 / MIB
    }

    #[test]
    fn plans_come_to_the_bound_and_others_do_not() {
        for memory in [500, 700, 960] {
            let bound = 1024 - memory;
            for mode in [Mode::Free, Mode::Fixed, Mode::Shuffle(1)] {
                let read = settled(memory, planned(mode, Keep::Keep));
                let most = bound + bound / 20 + 4;
                assert!(
                    (bound..=most).contains(&read),
                    "{mode:?} in {memory} MiB: {read} MiB"
                );
            }
            let free = settled(memory, planned(Mode::Free, Keep::Share));
            let sorted = settled(memory, SimulatedOrder::FilesByCached);
            assert!(
                bound <= free && free < sorted,
                "in {memory} MiB: {free} MiB, sorted files {sorted} MiB"
            );
            let given = settled(memory, SimulatedOrder::Given);
            assert_eq!(given, 1024, "in {memory} MiB, the given order hits nothing");
        }
    }

    #[test]
    fn a_fixed_order_that_may_drop_nothing_is_the_callers() {
        for memory in [512, 768, 960] {
            assert_eq!(
                settled(memory, planned(Mode::Fixed, Keep::Share)),
                settled(memory, SimulatedOrder::Given),
                "in {memory} MiB"
            );
        }
    }

    #[test]
    fn a_cache_that_grows_is_filled_and_one_that_shrinks_is_no_harm() {
        for mode in [Mode::Free, Mode::Fixed, Mode::Shuffle(1)] {
            let mut machine = Machine::new(&FILES, Bytes(512 * MIB), planned(mode, Keep::Keep));
            let read = |machine: &mut Machine| (machine.cycle().0) / MIB;
            for _ in 0..8 {
                read(&mut machine);
            }
            machine.cache.set_room(896 * MIB);
            let growing: Vec<_> = (0..12).map(|_| read(&mut machine)).collect();
            assert!(
                growing[11] <= 128 + 8,
                "{mode:?}: 128 MiB are left to read: {growing:?}"
            );
            machine.cache.set_room(512 * MIB);
            let shrunk: Vec<_> = (0..4).map(|_| read(&mut machine)).collect();
            assert!(
                shrunk[1..].iter().all(|read| *read <= 512 + 32),
                "{mode:?}: {shrunk:?}"
            );
        }
    }

    #[test]
    fn the_cache_is_left_as_it_was_found() {
        let mut machine = Machine::new(&FILES, Bytes(768 * MIB), SimulatedOrder::Given);
        machine.cycle();
        let found = machine.snapshot();
        machine.order = planned(Mode::Fixed, Keep::AsFound);
        machine.cycle();
        let missing = found.total().0 - machine.snapshot().resident().0;
        // A chunk's worth of room is needed to read through.
        assert!(
            missing <= 256 * MIB + 4 * MIB,
            "{} MiB are missing, 256 were",
            missing / MIB
        );
    }

    #[test]
    fn huge_files_cost_little() {
        let cycles = simulate(
            &[Bytes(1 << 50), Bytes(1 << 40)],
            Bytes(1 << 49),
            planned(Mode::Free, Keep::Keep),
            4,
        );
        let bound = (1 << 49) + (1 << 40);
        assert!(
            cycles[3].0 >= bound && cycles[3].0 <= bound + bound / 10,
            "near the bound: {cycles:?}"
        );
    }

    proptest! {
        #[test]
        fn never_worse_than_the_callers_order_but_for_probes(
            sizes in prop::collection::vec((0..20 * MIB).prop_map(Bytes), 1..8),
            share in 1..120_u64,
            mode in prop::sample::select(&[Mode::Free, Mode::Fixed]),
            keep in prop::sample::select(&[Keep::Share, Keep::Keep]),
        ) {
            const CYCLES: usize = 24;
            let total: Bytes = sizes.iter().sum();
            let memory = Bytes(total.0 / 100 * share);
            let sum = |order| {
                let cycles = simulate(&sizes, memory, order, CYCLES);
                cycles.iter().map(|read| read.0).sum::<u64>()
            };
            let (callers, ours) = (sum(SimulatedOrder::Given), sum(planned(mode, keep)));
            // Each cycle admits some bytes as a probe, and evicts as many for them.
            let probes = CYCLES as u64 * 2 * 4 * MIB;
            prop_assert!(
                ours <= callers + probes,
                "{} MiB in place of {} MiB", ours / MIB, callers / MIB
            );
        }
    }
}
