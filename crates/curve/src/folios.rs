//! Folios of one simulated memory: linked lists of resident ones, shadow entries of evicted ones.

use crate::pages::NONE;

/// Lists of a memory at most.
const LISTS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PagePlace {
    /// Never resident, as far as is known.
    Out,
    /// `previous` and `uses` are the shadow entry.
    Evicted,
    /// In a folio whose first page is `previous`; `next` is the folio's next page.
    Part,
    List(u8),
}

/// A page in one simulated memory. Folios are in the lists by their first page.
#[derive(Debug, Clone, Copy)]
struct Node {
    place: PagePlace,
    /// Uses of a folio, as the policy counts them.
    uses: u8,
    /// The next readahead begins when this folio is read.
    marked: bool,
    previous: u32,
    next: u32,
    /// The second page of a folio.
    part: u32,
}

const UNKNOWN: Node = Node {
    place: PagePlace::Out,
    uses: 0,
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

/// A trace of an evicted folio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shadow {
    /// The time of the eviction, by a clock of the policy.
    pub(crate) time: u32,
    pub(crate) uses: u8,
}

/// A folio that is inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct New {
    pub(crate) folio: u32,
    pub(crate) pages: u64,
    pub(crate) shadow: Option<Shadow>,
    pub(crate) in_fault: bool,
}

/// Resident and evicted folios of a memory. Pages are slots, numbered by the caller.
#[derive(Debug, Clone)]
pub(crate) struct Folios {
    nodes: Vec<Node>,
    lists: [List; LISTS],
}

impl Folios {
    pub(crate) fn new() -> Self {
        Folios {
            nodes: Vec::new(),
            lists: [EMPTY; LISTS],
        }
    }

    /// Resident pages.
    pub(crate) fn resident(&self) -> u64 {
        self.lists.iter().map(|list| list.pages).sum()
    }

    /// Pages of a list.
    pub(crate) fn pages_in(&self, list: usize) -> u64 {
        self.lists[list].pages
    }

    /// The last folio of a list.
    pub(crate) fn last(&self, list: usize) -> Option<u32> {
        let tail = self.lists[list].tail;
        (tail != NONE).then_some(tail)
    }

    /// Slots that have memory.
    #[cfg(test)]
    pub(crate) fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether a page is resident.
    pub(crate) fn has(&self, slot: u32) -> bool {
        let node = self.nodes.get(slot as usize);
        node.is_some_and(|node| matches!(node.place, PagePlace::Part | PagePlace::List(_)))
    }

    /// The folio of a resident page, by its first page.
    pub(crate) fn folio(&self, slot: u32) -> u32 {
        match self.nodes.get(slot as usize) {
            Some(node) if node.place == PagePlace::Part => node.previous,
            _ => slot,
        }
    }

    /// The list that a folio is in.
    pub(crate) fn list_of(&self, folio: u32) -> Option<usize> {
        match self.nodes.get(folio as usize)?.place {
            PagePlace::List(list) => Some(usize::from(list)),
            _ => None,
        }
    }

    /// Pages of the folio that begins with this page.
    pub(crate) fn pages_of(&self, folio: u32) -> u64 {
        let (mut part, mut pages) = (self.nodes[folio as usize].part, 1);
        while part != NONE {
            pages += 1;
            part = self.nodes[part as usize].next;
        }
        pages
    }

    pub(crate) fn uses(&self, folio: u32) -> u8 {
        self.nodes[folio as usize].uses
    }

