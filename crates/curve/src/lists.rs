//! One memory size: the kernel's active and inactive list, simulated.

/// No neighbour; no shadow entry.
const NONE: u32 = u32::MAX;

/// Pages that one reclaim frees at least: SWAP_CLUSTER_MAX.
const RECLAIM_PAGES: f64 = 32.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Inactive,
    Active,
}

/// A page in one simulated memory.
#[derive(Debug, Clone, Copy)]
struct Node {
    place: Place,
    referenced: bool,
    /// A page that is out has a shadow entry in `previous`: the age at its eviction.
    evicted: bool,
    previous: u32,
    next: u32,
}

const UNKNOWN: Node = Node {
    place: Place::Out,
    referenced: false,
    evicted: false,
    previous: NONE,
    next: NONE,
};

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    pages: u64,
}

const EMPTY: List = List {
    head: NONE,
    tail: NONE,
    pages: 0,
};

/// The result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Hit,
    Miss,
}

/// The way that an access uses a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// As folio_mark_accessed() does.
    Marks,
    /// A read that continues in the page in which the one before it ended, or a write: no mark.
    Uses,
}

/// The two lists of a memory of fixed size, with referenced bits and refault distances.
///
/// Pages are slots, numbered by the caller.
#[derive(Debug, Clone)]
pub(crate) struct TwoLists {
    nodes: Vec<Node>,
    inactive: List,
    active: List,
    /// Active pages that are to be deactivated, less than one.
    share: f64,
    /// The kernel's nonresident_age: evictions and activations so far.
    age: u32,
    /// Pages of the sample that fit in.
    capacity: u64,
    /// Active pages allowed for each inactive page.
    ratio: u64,
    /// Pages that one reclaim frees, of the sample.
    batch: u64,
}

impl TwoLists {
    /// A memory without limit.
    pub(crate) fn unlimited() -> Self {
        TwoLists {
            nodes: Vec::new(),
            inactive: EMPTY,
            active: EMPTY,
            share: 0.0,
            age: 0,
            capacity: u64::MAX,
            ratio: 1,
            batch: 1,
        }
    }

    /// Sets the size: `pages` of the memory, of which the sample has the share `rate`. `gibibytes` is the size in GiB,
    /// from which the kernel derives the balance of the lists.
    pub(crate) fn resize(&mut self, pages: u64, gibibytes: u64, rate: f64) {
        self.capacity = ((pages as f64 * rate).round() as u64).max(1);
        // inactive_is_low() of mm/vmscan.c
        self.ratio = if gibibytes > 0 {
            (10 * gibibytes).isqrt()
        } else {
            1
        };
        self.batch = ((RECLAIM_PAGES * rate).round() as u64).max(1);
        self.reclaim(0);
    }

    pub(crate) fn resident(&self) -> u64 {
        self.inactive.pages + self.active.pages
    }

    /// The kernel takes both lengths, also where it compares a refault distance, from statistics that are up to two seconds
    /// old. Simulated so, the results for loads with loops were farther from real ones, by 1.9 points instead of 1.3 on the
    /// average of 20 runs: the phase of the flushes is not known.
    fn inactive_is_low(&self) -> bool {
        self.inactive.pages.saturating_mul(self.ratio) < self.active.pages
    }

