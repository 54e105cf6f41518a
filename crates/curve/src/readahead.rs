//! The kernel's readahead, simulated for one memory size: mm/readahead.c of Linux 6.18.

use crate::access::{Rate, Reader};
use crate::cache::{AccessResult, Cache, Touch};
use crate::pages::Slots;

/// Open files whose readahead is remembered, in each memory.
const STREAMS: usize = 256;

/// A mapped file with more misses than this beyond its hits is read page by page: MMAP_LOTSAMISS.
const LOTS_OF_MISSES: u32 = 100;

const NO_READAHEAD: Reader = Reader {
    id: 0,
    file_pages: 0,
    window: 0,
    largest_folio: 0,
    follows: false,
    continues: false,
};

/// A read of pages that follow each other, with their slots: all are in the sample, and in one block of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) file: u64,
    pub(crate) first: u64,
    pub(crate) slots: &'a [u32],
    pub(crate) reader: Option<Reader>,
    /// The read begins in the page in which the one before it ended.
    pub(crate) continues: bool,
    pub(crate) is_fault: bool,
    pub(crate) rate: Rate,
}

impl Request<'_> {
    /// Returns whether the page before it is not in the sample.
    fn enters_sample(&self) -> bool {
        self.first > 0 && !self.rate.has(self.file, self.first - 1)
    }
}

/// Pages that a request has to wait for, and pages that a device has to deliver.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) missed: u64,
    pub(crate) fetched: u64,
}

/// The kernel's file_ra_state.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    id: u32,
    start: u64,
    size: u64,
    ahead: u64,
    order: u32,
    misses: u32,
}

/// Open files, as one memory size has read ahead for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    files: Vec<Stream>,
    /// Pages of the largest window so far.
    pub(crate) largest_window: u64,
}

impl Streams {
    /// Simulates a read.
    pub(crate) fn read(&mut self, cache: &mut Cache, slots: &mut Slots, request: &Request) -> Cost {
        let reader = request.reader.unwrap_or(NO_READAHEAD);
        let missing = request.slots.iter().filter(|slot| !cache.has(**slot));
        let missed = match reader.follows && request.enters_sample() && reader.window > 0 {
            // It was read ahead when the pages before it were read, which are not in the sample.
            true => 0,
            false => missing.count() as u64,
        };
        cache.in_fault = request.is_fault;
        let mut work = Work {
            cache,
            slots,
            stream: self.of(reader.id),
            request,
            reader,
            fetched: 0,
        };
        let mut before = work.folio_before();
        for (page, slot) in (request.first..).zip(request.slots.iter().copied()) {
            work.prepare(page, slot);
            let is_same = match before {
                Some(before) => work.cache.has(slot) && work.cache.folios.folio(slot) == before,
                None => false,
            };
            let continues = request.continues && page == request.first;
            let touch = match is_same || continues {
                true => Touch::Uses,
                false => Touch::Marks,
            };
            if work.cache.access(slot, touch) == AccessResult::Miss {
                work.fetched += 1;
            }
            before = Some(work.cache.folios.folio(slot));
        }
        let fetched = work.fetched;
        let window = work.stream.size.min(reader.file_pages);
        self.largest_window = self.largest_window.max(window);
        cache.in_fault = false;
        Cost { missed, fetched }
    }

    fn of(&mut self, id: u32) -> &mut Stream {
        if self.files.is_empty() {
            self.files.resize(STREAMS, Stream::default());
        }
        let stream = &mut self.files[id as usize % STREAMS];
        if stream.id != id {
            *stream = Stream {
                id,
                ..Stream::default()
            };
        }
        stream
    }
}

struct Work<'a> {
    cache: &'a mut Cache,
    slots: &'a mut Slots,
    stream: &'a mut Stream,
    request: &'a Request<'a>,
    reader: Reader,
    fetched: u64,
}

