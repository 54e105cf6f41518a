//! The policy on a clock that stands still unless it is waited for: times are exact.

mod told;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::{EngineAnswer, LeaseAnswer, LeaseOf, Remote};
use crate::block::Block;
use crate::counters::{BreakerState, Totals};
use crate::remote::RemoteEngine;
use crate::{BlockKey, NodeRow, Settings};
use told::{Does, QUICK, Told, ms};

const BLOCK: u64 = 1 << 20;

fn before(engine: &Arc<Told>, settings: &Settings) -> Remote {
    let engine: Arc<dyn RemoteEngine> = Arc::clone(engine) as _;
    Remote::new(engine, settings, BLOCK)
}

/// Requests a block; returns the outcome and the time it took.
async fn get(remote: &Remote) -> (EngineAnswer, Duration) {
    let begun = Instant::now();
    let found = remote.get(&BlockKey::from_bytes([1; 16])).await;
    (found, begun.elapsed())
}

fn totals(remote: &Remote) -> Totals {
    let mut totals = Totals::default();
    remote.add_to(&mut totals);
    totals
}

fn node(remote: &Remote, number: usize) -> NodeRow {
    remote.rows()[number].clone()
}

#[tokio::test(start_paused = true)]
async fn a_healthy_node_is_asked_alone() {
    let engine = Told::new(&[QUICK, QUICK]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!(took, ms(1));
    assert_eq!(engine.asked(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_is_hedged_and_a_hanging_one_is_given_up_at_the_deadline() {
    let engine = Told::new(&[QUICK, QUICK]);
    let remote = before(&engine, &Settings::default());
    get(&remote).await;
    engine.now(0, Does::Hangs);
    let (found, took) = get(&remote).await;
    assert!(
        matches!(found, EngineAnswer::Hit(_)),
        "the second has it: {found:?}"
    );
    assert_eq!(took, ms(11), "asked after 10 ms, as nothing is known yet");
    let totals = totals(&remote);
    assert_eq!(
        (totals.hedges, totals.hedges_won, totals.deadline_misses),
        (1, 1, 0)
    );
    sleep(ms(20)).await;
    assert_eq!(
        node(&remote, 0).deadline_misses,
        1,
        "the first is still held to its deadline"
    );

    engine.now(1, Does::Hangs);
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert_eq!(took, ms(20), "the hedge does not make it longer");
}

#[tokio::test(start_paused = true)]
async fn what_fails_at_once_is_asked_of_the_next_at_once() {
    let engine = Told::new(&[Does::Fails, QUICK]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!(took, ms(1));
    assert_eq!(totals(&remote).hedges, 0, "nobody was waited for");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_the_block_is_believed() {
    let engine = Told::new(&[Does::HasNot(ms(2)), QUICK]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Miss), "{found:?}");
    assert_eq!((took, engine.asked()), (ms(2), vec![0]));
}

/// An engine whose primary, node 0, is in another zone.
fn far_primary(primary: Does, replica: Does) -> Arc<Told> {
    let mut engine = Told::new(&[primary, replica]);
    let told = Arc::get_mut(&mut engine).expect("just made");
    told.far = Some(0);
    engine
}

#[tokio::test(start_paused = true)]
async fn replica_in_own_zone_is_read_and_the_primary_is_written() {
    let engine = far_primary(QUICK, QUICK);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!((took, engine.asked()), (ms(1), vec![1]));
    assert_eq!(totals(&remote).other_zone_hits, 0);
    let key = BlockKey::from_bytes([1; 16]);
    remote.fill(key, Block::seal(&key, Bytes::from_static(b"bytes")), None);
    remote.finish_fills().await;
    assert_eq!(*engine.brought.lock().expect("unpoisoned"), [0]);
}

#[tokio::test(start_paused = true)]
async fn slow_replica_in_own_zone_is_hedged_by_the_primary_and_then_skipped() {
    let engine = far_primary(QUICK, QUICK);
    let remote = before(&engine, &Settings::default());
    get(&remote).await;
    assert_eq!(engine.asked(), [1], "it has answered before it hangs");
    engine.now(1, Does::Hangs);
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!((took, engine.asked()), (ms(11), vec![1, 0]));
    for _ in 0..2 {
        get(&remote).await;
    }
    sleep(ms(20)).await;
    engine.asked();
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!(
        (took, engine.asked()),
        (ms(1), vec![0]),
        "its breaker is open"
    );
    assert_eq!(totals(&remote).other_zone_hits, 4);
}

#[tokio::test(start_paused = true)]
async fn miss_of_a_replica_is_confirmed_by_the_primary() {
    let behind = far_primary(QUICK, Does::HasNot(ms(2)));
    let remote = before(&behind, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!((took, behind.asked()), (ms(3), vec![1, 0]));

    let neither = far_primary(Does::HasNot(ms(1)), Does::HasNot(ms(2)));
    let (found, took) = get(&before(&neither, &Settings::default())).await;
    assert!(matches!(found, EngineAnswer::Miss), "{found:?}");
    assert_eq!((took, neither.asked()), (ms(3), vec![1, 0]));

    let hangs = far_primary(QUICK, Does::HasNot(ms(2)));
    let remote = before(&hangs, &Settings::default());
    get(&remote).await;
    hangs.now(0, Does::Hangs);
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert_eq!(took, ms(20), "within the deadline");
}

#[tokio::test(start_paused = true)]
async fn a_process_without_a_cpu_takes_no_node_for_slow() {
    let engine = Told::new(&[QUICK]);
    let remote = before(&engine, &Settings::default());
    get(&remote).await;
    // All timers are late by far, as after a stop.
    let late = async || {
        let begun = Instant::now();
        let read = get(&remote);
        tokio::pin!(read);
        assert!(
            futures_util::poll!(read.as_mut()).is_pending(),
            "it is asked"
        );
        tokio::time::advance(ms(300)).await;
        let (found, _) = read.await;
        sleep(ms(1)).await;
        (found, begun.elapsed() - ms(1))
    };
    engine.now(0, Does::Gives(ms(310), ms(310)));
    for _ in 0..5 {
        let (found, _) = late().await;
        assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    }
    let row = node(&remote, 0);
    assert_eq!(
        (row.deadline_misses, row.breaker),
        (0, BreakerState::Closed)
    );
    engine.now(0, Does::Hangs);
    let (found, took) = late().await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert_eq!(took, ms(320), "one more deadline");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_began_has_longer_and_is_not_hedged() {
    let engine = Told::new(&[Does::Gives(ms(8), ms(90)), QUICK]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!((took, engine.asked()), (ms(90), vec![0]));
    engine.now(0, Does::Gives(ms(8), ms(900)));
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert_eq!(
        took,
        ms(108),
        "but not where it falls silent for as long as a whole answer may take"
    );
}

#[tokio::test(start_paused = true)]
async fn answer_whose_bytes_keep_coming_is_waited_for_while_the_deadline_of_the_read_permits() {
    let engine = Told::new(&[Does::Trickles(50, ms(90))]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!(took, 50 * ms(90));
    assert_eq!(node(&remote, 0).breaker, BreakerState::Closed);
    engine.now(0, Does::Trickles(1_000, ms(90)));
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert!(took <= ms(9_000), "then the origin is asked: {took:?}");
    let fast = before(&engine, &Settings::default());
    (0..200).for_each(|_| fast.leases().origin_took(ms(1)));
    let (_, took) = get(&fast).await;
    assert_eq!(took, ms(100), "an origin that is fast is asked at once");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_node_costs_three_deadlines_and_then_nothing() {
    let engine = Told::new(&[QUICK]);
    let remote = before(&engine, &Settings::default());
    get(&remote).await;
    engine.now(0, Does::Hangs);
    for _ in 0..3 {
        assert_eq!(get(&remote).await.1, ms(20));
    }
    assert_eq!(node(&remote, 0).breaker, BreakerState::Open);
    engine.asked();
    for _ in 0..100 {
        assert_eq!(get(&remote).await.1, ms(0), "it is not asked");
    }
    assert!(engine.asked().is_empty());
    sleep(ms(500)).await;
    for _ in 0..100 {
        assert_eq!(get(&remote).await.1, ms(0), "nobody waits for a probe");
    }
    assert_eq!(
        engine.asked(),
        Vec::<u32>::new(),
        "it runs when somebody yields"
    );
    sleep(ms(21)).await;
    assert_eq!(engine.asked(), [0], "one of a hundred was the probe");
    assert_eq!(node(&remote, 0).opened, 2, "it failed");
    engine.now(0, QUICK);
    sleep(ms(1_000)).await;
    assert_eq!(get(&remote).await.1, ms(0));
    sleep(ms(2)).await;
    assert_eq!(
        node(&remote, 0).breaker,
        BreakerState::Closed,
        "the probe was answered"
    );
    assert!(matches!(get(&remote).await.0, EngineAnswer::Hit(_)));
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_of_a_busy_node_is_waited_for_and_then_late_ones() {
    let busy = Does::HasNot(ms(600));
    let engine = Told::new(&[busy]);
    let remote = before(&engine, &Settings::default());
    for _ in 0..10 {
        let (found, took) = get(&remote).await;
        assert!(matches!(found, EngineAnswer::Miss), "{found:?}");
        assert_eq!(took, ms(600));
    }
    assert_eq!(node(&remote, 0).breaker, BreakerState::Closed);
    engine.now(0, QUICK);
    for _ in 0..200 {
        get(&remote).await;
        sleep(ms(10)).await;
    }
    engine.now(0, Does::Hangs);
    let (_, took) = get(&remote).await;
    assert!(took <= ms(100), "it has been quick for a second: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_at_the_start_costs_one_wait_and_with_a_second_one_a_deadline() {
    let engine = Told::new(&[Does::Hangs]);
    let remote = Arc::new(before(&engine, &Settings::default()));
    let reads = (0..8).map(|_| get(&remote));
    for (found, took) in futures_util::future::join_all(reads).await {
        assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
        assert_eq!(took, ms(1_000), "a third of --lease");
    }
    for _ in 0..10 {
        assert_eq!(get(&remote).await.1, ms(0), "its breaker is open");
    }
    let engine = Told::new(&[Does::Hangs, QUICK]);
    let remote = Arc::new(before(&engine, &Settings::default()));
    let reads = (0..100).map(|_| get(&remote));
    for (found, took) in futures_util::future::join_all(reads).await {
        assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
        assert!(
            took <= ms(30),
            "a second one is asked, whatever the budget: {took:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn first_wait_for_a_frozen_node_does_not_grow_with_the_read_deadline() {
    let settings = Settings {
        read_deadline: Duration::from_secs(60),
        ..Settings::default()
    };
    let remote = before(&Told::new(&[Does::Hangs]), &settings);
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Unknown), "{found:?}");
    assert_eq!(took, ms(1_000), "a third of --lease");
    let begun = Instant::now();
    let key = BlockKey::from_bytes([1; 16]);
    let lease = remote.take_lease(&key, settings.lease, settings.read_deadline);
    let lease = lease.await;
    assert!(matches!(lease, LeaseAnswer::Unknown), "{lease:?}");
    assert_eq!(begun.elapsed(), settings.lease, "it has never answered");
}

#[tokio::test(start_paused = true)]
async fn node_that_answered_and_falls_silent_costs_a_whole_answer_s_deadline_while_others_have_leases()
 {
    let engine = Told::new(&[QUICK]);
    let remote = before(&engine, &Settings::default());
    get(&remote).await;
    remote.leases().waits(LeaseOf::Block);
    remote.leases().waited_well();
    engine.now(0, Does::Hangs);
    assert_eq!(get(&remote).await.1, ms(100), "and not a first contact's");
    sleep(ms(1_000)).await;
    assert_eq!(get(&remote).await.1, ms(20));
}

#[tokio::test(start_paused = true)]
async fn late_answer_is_a_sign_of_a_busy_node_from_its_last_byte() {
    let slow = Does::Gives(ms(300), ms(2_300));
    let engine = Told::new(&[slow]);
    let remote = before(&engine, &Settings::default());
    let (found, took) = get(&remote).await;
    assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
    assert_eq!(took, ms(2_300));
    sleep(ms(2_000)).await;
    let (found, _) = get(&remote).await;
    assert!(
        matches!(found, EngineAnswer::Hit(_)),
        "it is waited for: {found:?}"
    );
    engine.now(0, Does::Hangs);
    let (_, took) = get(&remote).await;
    assert_eq!(took, ms(2_400), "eight times the longest answer");
    sleep(ms(3_000)).await;
    assert_eq!(get(&remote).await.1, ms(20), "nothing came since");
}

#[tokio::test(start_paused = true)]
async fn while_a_breaker_is_open_the_second_is_asked_first_and_that_is_no_hedge() {
    let engine = Told::new(&[Does::Fails, QUICK]);
    let remote = before(&engine, &Settings::default());
    for _ in 0..200 {
        let (found, took) = get(&remote).await;
        assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
        assert_eq!(took, ms(1));
    }
    assert_eq!(totals(&remote).hedges, 0);
    assert!(node(&remote, 0).calls < 10, "{:?}", node(&remote, 0));
}

#[tokio::test(start_paused = true)]
async fn when_all_are_slow_hedges_end_with_their_budget() {
    let slow = Does::Gives(ms(15), ms(15));
    let engine = Told::new(&[slow, slow]);
    let remote = before(&engine, &Settings::default());
    for _ in 0..1_000 {
        let (found, took) = get(&remote).await;
        assert!(matches!(found, EngineAnswer::Hit(_)), "{found:?}");
        assert_eq!(took, ms(15), "a hedge cannot help");
    }
    let totals = totals(&remote);
    assert!(totals.hedges <= 32 + 50, "the burst and 5 %: {totals:?}");
    assert!(totals.hedges_refused >= 900, "{totals:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_from_a_node_is_bounded() {
    let engine = Told::new(&[Does::Gives(ms(9), ms(9)), QUICK]);
    let settings = Settings {
        in_flight: cachewise_units::Bytes(2 * BLOCK),
        ..Settings::default()
    };
    let remote = Arc::new(before(&engine, &settings));
    let gets: Vec<_> = (0..4)
        .map(|_| {
            let remote = Arc::clone(&remote);
            tokio::spawn(async move { get(&remote).await.1 })
        })
        .collect();
    let mut times = Vec::new();
    for get in gets {
        times.push(get.await.expect("it runs"));
    }
    assert_eq!(
        times,
        [ms(9), ms(9), ms(1), ms(1)],
        "what is too much goes to the second"
    );
}

#[tokio::test(start_paused = true)]
async fn blocks_go_to_the_first_or_to_who_takes_over() {
    let key = BlockKey::from_bytes([1; 16]);
    let block = Block::seal(&key, Bytes::from_static(b"bytes"));
    for (takes_over, expected) in [(false, vec![0]), (true, vec![0, 1])] {
        let mut engine = Told::new(&[Does::Fails, QUICK]);
        Arc::get_mut(&mut engine)
            .expect("nobody has it yet")
            .takes_over = takes_over;
        let remote = before(&engine, &Settings::default());
        remote.fill(key, block.clone(), None);
        sleep(ms(1)).await;
        for _ in 0..3 {
            get(&remote).await;
        }
        remote.fill(key, block.clone(), None);
        remote.finish_fills().await;
        assert_eq!(*engine.brought.lock().expect("unpoisoned"), expected);
        let totals = totals(&remote);
        assert_eq!(totals.fills + totals.dropped_fills, 2, "{totals:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_that_a_hanging_node_does_not_take_are_dropped_and_the_node_is_left_out() {
    let engine = Told::new(&[Does::Hangs]);
    let patient = Settings {
        whole: Duration::from_secs(10),
        ..Settings::default()
    };
    let remote = before(&engine, &patient);
    let brought = || engine.brought.lock().expect("unpoisoned").len();
    let bring = |number| {
        let key = BlockKey::from_bytes([number; 16]);
        remote.fill(key, Block::seal(&key, Bytes::from_static(b"bytes")), None);
    };
    (0..5).for_each(bring);
    let begun = Instant::now();
    remote.finish_fills().await;
    let took = begun.elapsed();
    assert!(
        took >= 5 * patient.whole,
        "it is waited for each: {took:?} of {patient:?}"
    );
    assert_eq!((brought(), totals(&remote).dropped_fills), (5, 5));
    bring(6);
    remote.finish_fills().await;
    assert_eq!(
        (brought(), totals(&remote).dropped_fills),
        (5, 6),
        "left out"
    );
    engine.now(0, QUICK);
    sleep(patient.breaker_open_max).await;
    bring(7);
    sleep(ms(10)).await;
    bring(8);
    remote.finish_fills().await;
    let totals = totals(&remote);
    assert_eq!((brought(), totals.fills), (6, 1), "taken back: {totals:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_broken_is_told_and_no_fault_of_the_node_s_speed() {
    let remote = before(&Told::new(&[Does::Lies]), &Settings::default());
    for _ in 0..5 {
        let (found, _) = get(&remote).await;
        assert!(matches!(found, EngineAnswer::Corrupt), "{found:?}");
    }
    assert_eq!(node(&remote, 0).opened, 0);
}
