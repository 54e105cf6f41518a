//! Values derived from counters: one function for each formula.
//!
//! A calculation with a missing counter in it is missing for the same reason.

use cachewise_units::{PageSize, Pages};

use crate::counter::Counter;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured};
use crate::reason::Reason;

impl Counter {
    /// The classes that bring pages in; their sum is the number of pages inserted.
    pub const INSERTS: [Counter; 8] = [
        Counter::ReadMissedPages,
        Counter::ReadaheadPages,
        Counter::PrefetchPages,
        Counter::FaultMissPages,
        Counter::FaultReadaheadPages,
        Counter::WriteNewPages,
        Counter::MetadataPages,
        Counter::OtherPages,
    ];

    /// The classes that bring pages in to be read; no page is in two of them.
    ///
    /// Metadata and what came for no request that is known are not among them: blocks that are made anew
    /// come in like those that are read.
    pub const FETCHES: [Counter; 5] = [
        Counter::ReadMissedPages,
        Counter::ReadaheadPages,
        Counter::PrefetchPages,
        Counter::FaultMissPages,
        Counter::FaultReadaheadPages,
    ];
}

impl Ledger {
    /// Requested pages that were in the page cache when the read reached them, as the events of the page
    /// cache count them: not derived from the requests.
    #[must_use]
    pub fn hits(&self) -> Count {
        self.get(Counter::ReadHitPages)
    }

    /// Sets the hits to `read_requested_pages - read_missed_pages - read_unserved_pages`, for a ledger whose
    /// source counts requests and misses alone. Its invariant then holds by construction.
    pub fn derive_hits(&mut self) {
        let hits = self
            .get(Counter::ReadRequestedPages)
            .minus(self.get(Counter::ReadMissedPages))
            .minus(self.get(Counter::ReadUnservedPages));
        self.book(Counter::ReadHitPages, hits);
    }

    /// Bytes that reads moved: `read_requested_bytes - read_unserved_bytes`.
    #[must_use]
    pub fn read_bytes(&self) -> Count {
        self.get(Counter::ReadRequestedBytes)
            .minus(self.get(Counter::ReadUnservedBytes))
    }

    /// Hits that cost no I/O of this run: hits without readahead hits.
    #[must_use]
    pub fn read_cached_pages(&self) -> Count {
        self.hits().minus(self.get(Counter::ReadaheadHitPages))
    }

    /// Faults whose page was there.
    #[must_use]
    pub fn fault_hits(&self) -> Count {
        self.get(Counter::FaultRequests)
            .minus(self.get(Counter::FaultMissPages))
    }

    /// Pages written that were in the page cache already.
    #[must_use]
    pub fn overwritten_pages(&self) -> Count {
        self.get(Counter::WritePages)
            .minus(self.get(Counter::WriteNewPages))
    }

    /// Bytes that went around the page cache, both ways.
    #[must_use]
    pub fn direct_bytes(&self) -> Count {
        self.get(Counter::DirectReadBytes)
            .plus(self.get(Counter::DirectWriteBytes))
    }

    /// Pages fetched from the storage of the file system: inserted to be read.
    #[must_use]
    pub fn fetched_pages(&self) -> Count {
        self.sum_of(&Counter::FETCHES)
    }

    /// Bytes fetched from the storage of the file system: pages inserted by reads and readahead, and direct
    /// reads.
    #[must_use]
    pub fn fetched_bytes(&self, page_size: Option<PageSize>) -> Count {
        let pages = self.fetched_pages();
        let bytes = match page_size {
            Some(size) => pages.map(|pages| Pages(pages).bytes(size).0),
            // No pages are no bytes, however large a page is.
            None if pages.known().is_none_or(|pages| pages == 0) => pages,
            None => Measured::unknown(Reason::PageSizeUnknown),
        };
        bytes.plus(self.get(Counter::DirectReadBytes))
    }

    /// The average size of a read request, rounded down; not offered where there was none.
    #[must_use]
    pub fn average_read(&self) -> Count {
        let requests = self.get(Counter::ReadRequests);
        if requests.known() == Some(0) {
            return Measured::not_offered(Reason::NothingRequested);
        }
        self.get(Counter::ReadRequestedBytes)
            .zip(requests, |bytes, requests| bytes / requests.max(1))
    }

    /// Nanoseconds that tasks waited for storage and memory: [`Counter::STORAGE_WAITS`].
    #[must_use]
    pub fn waited(&self) -> Count {
        self.sum_of(&Counter::STORAGE_WAITS)
    }

    /// Pages that left the page cache, for whatever reason.
    #[must_use]
    pub fn evicted_pages(&self) -> Count {
        self.get(Counter::EvictedReclaimPages)
            .plus(self.get(Counter::EvictedOtherPages))
    }

