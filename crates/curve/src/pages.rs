//! Pages of files that are simulated, by slots: small numbers that are used again.

use std::collections::HashMap;

/// Pages that are found with one look-up.
const GROUP: u64 = 32;

/// No page has this slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Pages of a file that follow each other, as far as they have slots.
#[derive(Debug, Clone)]
struct Group {
    used: u32,
    slots: [u32; GROUP as usize],
}

/// Slots of pages, up to a maximum.
#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    groups: HashMap<(u64, u64), u32>,
    table: Vec<Group>,
    free_groups: Vec<u32>,
    /// The group that was found last: the next page is mostly in it.
    recent: Option<((u64, u64), u32)>,
    pages: Vec<Option<(u64, u64)>>,
    free: Vec<u32>,
}

impl Slots {
    /// Has room for this number of pages.
    pub(crate) fn new(most: usize) -> Self {
        Slots {
            most,
            groups: HashMap::new(),
            table: Vec::new(),
            free_groups: Vec::new(),
            recent: None,
            pages: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Pages that have a slot.
    pub(crate) fn len(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    /// Pages that may get one yet.
    pub(crate) fn room(&self) -> usize {
        self.most.saturating_sub(self.len())
    }

    /// The slots that were ever in use: all are below this.
    pub(crate) fn highest(&self) -> usize {
        self.pages.len()
    }

    /// The page of a slot: its file and its number.
    pub(crate) fn page(&self, slot: u32) -> Option<(u64, u64)> {
        self.pages.get(slot as usize).copied().flatten()
    }

    /// The slot of a page.
    pub(crate) fn find(&mut self, file: u64, page: u64) -> Option<u32> {
        let group = self.group(file, page)?;
        let slot = self.table[group as usize].slots[(page % GROUP) as usize];
        (slot != NONE).then_some(slot)
    }

    /// The slot of a page, which gets one if there is room.
    pub(crate) fn add(&mut self, file: u64, page: u64) -> Option<u32> {
        if let Some(slot) = self.find(file, page) {
            return Some(slot);
        }
        if self.room() == 0 {
            return None;
        }
        let group = match self.group(file, page) {
            Some(group) => group,
            None => self.new_group((file, page / GROUP)),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.pages.push(None);
                self.pages.len() as u32 - 1
            }
        };
        self.pages[slot as usize] = Some((file, page));
        let group = &mut self.table[group as usize];
        group.slots[(page % GROUP) as usize] = slot;
        group.used += 1;
        Some(slot)
    }

    /// Frees the slot of a page.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some((file, page)) = self.pages[slot as usize].take() else {
            return;
        };
        self.free.push(slot);
        let Some(index) = self.group(file, page) else {
            return;
        };
        let group = &mut self.table[index as usize];
        group.slots[(page % GROUP) as usize] = NONE;
        group.used -= 1;
        if group.used == 0 {
            self.groups.remove(&(file, page / GROUP));
            self.free_groups.push(index);
            self.recent = None;
        }
    }

    fn group(&mut self, file: u64, page: u64) -> Option<u32> {
        let key = (file, page / GROUP);
        match self.recent {
            Some((recent, group)) if recent == key => Some(group),
            _ => {
                let group = *self.groups.get(&key)?;
                self.recent = Some((key, group));
                Some(group)
            }
        }
    }

    fn new_group(&mut self, key: (u64, u64)) -> u32 {
        let empty = Group {
            used: 0,
            slots: [NONE; GROUP as usize],
        };
        let group = match self.free_groups.pop() {
            Some(group) => group,
            None => {
                self.table.push(empty.clone());
                self.table.len() as u32 - 1
            }
        };
        self.table[group as usize] = empty;
        self.groups.insert(key, group);
        self.recent = Some((key, group));
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_removed_pages_are_used_again() {
        let mut slots = Slots::new(2);
        let one = slots.add(1, 5).unwrap();
        let other = slots.add(1, 6).unwrap();
        assert_eq!(slots.add(2, 5), None, "there is no room");
        assert_eq!(
            (slots.find(1, 6), slots.page(one)),
            (Some(other), Some((1, 5)))
        );
        slots.remove(one);
        assert_eq!(slots.find(1, 5), None);
        assert_eq!(slots.add(2, 5), Some(one));
        assert_eq!((slots.len(), slots.highest()), (2, 2));
    }

    #[test]
    fn groups_without_pages_are_used_again() {
        let mut slots = Slots::new(64);
        for file in 0..1000 {
            let slot = slots.add(file, 0).unwrap();
            slots.remove(slot);
        }
        assert_eq!((slots.table.len(), slots.groups.len()), (1, 0));
    }
}
