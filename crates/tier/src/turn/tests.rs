//! Leases on a clock that stands still unless it is waited for: times are exact.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::*;
use crate::block::StoredBlock;
use crate::policy::Started;
use crate::remote::{NodeId, RemoteEngine, RemoteError, Renewal};
use crate::{Settings, Totals};

const KEY: BlockKey = BlockKey::from_bytes([1; 16]);
const BLOCK: u64 = 128 << 10;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// An engine of one node.
#[derive(Debug, Default)]
struct Scripted {
    /// Time at which the block is there.
    stored: Option<Instant>,
    /// Whether another client has the lease.
    is_held: bool,
    hangs: bool,
    refuses: bool,
    taken: AtomicU32,
    ended: AtomicU32,
    renewed: AtomicU32,
    /// Outcomes of renewals; the last one is that of all further ones.
    renewals: Vec<Renewal>,
    lease: Mutex<Option<Duration>>,
}

impl Scripted {
    fn remote(self) -> (Arc<Self>, Remote) {
        let engine = Arc::new(self);
        let remote = Remote::new(Arc::clone(&engine) as _, &Settings::default(), BLOCK);
        (engine, remote)
    }
}

impl RemoteEngine for Scripted {
    fn name(&self, _: NodeId) -> String {
        "scripted".to_owned()
    }

    fn nodes(&self) -> u32 {
        1
    }

    fn connections(&self, _: NodeId) -> usize {
        0
    }

    fn route(&self, _: &BlockKey, into: &mut Vec<NodeId>) {
        into.push(NodeId(0));
    }

    fn second_takes_over(&self) -> bool {
        false
    }

    fn get<'a>(
        &'a self,
        _: NodeId,
        key: &'a BlockKey,
        _: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        let is_stored = self.stored.is_some_and(|at| at <= Instant::now());
        let stored = is_stored.then(|| Block::seal(key, Bytes::from_static(b"bytes")).stored());
        let bytes = stored.map(|stored| [stored.head().as_ref(), stored.body()].concat().into());
        Box::pin(std::future::ready(Ok(bytes)))
    }

    fn put<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
        _: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        let refused = Err(RemoteError::Refused("OOM".to_owned()));
        Box::pin(std::future::ready(match self.refuses {
            true => refused,
            false => Ok(()),
        }))
    }

    fn lease<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
        _: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        *self.lease.lock().expect("unpoisoned") = Some(time);
        match self.hangs {
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(Ok(!self.is_held))),
        }
    }

    fn renew_lease<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        let number = self.renewed.fetch_add(1, Ordering::Relaxed);
        let renewals = &self.renewals;
        let renewal = renewals.get(number as usize).or(renewals.last());
        let renewal = renewal.copied().unwrap_or(Renewal::Renewed);
        Box::pin(std::future::ready(Ok(renewal)))
    }

    fn end_lease<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        self.ended.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }

    fn refresh(&self) {}

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

fn totals(remote: &Remote) -> Totals {
    let mut totals = Totals::default();
    remote.add_to(&mut totals);
    totals
}