    /// Pages that entered the page cache: the conservation law's left side.
    #[must_use]
    pub fn inserted_pages(&self) -> Count {
        self.sum_of(&Counter::INSERTS)
    }

    fn sum_of(&self, counters: &[Counter]) -> Count {
        if self.has_no_marks() {
            // Most rows: screens sum up thousands of them in each interval.
            let counts = counters
                .iter()
                .map(|counter| self.counts()[counter.index()]);
            return Measured::Exact(counts.fold(0, u64::saturating_add));
        }
        counters.iter().fold(Measured::Exact(0), |sum, counter| {
            sum.plus(self.get(*counter))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Missing;

    #[test]
    fn hits_and_misses_add_up() {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, 131_072);
        ledger.set(Counter::ReadMissedPages, 512);
        ledger.set(Counter::ReadaheadHitPages, 130_560);
        assert_eq!(
            ledger.hits(),
            Measured::Exact(0),
            "hits are counted, and not what is left of the requests"
        );
        ledger.derive_hits();
        assert_eq!(
            ledger.hits(),
            Measured::Exact(130_560),
            "unless the source counts none"
        );
        assert_eq!(
            ledger.read_cached_pages(),
            Measured::Exact(0),
            "a cold read reuses nothing"
        );
    }

    #[test]
    fn inserted_is_the_sum_of_the_eight_classes() {
        // Each counter holds its own index + 1, so that a wrong one shows.
        let ledger = Ledger::from_counts(std::array::from_fn(|place| place as u64 + 1));
        let sum = [4, 5, 6, 11, 12, 16, 25, 26].iter().sum();
        assert_eq!(
            ledger.inserted_pages(),
            Measured::Exact(sum),
            "the conservation law"
        );
    }

    #[test]
    fn fetched_is_each_page_once_and_direct_reads() {
        let page = PageSize::new(16 << 10);
        let ledger = Ledger::from_counts(std::array::from_fn(|place| 1 << place));
        let pages: u64 = [3, 4, 5, 10, 11].iter().map(|place| 1 << place).sum();
        assert_eq!(
            ledger.fetched_bytes(page),
            Measured::Exact(pages * (16 << 10) + (1 << 18)),
            "misses, read-ahead, prefetch, faults and theirs, and what O_DIRECT read; none of it twice"
        );
        assert!(
            Counter::FETCHES
                .iter()
                .all(|counter| Counter::INSERTS.contains(counter)),
            "each page comes in once, by the conservation law"
        );
        assert_eq!(
            ledger.fetched_bytes(None),
            Measured::unknown(Reason::PageSizeUnknown),
            "of pages without a size nobody knows the bytes"
        );
    }

    #[test]
    fn waited_is_the_sum_of_the_waits_for_storage_and_memory() {
        let mut ledger = Ledger::default();
        for (place, counter) in Counter::WAITS.into_iter().enumerate() {
            ledger.set(counter, 1 << place);
        }
        assert_eq!(
            ledger.waited(),
            Measured::Exact((1 << 11) - 1),
            "waits for other programs, locks and timers are not among them"
        );
    }

    #[test]
    fn fetched_is_unknown_where_a_part_is() {
        let page = PageSize::new(4 << 10);
        let mut ledger = Ledger::default();
        ledger.set(Counter::DirectReadBytes, 512);
        assert_eq!(
            ledger.fetched_bytes(None),
            Measured::Exact(512),
            "no pages are no bytes"
        );
        ledger.set_missing(
            Counter::FaultMissPages,
            Missing::Unknown(Reason::LostEvents),
        );
        for size in [page, None] {
            assert_eq!(
                ledger.fetched_bytes(size),
                Measured::unknown(Reason::LostEvents),
                "for the same reason"
            );
        }
        let mut ledger = Ledger::default();
        ledger.set_missing(
            Counter::DirectReadBytes,
            Missing::NotOffered(Reason::NoDirectIoEvent),
        );
        assert_eq!(
            ledger.fetched_bytes(page),
            Measured::not_offered(Reason::NoDirectIoEvent),
            "around the cache too"
        );
    }

    #[test]
    fn the_average_read_needs_a_read() {
        let mut ledger = Ledger::default();
        assert_eq!(
            ledger.average_read(),
            Measured::not_offered(Reason::NothingRequested),
            "no reads have no size"
        );
        ledger.set(Counter::ReadRequests, 3);
        ledger.set(Counter::ReadRequestedBytes, 10);
        assert_eq!(ledger.average_read(), Measured::Exact(3), "rounded down");
    }
}