impl Work<'_> {
    /// The folio in which the read before this one ended, as far as it is known.
    fn folio_before(&mut self) -> Option<u32> {
        let last = match (self.request.continues, self.reader.follows) {
            (true, _) => self.request.first,
            (false, true) => self.request.first.checked_sub(1)?,
            (false, false) => return None,
        };
        let slot = self.find(last)?;
        self.cache.has(slot).then(|| self.cache.folios.folio(slot))
    }

    fn find(&mut self, page: u64) -> Option<u32> {
        self.slots.find(self.request.file, page)
    }

    fn is_there(&mut self, page: u64) -> bool {
        self.find(page).is_some_and(|slot| self.cache.has(slot))
    }

    /// Has the kernel read ahead as it does before it looks at a page.
    fn prepare(&mut self, page: u64, slot: u32) {
        if self.reader.window == 0 {
            return;
        }
        match (self.cache.has(slot), self.request.is_fault) {
            (true, true) => self.stream.misses = self.stream.misses.saturating_sub(1),
            (true, false) => {}
            (false, true) => self.around(page),
            (false, false) => self.begin(page),
        }
        if self.cache.folios.take_mark(slot) {
            let folio = self.cache.folios.folio(slot);
            self.go_on(page, folio);
        }
    }

    /// Pages of the request from this one on.
    fn rest(&self, page: u64) -> u64 {
        self.request.first + self.request.slots.len() as u64 - page
    }

    /// page_cache_sync_ra(): the page is not there.
    fn begin(&mut self, page: u64) {
        let (asked, most) = (self.rest(page), self.reader.window);
        let is_first = page == self.request.first;
        if page == 0 || asked > most || (is_first && self.reader.follows) {
            let size = first_window(asked, most);
            let ahead = if size > asked { size - asked } else { size / 2 };
            self.stream.order = 0;
            self.set_window(page, size, ahead);
            // The block before it is not in the sample, and has had the windows that come before the largest.
            if is_first && self.request.enters_sample() {
                self.set_window(page, most, most);
            }
            return self.fill_window();
        }
        let cached = self.cached_before(page, most);
        if cached <= asked {
            return self.fill(page, asked, 0);
        }
        let size = if cached == page { cached * 2 } else { cached };
        self.stream.order = 0;
        self.set_window(page, (size + asked).min(most), 1);
        self.fill_window();
    }

    /// page_cache_async_ra(): a folio with a mark is read.
    fn go_on(&mut self, page: u64, folio: u32) {
        let most = self.reader.window;
        let head = self.slots.page(folio).map_or(page, |(_, page)| page);
        let asked = self.rest(page) + (page - head.min(page));
        let stream = &self.stream;
        let end = stream.start + stream.size;
        let pages = self.cache.folios.pages_of(folio);
        let expected = (end - stream.ahead.min(end)) / pages * pages;
        if head == expected {
            let size = next_window(stream.size, most).max(stream.size);
            self.set_window(end, size, size);
        } else {
            let mut start = head + 1;
            while start - head <= most && self.is_there(start) {
                start += 1;
            }
            if start - head > most {
                return;
            }
            let size = next_window(start - head + asked, most);
            self.set_window(start, size, size);
        }
        self.stream.order += 2;
        let order = self.stream.order.min(most.trailing_zeros());
        let stream = &mut self.stream;
        let end = stream.start + stream.size;
        let aligned = end >> order << order;
        if self.reader.largest_folio > 0 && aligned > stream.start {
            stream.size -= end - aligned;
        }
        stream.ahead = stream.size;
        self.fill_window();
    }

    /// do_sync_mmap_readahead(): the page that a fault needs is not there.
    fn around(&mut self, page: u64) {
        let window = self.reader.window;
        self.stream.misses = (self.stream.misses + 1).min(10 * LOTS_OF_MISSES);
        if self.stream.misses > LOTS_OF_MISSES {
            return;
        }
        self.stream.order = 0;
        self.set_window(page.saturating_sub(window / 2), window, window / 4);
        self.fill_window();
    }

    fn set_window(&mut self, start: u64, size: u64, ahead: u64) {
        self.stream.start = start;
        self.stream.size = size;
        self.stream.ahead = ahead;
    }

    /// Pages in turn before this one that are there, at most as many as are asked about. Where they reach to a block that is
    /// not in the sample, as many again are taken to be there.
    fn cached_before(&mut self, page: u64, most: u64) -> u64 {
        let least = page.saturating_sub(most);
        let rate = self.request.rate;
        let mut first = page;
        while first > least && self.is_there(first - 1) {
            first -= 1;
        }
        let cached = page - first;
        match first > least && !rate.has(self.request.file, first - 1) {
            true => (2 * cached).min(most),
            false => cached,
        }
    }

    /// The first page from this one on that is in the sample, and the end of its block; not beyond `end`.
    fn sampled(&self, mut page: u64, end: u64) -> (u64, u64) {
        let (rate, file) = (self.request.rate, self.request.file);
        while page < end && !rate.has(file, page) {
            page = rate.block_end(page);
        }
        let page = page.min(end);
        (page, rate.block_end(page).min(end))
    }

    /// page_cache_ra_order(): inserts the window, in folios as large as the file may have.
    fn fill_window(&mut self) {
        let Stream {
            start, size, ahead, ..
        } = *self.stream;
        if self.reader.largest_folio == 0 || size == 0 {
            self.stream.order = 0;
            return self.fill(start, size, ahead);
        }
        let order = self.stream.order;
        let order = order.min(self.reader.largest_folio).min(size.ilog2());
        self.stream.order = order;
        let rate = self.request.rate;
        // A folio is in the sample as a whole.
        let largest = if rate.is_whole() { order } else { rate.shift() };
        let mark = (start + size).saturating_sub(ahead);
        let end = self.reader.file_pages.min(start + size);
        let mut page = start;
        while page < end {
            if !rate.has(self.request.file, page) {
                page = rate.block_end(page).min(end);
                continue;
            }
            let mut order = order.min(largest).min(page.trailing_zeros());
            while order > 0 && page + (1 << order) > end {
                order -= 1;
            }
            if !self.insert_folio(page, 1 << order) {
                break;
            }
            if page == mark >> order << order {
                self.mark(page);
            }
            page += 1 << order;
        }
        if page < end {
            self.fill(page, (start + size).saturating_sub(page), ahead);
        }
    }

    /// do_page_cache_ra(): inserts pages one by one, up to the end of the file.
    fn fill(&mut self, start: u64, size: u64, ahead: u64) {
        let size = size.min(self.reader.file_pages.saturating_sub(start));
        let mark = if ahead <= size {
            start + size - ahead
        } else {
            u64::MAX
        };
        let mut page = start;
        while page < start + size {
            let (first, end) = self.sampled(page, start + size);
            for page in first..end {
                let is_new = self.insert_folio(page, 1);
                if is_new && page == mark {
                    self.mark(page);
                }
            }
            page = end;
        }
    }

    /// Inserts the pages of a folio that are in the sample; false: it cannot be inserted.
    fn insert_folio(&mut self, page: u64, pages: u64) -> bool {
        let file = self.request.file;
        if pages == 1 {
            let slot = self.slots.add(file, page);
            let is_new = slot.is_some_and(|slot| self.cache.read_ahead(slot));
            self.fetched += u64::from(is_new);
            return is_new;
        }
        if pages > self.cache.largest_folio() {
            return false;
        }
        let mut slots = Vec::with_capacity(pages as usize);
        slots.extend((page..page + pages).map_while(|page| self.slots.add(file, page)));
        let is_new = self.cache.read_ahead_folio(&slots);
        self.fetched += if is_new { slots.len() as u64 } else { 0 };
        is_new
    }

    fn mark(&mut self, page: u64) {
        if let Some(slot) = self.find(page)
            && self.cache.has(slot)
        {
            self.cache.folios.mark(slot);
        }
    }
}

