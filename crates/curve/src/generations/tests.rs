//! Reclaim by generations, at the limit of a memory.

use crate::cache::{AccessResult, Cache, Policy, Touch};

fn limited(pages: u64) -> Cache {
    let mut cache = Cache::unlimited(Policy::Generations);
    cache.resize(pages, 0, 1.0);
    cache
}

fn read(cache: &mut Cache, slots: std::ops::Range<u32>) -> u32 {
    let found = slots.map(|slot| cache.access(slot, Touch::Marks));
    found.filter(|found| *found == AccessResult::Miss).count() as u32
}

#[test]
fn reclaim_frees_a_batch_of_64_pages() {
    let mut cache = limited(8192);
    read(&mut cache, 0..8193);
    assert_eq!(cache.resident(), 8192 - 64 + 1);
}

#[test]
fn pages_read_once_leave_in_the_order_of_their_reads() {
    let mut cache = limited(8192);
    read(&mut cache, 0..8193);
    assert!((0..64).all(|slot| !cache.has(slot)), "the first ones");
    assert!((64..8193).all(|slot| cache.has(slot)), "no others");
}

#[test]
fn second_read_alone_does_not_protect_a_page() {
    // Without refaults no tier has earned protection.
    let mut cache = limited(8192);
    read(&mut cache, 0..64);
    read(&mut cache, 0..64);
    read(&mut cache, 64..8193);
    assert!((0..64).all(|slot| !cache.has(slot)));
}

#[test]
fn page_read_five_times_outlives_its_generation() {
    let mut cache = limited(8192);
    for _ in 0..5 {
        read(&mut cache, 0..64);
    }
    read(&mut cache, 64..8193);
    assert!((0..64).all(|slot| cache.has(slot)), "they moved on");
    assert!((64..128).all(|slot| !cache.has(slot)), "the next ones left");
}

#[test]
fn tier_that_refaults_more_than_the_first_is_protected() {
    let mut cache = limited(8192);
    // Pages that are read twice in turn come back; pages of the stream do not.
    let mut stream = 1 << 16;
    let mut misses = 0;
    for round in 0..60 {
        for first in (0..2048).step_by(16) {
            let again = read(&mut cache, first..first + 16);
            misses += if round >= 50 { again } else { 0 };
            read(&mut cache, first..first + 16);
            read(&mut cache, stream..stream + 64);
            stream = (1 << 16) + (stream - (1 << 16) + 64) % (1 << 17);
        }
    }
    assert!(misses < 10 * 2048 / 2, "{misses} of {}", 10 * 2048);
}

#[test]
fn loop_larger_than_the_memory_misses_each_page() {
    let mut cache = limited(4096);
    for _ in 0..4 {
        assert_eq!(read(&mut cache, 0..6000), 6000);
    }
}

#[test]
fn sampled_memory_frees_the_same_share() {
    let mut cache = Cache::unlimited(Policy::Generations);
    cache.resize(8192 * 16, 0, 1.0 / 16.0);
    read(&mut cache, 0..8193);
    assert_eq!(cache.resident(), 8192 - 64 / 16 + 1);
}

#[test]
fn page_fault_puts_a_page_into_the_youngest_generation() {
    let mut cache = limited(8192);
    cache.in_fault = true;
    read(&mut cache, 0..64);
    cache.in_fault = false;
    read(&mut cache, 64..8193);
    assert!((0..64).all(|slot| cache.has(slot)), "they are mapped");
    assert!((64..128).all(|slot| !cache.has(slot)), "read once");
}