    pub(crate) fn set_uses(&mut self, folio: u32, uses: u8) {
        self.nodes[folio as usize].uses = uses;
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

    /// Makes a folio of these pages, which is in no list yet. Returns the shadow entry of the last page that has one.
    pub(crate) fn join(&mut self, first: u32, rest: &[u32]) -> Option<Shadow> {
        let mut shadow = None;
        let mut part = NONE;
        for slot in rest.iter().rev() {
            shadow = shadow.or(self.shadow(*slot));
            self.nodes[*slot as usize] = Node {
                place: PagePlace::Part,
                previous: first,
                next: part,
                ..UNKNOWN
            };
            part = *slot;
        }
        shadow = shadow.or(self.shadow(first));
        self.nodes[first as usize] = Node { part, ..UNKNOWN };
        shadow
    }

    /// The shadow entry of a page, which gets a node.
    fn shadow(&mut self, slot: u32) -> Option<Shadow> {
        if slot as usize >= self.nodes.len() {
            self.nodes.resize(slot as usize + 1, UNKNOWN);
        }
        let node = self.nodes[slot as usize];
        (node.place == PagePlace::Evicted).then_some(Shadow {
            time: node.previous,
            uses: node.uses,
        })
    }

    /// Evicts a folio that is in no list.
    pub(crate) fn evict(&mut self, folio: u32, shadow: Shadow) {
        let mut part = folio;
        let mut next = self.nodes[folio as usize].part;
        while part != NONE {
            self.nodes[part as usize] = Node {
                place: PagePlace::Evicted,
                uses: shadow.uses,
                previous: shadow.time,
                ..UNKNOWN
            };
            part = next;
            if next != NONE {
                next = self.nodes[next as usize].next;
            }
        }
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
            match (after, place) {
                (NONE, PagePlace::List(list)) => self.lists[usize::from(list)].tail = part,
                (NONE, _) => {}
                (after, _) => self.nodes[after as usize].previous = part,
            }
            part = next;
        }
    }

    /// Adds a folio at the head of a list.
    pub(crate) fn push(&mut self, folio: u32, list: usize, pages: u64) {
        let head = self.lists[list].head;
        self.link(folio, list, pages, NONE, head);
    }

    /// Adds a folio at the tail of a list.
    pub(crate) fn push_last(&mut self, folio: u32, list: usize, pages: u64) {
        let tail = self.lists[list].tail;
        self.link(folio, list, pages, tail, NONE);
    }

    fn link(&mut self, folio: u32, list: usize, pages: u64, previous: u32, next: u32) {
        let node = &mut self.nodes[folio as usize];
        node.place = PagePlace::List(list as u8);
        node.previous = previous;
        node.next = next;
        let list = &mut self.lists[list];
        list.pages += pages;
        match previous {
            NONE => list.head = folio,
            previous => self.nodes[previous as usize].next = folio,
        }
        match next {
            NONE => list.tail = folio,
            next => self.nodes[next as usize].previous = folio,
        }
    }

    /// Takes a folio from its list; returns its pages.
    pub(crate) fn remove(&mut self, folio: u32) -> u64 {
        let pages = self.pages_of(folio);
        let node = self.nodes[folio as usize];
        let (previous, next) = (node.previous, node.next);
        let PagePlace::List(list) = node.place else {
            return 0;
        };
        let list = &mut self.lists[usize::from(list)];
        list.pages -= pages;
        match previous {
            NONE => list.head = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        pages
    }

    /// Follows the links of a list from both ends; returns its pages.
    #[cfg(test)]
    pub(crate) fn walk(&self, list: usize) -> u64 {
        let list = self.lists[list];
        let (mut slot, mut previous, mut pages) = (list.head, NONE, 0);
        while slot != NONE {
            assert_eq!(self.nodes[slot as usize].previous, previous, "links agree");
            previous = slot;
            pages += self.pages_of(slot);
            slot = self.nodes[slot as usize].next;
        }
        assert_eq!(list.tail, previous, "the tail is the last page");
        assert_eq!(list.pages, pages, "the list counts its pages");
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_has_16_bytes() {
        assert_eq!(size_of::<Node>(), 16);
    }

    #[test]
    fn folio_without_one_of_its_pages_keeps_the_others() {
        for gone in 1..=4 {
            let mut folios = Folios::new();
            for (first, rest) in [(7, &[][..]), (1, &[2, 3, 4]), (8, &[])] {
                folios.join(first, rest);
                folios.push(first, 0, rest.len() as u64 + 1);
            }
            folios.forget(gone);
            assert_eq!((folios.resident(), folios.walk(0)), (5, 5));
            assert!((1..=4).all(|slot| folios.has(slot) == (slot != gone)));
        }
    }

    #[test]
    fn evicted_folio_leaves_a_shadow_entry_for_each_page() {
        let mut folios = Folios::new();
        folios.join(1, &[2, 3]);
        let shadow = Shadow { time: 7, uses: 2 };
        folios.evict(1, shadow);
        assert_eq!(folios.join(3, &[]), Some(shadow));
        assert_eq!(folios.join(1, &[2]), Some(shadow));
        assert_eq!(folios.join(1, &[2]), None, "the folio is resident");
    }
}
