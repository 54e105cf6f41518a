//! Emptying the buffers while the program runs, and adding up the samples.
//!
//! Each CPU has its own buffer, so records of one process come from several: the mapping of a library may be in another
//! buffer than the first sample in it. Records are sorted by time; all records up to the newest one of the previous round
//! have arrived.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use perf_event::{Counter, Sampler};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::record::{ProcessEvent, Said, said};
use super::space::{Site, Spaces};

/// Different places, before further ones are counted together.
const MOST_SITES: usize = 200_000;

/// Records of one buffer in a round: about what it holds, as it is filled again meanwhile.
const MOST_RECORDS: usize = 1 << 14;

/// How long a record may wait.
const ROUND: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The collected samples.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) spaces: Spaces,
    /// How many samples are where.
    pub(super) sites: HashMap<Site, u64>,
    /// Samples at addresses beyond the most that are kept apart.
    pub(super) beyond: u64,
    /// Records that had no place in a buffer.
    pub(super) lost: u64,
    pub(super) throttled: u64,
    /// Records that could not be read.
    pub(super) garbled: u64,
    /// Events that happened, whether sampled or not.
    pub(super) happened: Option<u64>,
    /// The part of the time in which the hardware had a place for the counter.
    pub(super) counted_ratio: Option<f64>,
}

/// Records that wait for older ones.
#[derive(Debug, Default)]
struct Waiting {
    records: Vec<(u64, ProcessEvent)>,
    /// The newest of the round before, and of this one.
    before: u64,
    newest: u64,
}

impl Waiting {
    fn add(&mut self, time: u64, what: ProcessEvent) {
        self.newest = self.newest.max(time);
        self.records.push((time, what));
    }

    /// A round is over: those that nothing older can come after any more, in order.
    fn ready(&mut self) -> impl Iterator<Item = ProcessEvent> {
        // Those of one time keep the order in which they were written.
        self.records.sort_by_key(|(time, _)| *time);
        let horizon = std::mem::replace(&mut self.before, self.newest);
        let count = self.records.partition_point(|(time, _)| *time <= horizon);
        self.records.drain(..count).map(|(_, what)| what)
    }
}

impl Collected {
    fn add(&mut self, what: ProcessEvent) {
        let Some(site) = what.apply(&mut self.spaces) else {
            return;
        };
        // Without known code, each address would be a location of its own.
        let site = match site {
            (None, _) => (None, 0),
            (object, offset) => (object, offset),
        };
        let samples = match self.sites.len() >= MOST_SITES && !self.sites.contains_key(&site) {
            true => &mut self.beyond,
            false => self.sites.entry(site).or_default(),
        };
        *samples += 1;
    }

    fn read(&mut self, ring: &mut Sampler, waiting: &mut Waiting) -> usize {
        let mut read = 0;
        while read < MOST_RECORDS
            && let Some(record) = ring.next_record()
        {
            read += 1;
            match said(&record) {
                Said::At(time, what) => waiting.add(time, what),
                Said::Lost(count) => self.lost = self.lost.saturating_add(count),
                Said::Throttled => self.throttled += 1,
                Said::Nothing => {}
                Said::Garbled => self.garbled += 1,
            }
        }
        read
    }
}

/// Collects until a byte arrives at `stop`.
pub(super) fn collect(
    mut rings: Vec<Sampler>,
    mut others: Vec<Counter>,
    counts_lost: bool,
    spaces: Spaces,
    stop: &OwnedFd,
) -> Collected {
    let mut collected = Collected {
        spaces,
        ..Collected::default()
    };
    let mut waiting = Waiting::default();
    // A counter whose threads have all ended is always ready: it is read, but not waited for.
    let mut has_ended = vec![false; rings.len()];
    let mut is_full = false;
    loop {
        let is_over = wait(&rings, &mut has_ended, stop, is_full);
        if is_over {
            for counter in rings.iter_mut().map(|ring| ring.as_counter_mut()) {
                // One that is gone counts nothing more, either.
                let _ = counter.disable();
            }
            for counter in &mut others {
                let _ = counter.disable();
            }
        }
        is_full = false;
        for ring in &mut rings {
            is_full |= collected.read(ring, &mut waiting) == MOST_RECORDS;
        }
        for what in waiting.ready() {
            collected.add(what);
        }
        if is_over && !is_full {
            break;
        }
    }
    // Twice: what came last has nothing after it.
    for _ in 0..2 {
        for what in waiting.ready() {
            collected.add(what);
        }
    }
    let cpus = rings.len();
    let counters = rings
        .iter_mut()
        .map(|ring| ring.as_counter_mut())
        .chain(&mut others);
    collected.sum(counters, cpus, counts_lost);
    collected
}

