//! Sets of pages, as ranges: not empty, ascending, and none touches the next.

use cachewise_units::{PageRange, Pages};

/// Puts ranges in order, and those that touch together.
#[must_use]
pub fn merged(mut ranges: Vec<PageRange>) -> Vec<PageRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges
}

/// Adds pages that do not lie before any of the set.
pub(crate) fn push(ranges: &mut Vec<PageRange>, range: PageRange) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if range.is_empty() => {}
        _ => ranges.push(range),
    }
}

/// Returns the intersection of two sets.
pub(crate) fn both(one: &[PageRange], two: &[PageRange]) -> Vec<PageRange> {
    let mut found = Vec::new();
    let (mut first, mut second) = (0, 0);
    while let (Some(a), Some(b)) = (one.get(first), two.get(second)) {
        found.extend(a.intersection(*b));
        match a.end <= b.end {
            true => first += 1,
            false => second += 1,
        }
    }
    found
}

/// Returns the pages of the first set that are not in the second.
pub(crate) fn minus(one: &[PageRange], two: &[PageRange]) -> Vec<PageRange> {
    let mut left = Vec::new();
    let mut next = 0;
    for range in one {
        let mut start = range.start;
        while let Some(other) = two.get(next) {
            if other.start >= range.end {
                break;
            }
            if other.start > start {
                let end = other.start;
                left.push(PageRange { start, end });
            }
            start = start.max(other.end);
            // One that goes on may take away from the next range, too.
            if other.end >= range.end {
                break;
            }
            next += 1;
        }
        if start < range.end {
            let end = range.end;
            left.push(PageRange { start, end });
        }
    }
    left
}

/// The first pages of a set, `most` of them at most.
pub(crate) fn first(ranges: &[PageRange], most: Pages) -> Vec<PageRange> {
    let mut left = most.0;
    let mut first = Vec::new();
    for range in ranges {
        let end = range.end.min(range.start.saturating_add(left));
        let start = range.start;
        push(&mut first, PageRange { start, end });
        left -= end - start;
        if left == 0 {
            break;
        }
    }
    first
}

/// How many pages there are in a set.
pub(crate) fn total(ranges: &[PageRange]) -> Pages {
    ranges.iter().map(|range| range.len()).sum()
}

/// The smallest range that holds a set.
pub(crate) fn span(ranges: &[PageRange]) -> PageRange {
    PageRange {
        start: ranges.first().map_or(0, |first| first.start),
        end: ranges.last().map_or(0, |last| last.end),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pages(ranges: &[PageRange]) -> BTreeSet<u64> {
        ranges
            .iter()
            .flat_map(|range| range.start..range.end)
            .collect()
    }

    fn any_ranges() -> impl Strategy<Value = Vec<PageRange>> {
        let range = (0..60_u64, 0..12_u64).prop_map(|(start, len)| PageRange {
            start,
            end: start + len,
        });
        prop::collection::vec(range, 0..9)
    }

    fn in_form(ranges: &[PageRange]) -> bool {
        ranges.iter().all(|range| !range.is_empty())
            && ranges.is_sorted_by(|one, two| one.end < two.start)
    }

    proptest! {
        #[test]
        fn are_sets(one in any_ranges(), two in any_ranges()) {
            let (a, b) = (merged(one.clone()), merged(two.clone()));
            prop_assert!(in_form(&a), "{:?} is in form", a);
            prop_assert_eq!(pages(&a), pages(&one), "the same pages");
            prop_assert_eq!(total(&a).0, pages(&a).len() as u64, "each once");
            let (shared, left) = (both(&a, &b), minus(&a, &b));
            prop_assert!(in_form(&left), "{:?} is in form", left);
            prop_assert_eq!(pages(&shared), &pages(&a) & &pages(&b), "the intersection");
            prop_assert_eq!(pages(&left), &pages(&a) - &pages(&b), "the difference");
            let most = total(&b);
            let few: Vec<u64> = pages(&a).into_iter().take(most.0 as usize).collect();
            let few: BTreeSet<u64> = few.into_iter().collect();
            prop_assert_eq!(pages(&first(&a, most)), few, "the first ones");
            prop_assert_eq!(both(&[span(&a)], &a), a, "the span holds all");
        }
    }
}