    /// Slots that have memory.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// Uses a page.
    pub(crate) fn access(&mut self, slot: u32, touch: Touch) -> Found {
        let index = slot as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, UNKNOWN);
        }
        let node = self.nodes[index];
        match node.place {
            Place::Active => {
                if touch == Touch::Marks {
                    self.nodes[index].referenced = true;
                }
                Found::Hit
            }
            Place::Inactive => {
                if touch == Touch::Uses {
                } else if node.referenced {
                    self.remove(slot);
                    self.push(slot, Place::Active);
                    self.nodes[index].referenced = false;
                    self.age = self.age.wrapping_add(1);
                } else {
                    self.nodes[index].referenced = true;
                }
                Found::Hit
            }
            Place::Out => {
                self.insert(slot, node);
                self.nodes[index].referenced = touch == Touch::Marks;
                Found::Miss
            }
        }
    }

    /// Inserts a page that readahead fetched; false: it was there.
    pub(crate) fn read_ahead(&mut self, slot: u32) -> bool {
        let index = slot as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, UNKNOWN);
        }
        let node = self.nodes[index];
        if node.place != Place::Out {
            return false;
        }
        self.insert(slot, node);
        self.nodes[index].referenced = false;
        true
    }

    /// Forgets a page: its slot may become another's.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(node) = self.nodes.get(slot as usize) else {
            return;
        };
        if node.place != Place::Out {
            self.remove(slot);
        }
        self.nodes[slot as usize] = UNKNOWN;
    }

    /// workingset_refault(): active at once if the page would have stayed in a memory larger by the active list.
    fn insert(&mut self, slot: u32, node: Node) {
        // The page is charged before it is inserted.
        self.reclaim(1);
        let distance = self.age.wrapping_sub(node.previous);
        if node.evicted && u64::from(distance) <= self.active.pages {
            self.age = self.age.wrapping_add(1);
            self.push(slot, Place::Active);
        } else {
            self.push(slot, Place::Inactive);
        }
    }

    /// Makes room for this number of new pages.
    fn reclaim(&mut self, new: u64) {
        let fits = self.capacity.saturating_sub(new);
        if self.resident() <= fits {
            return;
        }
        let goal = self.capacity.saturating_sub(self.batch);
        while self.resident() > goal {
            if self.inactive_is_low() {
                // Both lists are scanned in proportion to their lengths.
                self.share += self.active.pages as f64 / self.inactive.pages.max(1) as f64;
                while self.share >= 1.0 && self.deactivate() {
                    self.share -= 1.0;
                }
                self.share = self.share.min(1.0);
            }
            if !self.evict() {
                self.deactivate();
            }
        }
    }

    /// Moves the last page of the active list, as shrink_active_list() does.
    fn deactivate(&mut self) -> bool {
        let slot = self.active.tail;
        if slot == NONE {
            return false;
        }
        self.remove(slot);
        // The referenced bit stays.
        self.push(slot, Place::Inactive);
        true
    }

    /// Evicts the last page of the inactive list, referenced or not, as shrink_folio_list() does with clean pages.
    fn evict(&mut self) -> bool {
        let slot = self.inactive.tail;
        if slot == NONE {
            return false;
        }
        self.remove(slot);
        self.nodes[slot as usize] = Node {
            place: Place::Out,
            referenced: false,
            evicted: true,
            previous: self.age,
            next: NONE,
        };
        self.age = self.age.wrapping_add(1);
        true
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Active => &mut self.active,
            Place::Inactive | Place::Out => &mut self.inactive,
        }
    }

    fn push(&mut self, slot: u32, place: Place) {
        let list = self.list(place);
        let head = list.head;
        list.head = slot;
        list.pages += 1;
        if head == NONE {
            list.tail = slot;
        } else {
            self.nodes[head as usize].previous = slot;
        }
        let node = &mut self.nodes[slot as usize];
        node.place = place;
        node.previous = NONE;
        node.next = head;
    }

    fn remove(&mut self, slot: u32) {
        let Node {
            place,
            previous,
            next,
            ..
        } = self.nodes[slot as usize];
        if previous == NONE {
            self.list(place).head = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
        if next == NONE {
            self.list(place).tail = previous;
        } else {
            self.nodes[next as usize].previous = previous;
        }
        self.list(place).pages -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(pages: u64) -> TwoLists {
        let mut lists = TwoLists::unlimited();
        // One page at a time, as with a thin sample.
        lists.capacity = pages;
        lists
    }

    /// Follows the links of a list from both ends.
    fn walk(lists: &TwoLists, list: &List) -> usize {
        let (mut slot, mut previous, mut pages) = (list.head, NONE, 0);
        while slot != NONE {
            assert_eq!(lists.nodes[slot as usize].previous, previous, "links agree");
            previous = slot;
            slot = lists.nodes[slot as usize].next;
            pages += 1;
        }
        assert_eq!(list.tail, previous, "the tail is the last page");
        pages
    }

    #[test]
    fn second_read_of_inactive_page_activates_it() {
        let mut lists = limited(10);
        assert_eq!(lists.access(1, Touch::Marks), Found::Miss);
        assert_eq!(lists.access(1, Touch::Marks), Found::Hit);
        assert_eq!((lists.active.pages, lists.inactive.pages), (1, 0));
    }

    #[test]
    fn read_that_continues_in_a_page_does_not_activate_it() {
        let mut lists = limited(10);
        lists.access(1, Touch::Marks);
        lists.access(1, Touch::Uses);
        assert_eq!((lists.active.pages, lists.inactive.pages), (0, 1));
    }

    #[test]
    fn scan_does_not_evict_active_pages() {
        let mut lists = limited(10);
        for slot in 0..4 {
            lists.access(slot, Touch::Marks);
            lists.access(slot, Touch::Marks);
        }
        for slot in 100..1000 {
            lists.access(slot, Touch::Marks);
        }
        for slot in 0..4 {
            assert_eq!(lists.access(slot, Touch::Marks), Found::Hit, "page {slot}");
        }
    }

    #[test]
    fn early_refault_activates_the_page() {
        let mut lists = limited(8);
        for slot in 0..4 {
            lists.access(slot, Touch::Marks);
            lists.access(slot, Touch::Marks);
        }
        for slot in 10..16 {
            lists.access(slot, Touch::Marks);
        }
        assert_eq!(lists.nodes[10].place, Place::Out, "the limit evicted it");
        let active = lists.active.pages;
        assert_eq!(lists.access(10, Touch::Marks), Found::Miss);
        assert_eq!(lists.nodes[10].place, Place::Active);
        assert!(lists.active.pages >= active, "it is added to the list");
    }

    #[test]
    fn forgotten_page_is_a_first_access_again() {
        let mut lists = limited(8);
        lists.access(1, Touch::Marks);
        lists.forget(1);
        assert_eq!(lists.resident(), 0);
        assert_eq!(lists.access(1, Touch::Marks), Found::Miss);
        assert_eq!(lists.inactive.pages, 1);
    }

    proptest::proptest! {
        #[test]
        fn memory_never_exceeds_its_size(
            size in 1u64..64,
            gibibytes in 0u64..20,
            slots in proptest::collection::vec((0u32..128, 0u8..8), 1..600),
        ) {
            let mut lists = TwoLists::unlimited();
            lists.resize(size, gibibytes, 1.0);
            for (slot, how) in slots {
                match how {
                    0 => lists.forget(slot),
                    1 => { lists.read_ahead(slot); }
                    2 => { lists.access(slot, Touch::Uses); }
                    _ => {
                        lists.access(slot, Touch::Marks);
                        proptest::prop_assert!(
                            lists.access(slot, Touch::Uses) == Found::Hit,
                            "a page is there after its read"
                        );
                    }
                }
                proptest::prop_assert!(lists.resident() <= size);
            }
            let pages = walk(&lists, &lists.active) + walk(&lists, &lists.inactive);
            proptest::prop_assert_eq!(pages as u64, lists.resident());
        }
    }
}