fn block() -> Block {
    Block::seal(&KEY, Bytes::from_static(b"bytes"))
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_lease_that_stays_leaves_time_to_read_the_origin() {
    let held = Scripted {
        is_held: true,
        ..Scripted::default()
    };
    let (engine, remote) = held.remote();
    let times = remote.leases().times().expect("a slow origin");
    let begun = Instant::now();
    let turn = turn(&remote, LeaseOf::Block, &KEY, begun).await;
    assert!(matches!(turn, Turn::Read(None)), "{turn:?}");
    let waited = begun.elapsed();
    assert!(
        waited >= times.wait && waited <= times.wait + ms(2),
        "{waited:?} of {times:?}"
    );
    let settings = Settings::default();
    assert_eq!(times.wait, settings.read_deadline * 9 / 10, "time is left");
    remote.leases().origin_took(ms(8_000));
    let times = remote.leases().times().expect("a slow origin");
    assert_eq!(
        times.wait,
        settings.read_deadline / 2,
        "more where the origin is slow"
    );
    assert_eq!(times.lease, settings.lease);
    assert_eq!(
        *engine.lease.lock().expect("unpoisoned"),
        Some(settings.lease)
    );
    let totals = totals(&remote);
    let counts = (
        totals.leases,
        totals.lease_waits,
        totals.lease_waits_in_vain,
    );
    assert_eq!(counts, (0, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn block_of_another_client_is_found_soon_after_it_is_stored() {
    for after in [ms(1), ms(30), ms(100)] {
        let held = Scripted {
            is_held: true,
            stored: Some(Instant::now() + after),
            ..Scripted::default()
        };
        let (_, remote) = held.remote();
        for _ in 0..200 {
            remote.leases().origin_took(ms(30));
        }
        let begun = Instant::now();
        let turn = turn(&remote, LeaseOf::Block, &KEY, begun).await;
        assert!(matches!(turn, Turn::Found(_)), "{turn:?}");
        let late = begun.elapsed() - after;
        assert!(late <= ms(40), "the pause is short: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn engine_that_hangs_costs_one_wait_and_a_fast_origin_has_no_leases() {
    let hanging = Scripted {
        hangs: true,
        ..Scripted::default()
    };
    let (engine, remote) = hanging.remote();
    let begun = Instant::now();
    assert!(matches!(
        turn(&remote, LeaseOf::Block, &KEY, begun).await,
        Turn::Read(None)
    ));
    assert!(begun.elapsed() <= Settings::default().busy_patience() + ms(2));
    for _ in 0..200 {
        remote.leases().origin_took(ms(1));
    }
    assert!(matches!(
        turn(&remote, LeaseOf::Block, &KEY, begun).await,
        Turn::Read(None)
    ));
    assert_eq!(engine.taken.load(Ordering::Relaxed), 1, "not a second time");
}

#[tokio::test(start_paused = true)]
async fn lease_ends_with_a_read_that_fails_and_stays_with_a_block_that_is_stored() {
    let (engine, remote) = Scripted::default().remote();
    let ended = || engine.ended.load(Ordering::Relaxed);
    let Turn::Read(Some(lease)) = turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await else {
        panic!("it is free");
    };
    remote.fill(KEY, block(), Some(lease));
    remote.finish_fills().await;
    assert_eq!(
        ended(),
        0,
        "clients that missed the block before will find it"
    );
    drop(turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await);
    sleep(ms(1)).await;
    assert_eq!(ended(), 1, "others need not wait for a read that failed");
}

#[tokio::test(start_paused = true)]
async fn lease_is_renewed_until_the_read_of_its_holder_ends() {
    let (engine, remote) = Scripted::default().remote();
    let renewed = || engine.renewed.load(Ordering::Relaxed);
    let lease = Settings::default().lease;
    for is_stored in [true, false] {
        let Turn::Read(Some(held)) = turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await
        else {
            panic!("it is free");
        };
        let before = renewed();
        sleep(10 * lease + ms(100)).await;
        assert_eq!(renewed() - before, 30, "three times in each lease");
        match is_stored {
            true => remote.fill(KEY, block(), Some(held)),
            false => drop(held),
        }
        sleep(10 * lease).await;
        assert_eq!(renewed() - before, 30, "the read is over");
    }
    assert_eq!(engine.ended.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn lease_that_another_client_has_taken_is_not_ended() {
    for (renewals, renewed) in [
        (vec![Renewal::Renewed, Renewal::Other, Renewal::Renewed], 9),
        (vec![Renewal::Renewed, Renewal::Ended], 2),
    ] {
        let (engine, remote) = Scripted {
            renewals,
            ..Scripted::default()
        }
        .remote();
        let Turn::Read(Some(lease)) = turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await
        else {
            panic!("it is free");
        };
        sleep(3 * Settings::default().lease + ms(10)).await;
        drop(lease);
        sleep(ms(10)).await;
        assert_eq!(engine.renewed.load(Ordering::Relaxed), renewed);
        assert_eq!(engine.ended.load(Ordering::Relaxed), 0, "it is another's");
    }
}

#[tokio::test(start_paused = true)]
async fn engine_that_refuses_blocks_has_no_leases_for_some_time() {
    let refusing = Scripted {
        refuses: true,
        ..Scripted::default()
    };
    let (engine, remote) = refusing.remote();
    let taken = || engine.taken.load(Ordering::Relaxed);
    let Turn::Read(lease @ Some(_)) = turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await
    else {
        panic!("it is free");
    };
    remote.fill(KEY, block(), lease);
    remote.finish_fills().await;
    sleep(ms(1)).await;
    assert_eq!(engine.ended.load(Ordering::Relaxed), 1, "the lease is over");
    turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await;
    assert_eq!(taken(), 1, "none is taken at an engine that refuses blocks");
    sleep(ms(11_000)).await;
    turn(&remote, LeaseOf::Block, &KEY, Instant::now()).await;
    assert_eq!(taken(), 2, "it is tried again");
}