/// get_init_ra_size()
fn first_window(asked: u64, most: u64) -> u64 {
    let size = asked.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// get_next_ra_size()
fn next_window(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        4 * size
    } else if size <= most / 2 {
        2 * size
    } else {
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Policy;

    const FILE_PAGES: u64 = 10_000;

    /// A memory with room for a number of pages, and what reads of one file in it have cost.
    struct Machine {
        cache: Cache,
        slots: Slots,
        streams: Streams,
        last: u64,
        largest_folio: u32,
        fetched: u64,
        missed: u64,
    }

    impl Machine {
        fn of(pages: u64) -> Machine {
            let mut cache = Cache::unlimited(Policy::Lists);
            cache.resize(pages, 0, 1.0);
            Machine {
                cache,
                slots: Slots::new(1 << 16),
                streams: Streams::default(),
                last: u64::MAX,
                largest_folio: 0,
                fetched: 0,
                missed: 0,
            }
        }

        fn read(&mut self, first: u64, pages: u64) {
            let slots: Vec<u32> = (first..first + pages)
                .filter_map(|page| self.slots.add(1, page))
                .collect();
            let cost = self.streams.read(
                &mut self.cache,
                &mut self.slots,
                &Request {
                    file: 1,
                    first,
                    slots: &slots,
                    reader: Some(Reader {
                        id: 1,
                        file_pages: FILE_PAGES,
                        window: 32,
                        largest_folio: self.largest_folio,
                        follows: first == self.last.wrapping_add(1),
                        continues: false,
                    }),
                    continues: false,
                    is_fault: false,
                    rate: Rate::ALL,
                },
            );
            self.fetched += cost.fetched;
            self.missed += cost.missed;
            self.last = first + pages - 1;
        }

        fn resident(&mut self, page: u64) -> bool {
            let slot = self.slots.find(1, page);
            slot.is_some_and(|slot| self.cache.has(slot))
        }
    }

    #[test]
    fn reads_in_turn_miss_the_first_page_alone() {
        for largest_folio in [0, 9] {
            let mut machine = Machine::of(1 << 16);
            machine.largest_folio = largest_folio;
            for page in 0..FILE_PAGES {
                machine.read(page, 1);
            }
            assert_eq!((machine.missed, machine.fetched), (1, FILE_PAGES));
        }
    }

    #[test]
    fn first_window_is_four_times_the_read_and_the_next_ones_double() {
        let mut machine = Machine::of(1 << 16);
        machine.read(0, 1);
        assert_eq!(machine.fetched, 4);
        // The second page has the mark.
        machine.read(1, 1);
        assert_eq!(machine.fetched, 4 + 8);
        machine.read(2, 3);
        assert_eq!(machine.fetched, 4 + 8 + 16);
    }

    #[test]
    fn reads_at_random_places_fetch_their_own_pages() {
        let mut machine = Machine::of(1 << 16);
        for number in 1..100 {
            machine.read(number * 97, 4);
        }
        assert_eq!((machine.missed, machine.fetched), (99 * 4, 99 * 4));
    }

    #[test]
    fn read_after_resident_pages_is_taken_for_a_stream() {
        let mut machine = Machine::of(1 << 16);
        for first in [100, 2000, 104, 3000, 108, 4000] {
            machine.read(first, 4);
        }
        // Four resident pages are not more than the four that are read; eight are.
        assert_eq!(machine.missed, 6 * 4);
        assert_eq!(machine.fetched, 5 * 4 + 8 + 4);
        assert!(machine.resident(108 + 11) && !machine.resident(108 + 12));
    }

    #[test]
    fn small_memory_evicts_what_was_read_ahead() {
        let mut machine = Machine::of(256);
        for round in 0..2 {
            for page in 0..FILE_PAGES {
                machine.read(page, 1);
            }
            let rounds = round + 1;
            assert!(machine.fetched >= FILE_PAGES * rounds, "no page stays");
            assert!(machine.missed <= 2 * rounds, "they were read ahead");
        }
    }

    #[test]
    fn window_ends_with_the_file() {
        let mut machine = Machine::of(1 << 16);
        machine.read(FILE_PAGES - 3, 1);
        machine.read(FILE_PAGES - 2, 2);
        assert_eq!(machine.fetched, 3);
    }
}
