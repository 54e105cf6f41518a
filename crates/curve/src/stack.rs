//! Stack distances: the number of different pages used since the last use of a page. Plain LRU of any size follows.

/// Buckets of the histogram for each power of two.
const BUCKETS_PER_OCTAVE: f64 = 64.0;

/// No position: the page has not been used.
const NEVER: u32 = 0;

/// Uses in order of time, in a Fenwick tree that counts the last uses of pages after a position.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Sums; index 0 is unused.
    tree: Vec<u32>,
    /// The slot at each position; only those count whose last use it is.
    at: Vec<u32>,
    /// The position of each slot's last use.
    last: Vec<u32>,
    next: u32,
    pages: u32,
}

impl Stack {
    /// Has room for `pages` different pages.
    pub(crate) fn new(pages: usize) -> Self {
        let positions = 2 * pages + 2;
        Stack {
            tree: vec![0; positions],
            at: vec![0; positions],
            last: Vec::new(),
            next: 1,
            pages: 0,
        }
    }

    /// Uses a page. Returns the number of other pages used since its last use; `None`: it is the first one.
    pub(crate) fn access(&mut self, slot: u32) -> Option<u64> {
        let index = slot as usize;
        if index >= self.last.len() {
            self.last.resize(index + 1, NEVER);
        }
        let last = self.last[index];
        let distance = (last != NEVER).then(|| {
            let older = self.sum(last);
            self.add(last, -1);
            u64::from(self.pages - older)
        });
        if distance.is_none() {
            self.pages += 1;
        }
        self.last[index] = NEVER;
        if self.next as usize >= self.tree.len() {
            self.compact();
        }
        let position = self.next;
        self.next += 1;
        self.last[index] = position;
        self.at[position as usize] = slot;
        self.add(position, 1);
        distance
    }

    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(last) = self.last.get_mut(slot as usize) else {
            return;
        };
        let position = std::mem::replace(last, NEVER);
        if position != NEVER {
            self.add(position, -1);
            self.pages -= 1;
        }
    }

    /// Pages whose last use is at or before a position.
    fn sum(&self, position: u32) -> u32 {
        let (mut index, mut sum) = (position as usize, 0);
        while index > 0 {
            sum += self.tree[index];
            index &= index - 1;
        }
        sum
    }

    fn add(&mut self, position: u32, change: i32) {
        let mut index = position as usize;
        while index < self.tree.len() {
            self.tree[index] = self.tree[index].wrapping_add_signed(change);
            index += index & index.wrapping_neg();
        }
    }

    /// Numbers the last uses anew, without gaps.
    fn compact(&mut self) {
        let mut to = 1;
        for from in 1..self.next {
            let slot = self.at[from as usize];
            if self.last[slot as usize] == from {
                self.at[to as usize] = slot;
                self.last[slot as usize] = to;
                to += 1;
            }
        }
        self.next = to;
        for index in 1..self.tree.len() {
            let is_used = u32::from(index < to as usize);
            let low = index & index.wrapping_neg();
            // The number of used positions in index - low + 1 ..= index.
            let first = index - low + 1;
            self.tree[index] = if is_used == 1 {
                low as u32
            } else {
                (to as usize).saturating_sub(first) as u32
            };
        }
    }
}

/// Weights of distances, in buckets that grow with the distance.
#[derive(Debug, Default)]
pub(crate) struct Distances {
    buckets: Vec<f64>,
}

impl Distances {
    pub(crate) fn add(&mut self, pages: f64, weight: f64) {
        let bucket = Self::bucket(pages);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0.0);
        }
        self.buckets[bucket] += weight;
    }

    /// The weight of distances that a memory of this number of pages does not reach.
    pub(crate) fn beyond(&self, pages: f64) -> f64 {
        let bucket = Self::bucket(pages);
        self.buckets.iter().skip(bucket).sum()
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.clear();
    }

    fn bucket(pages: f64) -> usize {
        ((pages + 1.0).log2() * BUCKETS_PER_OCTAVE) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_different_pages_once() {
        let mut stack = Stack::new(8);
        assert_eq!(stack.access(1), None);
        assert_eq!(stack.access(2), None);
        assert_eq!(stack.access(2), Some(0));
        assert_eq!(stack.access(3), None);
        assert_eq!(stack.access(1), Some(2));
    }

    proptest::proptest! {
        #[test]
        fn distances_agree_with_a_list(
            slots in proptest::collection::vec((0u32..12, 0u8..10), 1..400),
        ) {
            let mut stack = Stack::new(12);
            let mut list: Vec<u32> = Vec::new();
            for (slot, how) in slots {
                let at = list.iter().position(|other| *other == slot);
                if let Some(at) = at {
                    list.remove(at);
                }
                if how == 0 {
                    stack.forget(slot);
                    continue;
                }
                proptest::prop_assert_eq!(stack.access(slot), at.map(|at| at as u64));
                list.insert(0, slot);
            }
        }
    }

    #[test]
    fn histogram_splits_at_the_memory_size() {
        let mut distances = Distances::default();
        distances.add(100.0, 1.0);
        distances.add(1000.0, 2.0);
        assert_eq!(distances.beyond(500.0), 2.0);
        assert_eq!(distances.beyond(50.0), 3.0);
        assert_eq!(distances.beyond(2000.0), 0.0);
    }
}