impl Collected {
    /// Sums up the counters themselves; each thread has one per CPU.
    fn sum<'a>(
        &mut self,
        counters: impl Iterator<Item = &'a mut Counter>,
        cpus: usize,
        counts_lost: bool,
    ) {
        let (mut happened, mut lost, mut known) = (0u64, 0u64, true);
        let (mut enabled, mut running) = (0.0, 0.0);
        for counter in counters {
            let Ok(read) = counter.read_full() else {
                known = false;
                continue;
            };
            happened = happened.saturating_add(read.count());
            lost = lost.saturating_add(read.lost().unwrap_or(0));
            enabled += read.time_enabled().unwrap_or_default().as_secs_f64();
            running += read.time_running().unwrap_or_default().as_secs_f64();
        }
        self.happened = known.then_some(happened);
        // Each is enabled all the time, but runs on its own CPU only.
        let ran = running * cpus as f64 / enabled;
        self.counted_ratio = (known && ran.is_finite()).then_some(ran.min(1.0));
        // The last lost samples have no record.
        if counts_lost {
            self.lost = self.lost.max(lost);
        }
    }
}

/// Waits for records or for the end. Returns false at the end.
fn wait(rings: &[Sampler], has_ended: &mut [bool], stop: &OwnedFd, is_full: bool) -> bool {
    let mut places = vec![PollFd::new(stop, PollFlags::IN)];
    let mut waited: Vec<usize> = Vec::new();
    for (place, ring) in rings.iter().enumerate() {
        if has_ended.get(place) == Some(&false) {
            // SAFETY: the counter is borrowed for as long as this is used, so that its descriptor is open.
            let descriptor = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
            places.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
            waited.push(place);
        }
    }
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let limit = if is_full { &at_once } else { &ROUND };
    // Interrupted, there is a round early.
    if poll(&mut places, Some(limit)).is_err() {
        return false;
    }
    let (stop, rings) = places.split_at(1);
    for (ring, place) in rings.iter().zip(waited) {
        let gone = PollFlags::HUP | PollFlags::ERR;
        if ring.revents().intersects(gone)
            && let Some(ended) = has_ended.get_mut(place)
        {
            *ended = true;
        }
    }
    stop.iter().any(|stop| !stop.revents().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_put_in_order_over_the_buffers() {
        let mut waiting = Waiting::default();
        let exec = |pid| ProcessEvent::Exec { pid };
        waiting.add(30, exec(3));
        waiting.add(10, exec(1));
        assert_eq!(waiting.ready().count(), 0, "older ones may come");
        waiting.add(20, exec(2));
        waiting.add(40, exec(4));
        let ready: Vec<_> = waiting.ready().collect();
        assert_eq!(ready, [exec(1), exec(2), exec(3)], "by their time");
        let ready: Vec<_> = waiting.ready().collect();
        assert_eq!(ready, [exec(4)], "in the end all of them");
    }

    #[test]
    fn unread_samples_are_counted_as_lost() {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
        const LEN: usize = 256 << 20;
        let event = super::super::Event::named("page-faults").unwrap();
        let cpu = crate::measure::pin::allowed().unwrap().first().unwrap();
        let _pinned = crate::measure::pin::Pinned::to(cpu).unwrap();
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let whose = super::super::open::Whose::Threads(vec![own]);
        let opened = match super::super::open::open(event, 1, &whose) {
            Ok(opened) => opened,
            Err(reason) => {
                println!("skipped: lost samples: {reason}");
                return;
            }
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping of its own, used in its length and unmapped once.
        unsafe {
            let at = mmap_anonymous(std::ptr::null_mut(), LEN, protection, MapFlags::PRIVATE);
            let at = at.unwrap();
            let _ = madvise(at, LEN, Advice::LinuxNoHugepage);
            for offset in (0..LEN).step_by(rustix::param::page_size()) {
                at.cast::<u8>().add(offset).write_volatile(1);
            }
            munmap(at, LEN).unwrap();
        }
        let stop = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let collected = collect(
            opened.rings,
            opened.others,
            opened.counts_lost,
            Spaces::default(),
            &stop,
        );
        let samples: u64 = collected.sites.values().sum();
        let happened = collected.happened.unwrap();
        assert!(collected.lost > 0, "more than a buffer holds");
        assert!(samples > 0 && samples < happened, "{samples} of {happened}");
        if opened.counts_lost {
            let lost = collected.lost;
            assert!(
                samples + lost >= happened,
                "each is one or the other: {samples} and {lost} of {happened}"
            );
        }
    }

    #[test]
    fn there_is_an_end_to_places() {
        let mut collected = Collected::default();
        let identity = super::super::object::Identity::Inode(1);
        collected.spaces.exec(1);
        let name = std::path::Path::new("/x");
        collected.spaces.map(1, 0..u64::MAX, 0, name, identity);
        let sample = |pid, address| ProcessEvent::Sample { pid, address };
        for address in 0..MOST_SITES as u64 + 10 {
            collected.add(sample(1, address));
        }
        assert_eq!(collected.sites.len(), MOST_SITES, "no more");
        assert_eq!(collected.beyond, 10, "and what is beyond is counted");
        let mut unknown = Collected::default();
        for address in 0..100 {
            unknown.add(sample(2, address));
        }
        assert_eq!(unknown.sites.len(), 1, "unknown code is one place");
    }
}
