//! The page cache of one memory size: its folios, and the policy that chooses which of them to evict.

use crate::folios::{Folios, New};
use crate::generations::{Generations, Rules};
use crate::lists::TwoLists;

/// How the kernel chooses pages to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// An active and an inactive list, with refault distances.
    #[default]
    Lists,
    /// The generations of MGLRU, by the rules of Linux 6.12, taken for 6.1 to 6.13.
    Generations,
    /// The same as since Linux 6.14, where the working set of a memory is kept apart. Not compared with a kernel.
    LaterGenerations,
}

/// The result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessResult {
    Hit,
    Miss,
}

/// The way that an access uses a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// As folio_mark_accessed() does.
    Marks,
    /// A read that continues in the folio in which the one before it ended, or a write: no mark.
    Uses,
}

/// A policy with its state in one memory.
#[derive(Debug, Clone)]
enum State {
    Lists(TwoLists),
    Generations(Generations),
}

impl State {
    fn of(policy: Policy) -> State {
        match policy {
            Policy::Lists => State::Lists(TwoLists::new()),
            Policy::Generations => State::Generations(Generations::new(Rules::First)),
            Policy::LaterGenerations => State::Generations(Generations::new(Rules::Later)),
        }
    }

    fn resize(&mut self, gibibytes: u64, rate: f64) {
        match self {
            State::Lists(lists) => lists.resize(gibibytes, rate),
            State::Generations(generations) => generations.resize(rate),
        }
    }

    fn mark(&mut self, folios: &mut Folios, folio: u32, in_fault: bool) {
        match self {
            State::Lists(lists) => lists.mark(folios, folio),
            State::Generations(generations) if in_fault => generations.map(folios, folio),
            State::Generations(generations) => generations.mark(folios, folio),
        }
    }

    fn insert(&mut self, folios: &mut Folios, new: New) {
        match self {
            State::Lists(lists) => lists.insert(folios, new.folio, new.pages, new.shadow),
            State::Generations(generations) => generations.insert(folios, new),
        }
    }

    fn reclaim(&mut self, folios: &mut Folios, capacity: u64, new: u64) {
        match self {
            State::Lists(lists) => lists.reclaim(folios, capacity, new),
            State::Generations(generations) => generations.reclaim(folios, capacity, new),
        }
    }
}

/// A page cache of fixed size. Pages are slots, numbered by the caller.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    pub(crate) folios: Folios,
    state: State,
    /// Pages are used by page faults, as in the kernel's lru_gen_in_fault().
    pub(crate) in_fault: bool,
    /// Pages of the sample that fit in.
    capacity: u64,
}

impl Cache {
    /// A memory without limit.
    pub(crate) fn unlimited(policy: Policy) -> Self {
        Cache {
            folios: Folios::new(),
            state: State::of(policy),
            in_fault: false,
            capacity: u64::MAX,
        }
    }

    /// Sets the size: `pages` of the memory, of which the sample has the share `rate`. `gibibytes` is the size in GiB,
    /// from which the kernel derives the balance of the lists.
    pub(crate) fn resize(&mut self, pages: u64, gibibytes: u64, rate: f64) {
        self.capacity = ((pages as f64 * rate).round() as u64).max(1);
        self.state.resize(gibibytes, rate);
        self.reclaim(0);
    }

    /// The largest folio that the kernel would charge to a memory of this size.
    pub(crate) fn largest_folio(&self) -> u64 {
        self.capacity / 2
    }

    pub(crate) fn resident(&self) -> u64 {
        self.folios.resident()
    }

    /// Returns whether a page is resident.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.folios.has(slot)
    }

    /// Uses a page.
    pub(crate) fn access(&mut self, slot: u32, touch: Touch) -> AccessResult {
        let found = match self.has(slot) {
            true => AccessResult::Hit,
            false => {
                self.insert(slot, &[]);
                AccessResult::Miss
            }
        };
        if touch == Touch::Marks {
            let folio = self.folios.folio(slot);
            self.state.mark(&mut self.folios, folio, self.in_fault);
        }
        found
    }

    /// Inserts a page that readahead fetched; false: it was there.
    pub(crate) fn read_ahead(&mut self, slot: u32) -> bool {
        self.read_ahead_folio(&[slot])
    }

    /// Inserts a folio that readahead fetched; false: one of its pages was there.
    pub(crate) fn read_ahead_folio(&mut self, slots: &[u32]) -> bool {
        if slots.iter().any(|slot| self.has(*slot)) {
            return false;
        }
        if let Some((first, rest)) = slots.split_first() {
            self.insert(*first, rest);
        }
        true
    }

    /// Forgets a page: its slot may become another's.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.folios.forget(slot);
    }

    fn insert(&mut self, first: u32, rest: &[u32]) {
        let pages = rest.len() as u64 + 1;
        // The folio is charged before it is inserted.
        self.reclaim(pages);
        let shadow = self.folios.join(first, rest);
        let new = New {
            folio: first,
            pages,
            shadow,
            in_fault: self.in_fault,
        };
        self.state.insert(&mut self.folios, new);
    }

    /// Makes room for this number of new pages.
    fn reclaim(&mut self, new: u64) {
        if self.resident() > self.capacity.saturating_sub(new) {
            self.state.reclaim(&mut self.folios, self.capacity, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Cache {
        /// Limits the cache without the batches of reclaim.
        pub(crate) fn resize_in_single_pages(&mut self, pages: u64) {
            self.resize(pages << 40, 0, 1.0 / (1u64 << 40) as f64);
        }
    }

    proptest::proptest! {
        #[test]
        fn memory_never_exceeds_its_size(
            size in 1u64..64,
            policy in proptest::sample::select(vec![Policy::Lists, Policy::Generations, Policy::LaterGenerations]),
            gibibytes in 0u64..20,
            slots in proptest::collection::vec((0u32..128, 0u8..8), 1..600),
        ) {
            let mut cache = Cache::unlimited(policy);
            cache.resize(size, gibibytes, 1.0);
            for (slot, how) in slots {
                match how {
                    0 => cache.forget(slot),
                    1 => { cache.read_ahead(slot); }
                    2 => { cache.access(slot, Touch::Uses); }
                    3 if size >= 8 => {
                        let first = slot / 4 * 4;
                        cache.read_ahead_folio(&[first, first + 1, first + 2, first + 3]);
                    }
                    _ => {
                        cache.access(slot, Touch::Marks);
                        proptest::prop_assert!(
                            cache.access(slot, Touch::Uses) == AccessResult::Hit,
                            "a page is there after its read"
                        );
                    }
                }
                proptest::prop_assert!(cache.resident() <= size);
            }
            let pages: u64 = (0..4).map(|list| cache.folios.walk(list)).sum();
            proptest::prop_assert_eq!(pages, cache.resident());
        }
    }
}
