//! Orders in which to visit lines that no prefetcher guesses, made without a table: a table of all lines would
//! itself go through the caches that are to be measured.

/// Pages that are visited before going on: few enough for any dTLB.
pub const WINDOW_PAGES: usize = 32;

/// All numbers below `len`, each once, in an order that looks random.
#[derive(Debug, Clone, Copy)]
pub struct Shuffled {
    len: u64,
    mask: u64,
    half: u32,
    key: u64,
}

impl Shuffled {
    /// An order; another `seed` gives another one. `len` is at least 1.
    #[must_use]
    pub const fn new(len: u64, seed: u64) -> Shuffled {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        let bits = if bits < 2 { 2 } else { bits };
        Shuffled {
            len,
            mask: (1 << bits) - 1,
            half: bits / 2,
            key: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// The number in this place.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        let mut number = place;
        // Numbers beyond the end are permuted again: at most every second one, as the mask is the
        // next power of two.
        loop {
            number = self.mixed(number);
            if number < self.len {
                return number;
            }
        }
    }

    /// One to one on the numbers up to the mask: each step can be undone.
    fn mixed(&self, mut number: u64) -> u64 {
        let Shuffled {
            mask, half, key, ..
        } = *self;
        for round in 0..3u64 {
            number = number.wrapping_add(key.rotate_left(17 * round as u32)) & mask;
            number = number.wrapping_mul(0xd6e8_feb8_6659_fd93 ^ (key << 1)) & mask;
            number ^= number >> half.max(1);
        }
        number
    }
}

/// How lines are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// A window of pages at a time, at random inside it: what address translation costs hardly shows.
    PageLocal,
    /// Any line after any other: a new page nearly every time.
    Random,
}

/// The byte offsets of all lines of `size` bytes, in this order.
pub fn visits(
    order: Order,
    size: usize,
    line: usize,
    page: usize,
    seed: u64,
) -> impl Iterator<Item = usize> {
    let lines = (size / line).max(1) as u64;
    let in_window = match order {
        Order::Random => lines,
        Order::PageLocal => ((WINDOW_PAGES * page / line) as u64).min(lines),
    };
    let windows = lines.div_ceil(in_window);
    let outer = Shuffled::new(windows, seed);
    (0..windows).flat_map(move |place| {
        let window = outer.at(place);
        let first = window * in_window;
        let here = in_window.min(lines - first);
        let inner = Shuffled::new(here, seed ^ (window + 1) << 20);
        (0..here).map(move |place| (first + inner.at(place)) as usize * line)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_number_comes_once() {
        for len in [1, 2, 3, 7, 64, 100, 1000, 4097] {
            let shuffled = Shuffled::new(len, len);
            let seen: HashSet<u64> = (0..len).map(|place| shuffled.at(place)).collect();
            assert_eq!(seen.len() as u64, len, "each of {len} once");
            assert!(
                seen.iter().all(|number| *number < len),
                "and none beyond {len}"
            );
        }
    }

    #[test]
    fn no_stride_comes_up_often() {
        let shuffled = Shuffled::new(4096, 1);
        let mut strides = std::collections::HashMap::new();
        for place in 1..4096 {
            let stride = shuffled.at(place) as i64 - shuffled.at(place - 1) as i64;
            *strides.entry(stride).or_insert(0) += 1;
        }
        let most = strides.values().max().unwrap();
        // A prefetcher learns from a handful in a row; at random the most frequent one comes 8 times or so.
        assert!(*most < 64, "one stride came {most} times of 4095");
    }

    #[test]
    fn all_lines_are_visited_window_by_window() {
        let (size, line, page) = (1 << 20, 64, 4096);
        for order in [Order::PageLocal, Order::Random] {
            let all: Vec<usize> = visits(order, size, line, page, 7).collect();
            let seen: HashSet<&usize> = all.iter().collect();
            assert_eq!(seen.len(), size / line, "{order:?}: each line once");
            let window = WINDOW_PAGES * page;
            let crossings = all
                .windows(2)
                .filter(|pair| pair[0] / window != pair[1] / window)
                .count();
            match order {
                Order::PageLocal => {
                    assert_eq!(crossings, size / window - 1, "a window is left once")
                }
                Order::Random => assert!(crossings > all.len() / 2, "nearly always elsewhere"),
            }
        }
        let odd: Vec<usize> = visits(Order::PageLocal, 5 * 64 + 3, 64, 4096, 1).collect();
        assert_eq!(odd.len(), 5, "a part of a line is none");
    }
}
