//! [`TwoLists`]: a page cache that is thought up.

use std::collections::BTreeMap;

/// The two lists of Linux' classic reclaim, for file pages that are only read.
///
/// A page enters at the head of the inactive list, moves to the active list at its second read, and
/// is evicted at the tail of the inactive list. A page that returns before as many bytes were
/// evicted as the active list holds moves to the active list at once. That is the kernel's rule
/// without its batches, folios and readahead.
#[derive(Debug)]
pub(super) struct TwoLists {
    room: u64,
    used: u64,
    pages: Vec<Page>,
    inactive: List,
    active: List,
    /// Bytes that were evicted or activated so far.
    age: u128,
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    bytes: u64,
    place: ListPosition,
    was_read: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum ListPosition {
    /// Not resident, and not remembered.
    #[default]
    Nowhere,
    /// Evicted at this age.
    Evicted(u128),
    Inactive(u64),
    Active(u64),
}

/// Page by when it came to the head.
#[derive(Debug, Default)]
struct List {
    pages: BTreeMap<u64, usize>,
    bytes: u64,
    clock: u64,
}

impl List {
    fn push(&mut self, page: usize, bytes: u64) -> u64 {
        self.clock += 1;
        self.pages.insert(self.clock, page);
        self.bytes += bytes;
        self.clock
    }

    fn remove(&mut self, key: u64, bytes: u64) {
        self.pages.remove(&key);
        self.bytes -= bytes;
    }
}

impl TwoLists {
    /// Makes a cache of this size, for pages of these sizes, none of which is resident.
    pub fn new(room: u64, sizes: impl IntoIterator<Item = u64>) -> Self {
        let page = |bytes| Page {
            bytes,
            ..Page::default()
        };
        Self {
            room,
            used: 0,
            pages: sizes.into_iter().map(page).collect(),
            inactive: List::default(),
            active: List::default(),
            age: 0,
        }
    }

    #[cfg(test)]
    pub fn set_room(&mut self, room: u64) {
        self.room = room;
        self.reclaim(0);
    }

    pub fn is_resident(&self, page: usize) -> bool {
        matches!(
            self.pages[page].place,
            ListPosition::Inactive(_) | ListPosition::Active(_)
        )
    }

    /// Reads a page, and returns the bytes read from a device: 0 if it was resident.
    pub fn read(&mut self, page: usize) -> u64 {
        let Page {
            bytes,
            place,
            was_read,
        } = self.pages[page];
        let activates = match place {
            ListPosition::Active(_) => false,
            ListPosition::Inactive(_) => was_read,
            ListPosition::Evicted(age) => self.age - age <= u128::from(self.active.bytes),
            ListPosition::Nowhere => false,
        };
        let is_resident = self.is_resident(page);
        if !is_resident {
            self.reclaim(bytes);
            self.used += bytes;
        }
        if activates {
            if let ListPosition::Inactive(key) = place {
                self.inactive.remove(key, bytes);
            }
            self.age += u128::from(bytes);
            self.pages[page].place = ListPosition::Active(self.active.push(page, bytes));
        } else if !is_resident {
            self.pages[page].place = ListPosition::Inactive(self.inactive.push(page, bytes));
        }
        // Activation clears the mark of the first read.
        self.pages[page].was_read = !activates;
        if is_resident { 0 } else { bytes }
    }

    /// Puts a page out on purpose, which is not remembered.
    pub fn drop(&mut self, page: usize) {
        let Page { bytes, place, .. } = self.pages[page];
        match place {
            ListPosition::Inactive(key) => self.inactive.remove(key, bytes),
            ListPosition::Active(key) => self.active.remove(key, bytes),
            ListPosition::Nowhere | ListPosition::Evicted(_) => return,
        }
        self.used -= bytes;
        self.pages[page].place = ListPosition::Nowhere;
    }

    /// Evicts pages until this number of bytes fits.
    fn reclaim(&mut self, bytes: u64) {
        while self.used + bytes > self.room {
            // The inactive list is kept at least as long as the active one.
            while self.inactive.bytes < self.active.bytes {
                let Some((_, page)) = self.active.pages.pop_first() else {
                    break;
                };
                let bytes = self.pages[page].bytes;
                self.active.bytes -= bytes;
                self.pages[page].was_read = false;
                self.pages[page].place = ListPosition::Inactive(self.inactive.push(page, bytes));
            }
            let Some((_, page)) = self.inactive.pages.pop_first() else {
                break;
            };
            let bytes = self.pages[page].bytes;
            self.inactive.bytes -= bytes;
            self.used -= bytes;
            self.age += u128::from(bytes);
            self.pages[page].place = ListPosition::Evicted(self.age);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cycle_larger_than_the_cache_hits_nothing() {
        let mut cache = TwoLists::new(8, [1; 10]);
        let cost: u64 = (0..30).map(|read| cache.read(read % 10)).sum();
        assert_eq!(cost, 30, "each page is gone just before it is wanted");
    }

    #[test]
    fn page_read_twice_survives_a_scan() {
        let mut cache = TwoLists::new(8, [1; 40]);
        for page in [0, 1, 0, 1] {
            cache.read(page);
        }
        for page in 2..40 {
            cache.read(page);
        }
        assert_eq!(
            (cache.read(0), cache.read(1)),
            (0, 0),
            "both are still there"
        );
    }

    #[test]
    fn early_refault_activates_the_page() {
        let mut cache = TwoLists::new(8, [1; 20]);
        for page in [0, 1, 2, 3, 0, 1, 2, 3] {
            cache.read(page);
        }
        for page in 4..10 {
            cache.read(page);
        }
        assert!(!cache.is_resident(4), "thrown out by the sixth");
        cache.read(4);
        for page in 10..16 {
            cache.read(page);
        }
        assert!(cache.is_resident(4), "not again");
    }

    proptest! {
        #[test]
        fn never_holds_more_than_there_is_room_for(
            room in 0..50_u64,
            sizes in prop::collection::vec(1..9_u64, 1..20),
            doings in prop::collection::vec((any::<prop::sample::Index>(), 0..4), 0..200),
        ) {
            let mut cache = TwoLists::new(room, sizes.clone());
            for (page, doing) in doings {
                let page = page.index(sizes.len());
                if doing == 0 {
                    cache.drop(page);
                } else {
                    let was = cache.is_resident(page);
                    let cost = cache.read(page);
                    prop_assert_eq!(cost, if was { 0 } else { sizes[page] }, "a miss costs its size");
                    prop_assert!(cache.is_resident(page), "what has been read is there");
                }
                let resident: u64 =
                    (0..sizes.len()).filter(|page| cache.is_resident(*page)).map(|page| sizes[page]).sum();
                prop_assert_eq!(resident, cache.used, "the sum is right");
                // A page that is larger than the cache is read all the same.
                let largest = sizes.iter().copied().max().unwrap_or(0);
                prop_assert!(resident <= room.max(largest), "{} of {}", resident, room);
            }
        }
    }
}
