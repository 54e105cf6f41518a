//! One memory size: the kernel's active and inactive list, simulated.

use crate::pages::NONE;

/// Pages that one reclaim frees at least: SWAP_CLUSTER_MAX.
const RECLAIM_PAGES: f64 = 32.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Inactive,
    Active,
    /// In a folio whose first page is `previous`; `next` is the folio's next page.
    Part,
}

/// A page in one simulated memory. Folios are in the lists by their first page.
#[derive(Debug, Clone, Copy)]
struct Node {
    place: Place,
    referenced: bool,
    /// A page that is out has a shadow entry in `previous`: the age at its eviction.
    evicted: bool,
    /// The next readahead begins when this folio is read.
    marked: bool,
    previous: u32,
    next: u32,
    /// The second page of a folio.
    part: u32,
}

const UNKNOWN: Node = Node {
    place: Place::Out,
    referenced: false,
    evicted: false,
    marked: false,
    previous: NONE,
    next: NONE,
    part: NONE,
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
    /// A read that continues in the folio in which the one before it ended, or a write: no mark.
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
    /// Active pages that are to be deactivated; below 0 after a folio that had more.
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

    /// The largest folio that the kernel would charge to a memory of this size.
    pub(crate) fn largest_folio(&self) -> u64 {
        self.capacity / 2
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

    /// Returns whether a page is resident.
    pub(crate) fn has(&self, slot: u32) -> bool {
        let node = self.nodes.get(slot as usize);
        node.is_some_and(|node| node.place != Place::Out)
    }

    /// The folio of a resident page, by its first page.
    pub(crate) fn folio(&self, slot: u32) -> u32 {
        match self.nodes.get(slot as usize) {
            Some(node) if node.place == Place::Part => node.previous,
            _ => slot,
        }
    }

    /// The next readahead is to begin when this page's folio is read.
    pub(crate) fn mark(&mut self, slot: u32) {
        let folio = self.folio(slot) as usize;
        self.nodes[folio].marked = true;
    }

    /// Takes the mark from a page's folio; returns whether there was one.
    pub(crate) fn take_mark(&mut self, slot: u32) -> bool {
        let folio = self.folio(slot) as usize;
        let node = self.nodes.get_mut(folio);
        node.is_some_and(|node| std::mem::take(&mut node.marked))
    }

    /// Uses a page.
    pub(crate) fn access(&mut self, slot: u32, touch: Touch) -> Found {
        self.make_node(slot);
        let slot = self.folio(slot);
        let index = slot as usize;
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
                    let pages = self.remove(slot);
                    self.push(slot, Place::Active, pages);
                    self.nodes[index].referenced = false;
                    self.grow_old(pages);
                } else {
                    self.nodes[index].referenced = true;
                }
                Found::Hit
            }
            Place::Out | Place::Part => {
                self.insert(&[slot]);
                self.nodes[index].referenced = touch == Touch::Marks;
                Found::Miss
            }
        }
    }

    /// Inserts a page that readahead fetched; false: it was there.
    pub(crate) fn read_ahead(&mut self, slot: u32) -> bool {
        if self.has(slot) {
            return false;
        }
        self.insert(&[slot]);
        true
    }

    /// Inserts a folio that readahead fetched; false: one of its pages was there.
    pub(crate) fn read_ahead_folio(&mut self, slots: &[u32]) -> bool {
        if slots.iter().any(|slot| self.has(*slot)) {
            return false;
        }
        self.insert(slots);
        true
    }

    /// Forgets a page: its slot may become another's.
    pub(crate) fn forget(&mut self, slot: u32) {
        if slot as usize >= self.nodes.len() {
            return;
        }
        if self.has(slot) {
            self.split(self.folio(slot));
            self.remove(slot);
        }
        self.nodes[slot as usize] = UNKNOWN;
    }

    fn make_node(&mut self, slot: u32) {
        if slot as usize >= self.nodes.len() {
            self.nodes.resize(slot as usize + 1, UNKNOWN);
        }
    }

    fn grow_old(&mut self, pages: u64) {
        self.age = self.age.wrapping_add(pages as u32);
    }

    /// workingset_refault(): active at once if the folio would have stayed in a memory larger by the active list.
    fn insert(&mut self, slots: &[u32]) {
        let Some((first, rest)) = slots.split_first() else {
            return;
        };
        let pages = slots.len() as u64;
        // The folio is charged before it is inserted.
        self.reclaim(pages);
        let mut shadow = None;
        let mut part = NONE;
        for slot in rest.iter().rev() {
            self.make_node(*slot);
            let node = &mut self.nodes[*slot as usize];
            shadow = shadow.or(node.evicted.then_some(node.previous));
            *node = Node {
                place: Place::Part,
                previous: *first,
                next: part,
                ..UNKNOWN
            };
            part = *slot;
        }
        self.make_node(*first);
        let node = self.nodes[*first as usize];
        shadow = shadow.or(node.evicted.then_some(node.previous));
        self.nodes[*first as usize] = Node { part, ..UNKNOWN };
        let distance = shadow.map(|then| u64::from(self.age.wrapping_sub(then)));
        if distance.is_some_and(|distance| distance <= self.active.pages) {
            self.grow_old(pages);
            self.push(*first, Place::Active, pages);
        } else {
            self.push(*first, Place::Inactive, pages);
        }
    }

    /// Makes room for this number of new pages.
    fn reclaim(&mut self, new: u64) {
        let fits = self.capacity.saturating_sub(new);
        if self.resident() <= fits {
            return;
        }
        let goal = self.capacity.saturating_sub(self.batch.max(new));
        while self.resident() > goal {
            if self.inactive_is_low() {
                // Both lists are scanned in proportion to their lengths.
                let scanned = self.pages_of(self.inactive.tail).max(1);
                self.share +=
                    (scanned * self.active.pages) as f64 / self.inactive.pages.max(1) as f64;
                while self.share >= 1.0 {
                    match self.deactivate() {
                        0 => break,
                        pages => self.share -= pages as f64,
                    }
                }
                self.share = self.share.min(1.0);
            }
            if !self.evict() && self.deactivate() == 0 {
                return;
            }
        }
    }

    /// Moves the last folio of the active list, as shrink_active_list() does; returns its pages.
    fn deactivate(&mut self) -> u64 {
        let slot = self.active.tail;
        if slot == NONE {
            return 0;
        }
        let pages = self.remove(slot);
        // The referenced bit stays.
        self.push(slot, Place::Inactive, pages);
        pages
    }

    /// Evicts the last folio of the inactive list, referenced or not, as shrink_folio_list() does with clean pages.
    fn evict(&mut self) -> bool {
        let slot = self.inactive.tail;
        if slot == NONE {
            return false;
        }
        let pages = self.remove(slot);
        let mut part = slot;
        let mut next = self.nodes[slot as usize].part;
        while part != NONE {
            self.nodes[part as usize] = Node {
                evicted: true,
                previous: self.age,
                ..UNKNOWN
            };
            part = next;
            if next != NONE {
                next = self.nodes[next as usize].next;
            }
        }
        self.grow_old(pages);
        true
    }

    /// Makes pages of a folio, at its place in its list.
    fn split(&mut self, folio: u32) {
        let place = self.nodes[folio as usize].place;
        let mut part = std::mem::replace(&mut self.nodes[folio as usize].part, NONE);
        while part != NONE {
            let next = self.nodes[part as usize].next;
            let after = self.nodes[folio as usize].next;
            self.nodes[part as usize] = Node {
                place,
                previous: folio,
                next: after,
                ..UNKNOWN
            };
            self.nodes[folio as usize].next = part;
            match after {
                NONE => self.list(place).tail = part,
                after => self.nodes[after as usize].previous = part,
            }
            part = next;
        }
    }

    /// Pages of the folio that begins with this page.
    pub(crate) fn pages_of(&self, folio: u32) -> u64 {
        if folio == NONE {
            return 0;
        }
        let (mut part, mut pages) = (self.nodes[folio as usize].part, 1);
        while part != NONE {
            pages += 1;
            part = self.nodes[part as usize].next;
        }
        pages
    }

    fn list(&mut self, place: Place) -> &mut List {
        match place {
            Place::Active => &mut self.active,
            Place::Inactive | Place::Out | Place::Part => &mut self.inactive,
        }
    }

    fn push(&mut self, slot: u32, place: Place, pages: u64) {
        let list = self.list(place);
        let head = list.head;
        list.head = slot;
        list.pages += pages;
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

    /// Takes a folio from its list; returns its pages.
    fn remove(&mut self, slot: u32) -> u64 {
        let pages = self.pages_of(slot);
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
        self.list(place).pages -= pages;
        pages
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
            pages += lists.pages_of(slot) as usize;
            slot = lists.nodes[slot as usize].next;
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
    fn folio_moves_and_leaves_as_one() {
        let mut lists = limited(16);
        assert!(lists.read_ahead_folio(&[1, 2, 3, 4]));
        assert!(!lists.read_ahead_folio(&[4, 5]), "a page of it is there");
        lists.access(2, Touch::Marks);
        lists.access(3, Touch::Marks);
        assert_eq!((lists.active.pages, lists.inactive.pages), (4, 0));
        for slot in 100..200 {
            lists.access(slot, Touch::Marks);
            lists.access(slot, Touch::Marks);
        }
        assert!((1..=4).all(|slot| !lists.has(slot)), "all of it is evicted");
    }

    #[test]
    fn folio_without_one_of_its_pages_keeps_the_others() {
        for gone in 1..=4 {
            let mut lists = limited(16);
            lists.access(7, Touch::Marks);
            lists.read_ahead_folio(&[1, 2, 3, 4]);
            lists.access(8, Touch::Marks);
            lists.forget(gone);
            assert_eq!(lists.resident(), 5);
            assert_eq!(walk(&lists, &lists.inactive), 5);
            assert!((1..=4).all(|slot| lists.has(slot) == (slot != gone)));
        }
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
                    3 if size >= 8 => { lists.read_ahead_folio(&[slot / 4 * 4, slot / 4 * 4 + 1, slot / 4 * 4 + 2, slot / 4 * 4 + 3]); }
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
