//! [`Remote`]: an engine behind the policy.

mod filling;

use std::pin::pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, select_all};
use futures_util::stream::FuturesUnordered;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout};

use super::answer::{Answer, AskReason};
use super::attempt::{self, Asker, Patience};
use super::breaker::Admission;
use super::copies::Copies;
use super::fills::{Fills, Refusal};
use super::hedge::{Budget, HedgeTime};
use super::held::Lease;
use super::lease::{LeaseOf, Leases};
use super::node::Node;
use super::started::Started;
use crate::block::Block;
use crate::counters::{Count, NodeRow, Totals};
use crate::deadline;
use crate::remote::{self, Buffers, EngineSettings, NodeId, RemoteEngine};
use crate::seal::BlockForm;
use crate::{BlockKey, Error, Settings};

/// The engine's answer to a request for a block.
#[derive(Debug)]
pub(crate) enum EngineAnswer {
    /// The block.
    Hit(Block),
    /// The node that would have it has not.
    Miss,
    /// It was there, and broken.
    Corrupt,
    /// No node answered in time.
    Unknown,
}

/// The engine's answer to a request for a lease.
#[derive(Debug)]
pub(crate) enum LeaseAnswer {
    /// This client has the lease.
    Taken(Lease),
    /// Another client has it.
    Held,
    /// No node answered in time, or the node refused.
    Unknown,
}

/// An engine behind the policy: asked within a deadline, a second node where the first is slow, and
/// none that does not answer.
#[derive(Debug)]
pub(crate) struct Remote {
    asker: Arc<Asker>,
    nodes: RwLock<Vec<Arc<Node>>>,
    budget: Budget,
    fills: Fills,
    block_size: u64,
    counts: Arc<Counts>,
    leases: Arc<Leases>,
    copies: Copies,
    /// When a node was asked first.
    started: OnceLock<Instant>,
}

#[derive(Debug, Default)]
struct Counts {
    hedges: Count,
    hedges_won: Count,
    hedges_refused: Count,
    late: Count,
    skipped: Count,
    fills: Count,
    dropped_fills: Count,
    copies: Count,
    copy_hits: Count,
}

/// A busy node may be silent for this many times the longest recent answer.
const BUSY: u32 = 8;

impl Remote {
    pub(crate) async fn open(engine: &EngineSettings, settings: &Settings) -> Result<Self, Error> {
        let buffers = Buffers::for_blocks(settings.block.0);
        let engine = remote::open(engine, settings, &buffers).await?;
        let form = BlockForm::new(settings, buffers);
        Ok(Self::with_form(engine, settings, settings.block.0, form))
    }

    /// Puts an engine of plain blocks behind the policy.
    pub(crate) fn new(engine: Arc<dyn RemoteEngine>, policy: &Settings, block_size: u64) -> Self {
        let form = BlockForm::new(policy, Buffers::for_blocks(block_size));
        Self::with_form(engine, policy, block_size, form)
    }

    fn with_form(
        engine: Arc<dyn RemoteEngine>,
        policy: &Settings,
        block_size: u64,
        form: BlockForm,
    ) -> Self {
        Self {
            asker: Arc::new(Asker {
                engine,
                settings: policy.clone(),
                hedge: HedgeTime::new(policy),
                form,
                failure: Refusal::default(),
            }),
            nodes: RwLock::default(),
            budget: Budget::new(policy),
            fills: Fills::new(policy, block_size),
            block_size,
            counts: Arc::default(),
            leases: Arc::new(Leases::new(policy)),
            copies: Copies::new(policy.copies),
            started: OnceLock::new(),
        }
    }

    /// Asks for a block.
    pub(crate) async fn get(&self, key: &BlockKey) -> EngineAnswer {
        self.get_within(key, None).await
    }

    /// Asks for a block; waits until no time is `left`, as long as the node is not silent for too long. `None` waits for the
    /// usual time, unless nodes are busy.
    pub(crate) async fn get_within(&self, key: &BlockKey, left: Option<Duration>) -> EngineAnswer {
        self.budget.request();
        let (primary, mut candidates) = self.readers(key);
        let Some((node, permit)) = self.first(key, &mut candidates).await else {
            self.counts.skipped.one();
            self.asker.no_node();
            return EngineAnswer::Unknown;
        };
        let begun = Instant::now();
        let usual = self.asker.hedge.deadline();
        let patience = self.patience(&node, left);
        let whole = begun + patience.whole;
        let mut give_up = begun + patience.first;
        let hedge = self.asker.hedge.get().filter(|_| left.is_none());
        let mut hedge_at = hedge.map(|after| begun + after);
        let mut missed = false;
        let mut race = Race::new(&self.asker, *key);
        race.ask(&node, AskReason::First, patience, permit);
        let mut late = false;
        // One timer serves both times. The first poll arms it before the request is sent.
        let mut timer = pin!(sleep_until(hedge_at.map_or(give_up, |at| at.min(give_up))));
        let _ = futures_util::poll!(timer.as_mut());
        loop {
            tokio::select! {
                biased;
                ended = race.attempts.next() => match ended {
                    Some((why, answer)) => match answer {
                        Answer::Hit(block) => {
                            if why == AskReason::Hedge {
                                self.counts.hedges_won.one();
                            }
                            return EngineAnswer::Hit(block);
                        }
                        // A replica may be behind, so the primary has the last word.
                        Answer::Miss => match self.confirms(key, primary, &mut candidates) {
                            Some((node, permit)) => {
                                hedge_at = None;
                                race.starts.clear();
                                let patience = self.patience(&node, left);
                                race.ask(&node, AskReason::First, patience, permit);
                            }
                            // The first is busy and gets the request for the lease anyway: one is under way.
                            None if why == AskReason::Hedge
                                && patience.first > usual
                                && primary.is_none() =>
                            {
                                missed = true;
                            }
                            None => return EngineAnswer::Miss,
                        },
                        Answer::Corrupt => return EngineAnswer::Corrupt,
                        Answer::Late | Answer::Starved => late = true,
                        // Another may be under way; if not, the next one is asked at once. That is
                        // not a hedge, as no request is under way.
                        Answer::Error => {
                            if race.attempts.is_empty()
                                && let Some((node, permit)) = self.second(key, &mut candidates)
                            {
                                hedge_at = None;
                                let patience = self.patience(&node, None);
                                race.ask(&node, AskReason::First, patience, permit);
                            }
                        }
                    },
                    None => break,
                },
                () = timer.as_mut() => {
                    // Later than it gives up is never.
                    if let Some(at) = hedge_at.take().filter(|at| *at < give_up) {
                        // A busy node is waited for beyond the usual time. By then another is asked, whatever the budget.
                        let instead = begun + usual;
                        let is_asked = self.hedge(key, &mut race, &mut candidates, at >= instead);
                        hedge_at = (!is_asked && at < instead).then_some(instead);
                    } else if Instant::now() >= give_up {
                        let is_starved = attempt::is_noticed_late(give_up, usual);
                        if Instant::now() < whole && !race.has_started() && is_starved {
                            give_up = Instant::now() + usual;
                            timer.as_mut().reset(give_up);
                            continue;
                        }
                        if give_up >= whole || !race.has_started() {
                            late = true;
                            break;
                        }
                        // Bytes are coming: each request has its own deadline for them.
                        give_up = whole;
                    }
                    timer.as_mut().reset(hedge_at.map_or(give_up, |at| at.min(give_up)));
                }
            }
        }
        if late {
            self.counts.late.one();
        }
        match missed {
            true => EngineAnswer::Miss,
            false => EngineAnswer::Unknown,
        }
    }

    /// Returns how long to wait for a node: longer where leases are used, and a busy node is therefore worth a wait.
    fn patience(&self, node: &Node, left: Option<Duration>) -> Patience {
        let usual = self.asker.hedge.deadline();
        let whole = self.asker.settings.whole;
        let Some(times) = self.leases.times() else {
            return Patience {
                first: usual,
                silence: None,
                whole,
            };
        };
        let silence = match node.has_answered() {
            true => times.silence,
            false => times.silence.min(times.lease),
        };
        let at_least = left.map_or(Duration::ZERO, |left| left.min(silence));
        let busy = self.asker.hedge.busy();
        let busy = busy.map(|took| {
            let longer = took.saturating_mul(BUSY).max(times.first_contact);
            longer.min(times.lease)
        });
        // Long after the start, a node that this process has not asked is no busier than those that it has.
        let started = self.started.get_or_init(Instant::now);
        let contact = node
            .first_contact(times.first_contact)
            .filter(|_| started.elapsed() < times.lease);
        let patient = [
            at_least,
            busy.unwrap_or_default(),
            contact.unwrap_or_default(),
        ];
        let patient = patient.into_iter().fold(usual, Duration::max);
        let first = match times.is_contended {
            true => patient.max(whole),
            false => patient,
        };
        let all = left.unwrap_or(times.wait).max(whole);
        Patience {
            first: first.min(all),
            silence: Some(match patient > usual {
                true => times.silence.max(whole),
                false => whole,
            }),
            whole: all,
        }
    }

    /// Asks a second node where the first one has not begun to answer, and the budget allows it or `is_free`. Returns
    /// whether one was asked.
    fn hedge(
        &self,
        key: &BlockKey,
        race: &mut Race<'_>,
        candidates: &mut std::vec::IntoIter<Arc<Node>>,
        is_free: bool,
    ) -> bool {
        if race.has_started() || race.attempts.len() != 1 {
            return true;
        }
        let mut rest = candidates.clone();
        let Some((node, permit)) = self.second(key, &mut rest) else {
            return false;
        };
        if !is_free && !self.budget.take() {
            self.counts.hedges_refused.one();
            return false;
        }
        *candidates = rest;
        self.counts.hedges.one();
        let patience = self.patience(&node, None);
        race.ask(&node, AskReason::Hedge, patience, permit);
        true
    }

    /// Returns the nodes to ask, best first.
    fn candidates(&self, key: &BlockKey) -> std::vec::IntoIter<Arc<Node>> {
        let mut route = Vec::with_capacity(4);
        let name = self.asker.form.name(key);
        self.asker.engine.route(&name, &mut route);
        let nodes: Vec<Arc<Node>> = route.into_iter().map(|id| self.node(id)).collect();
        nodes.into_iter()
    }

    /// Returns the nodes to ask for a block, those in the zone of this client first. The first value is the primary, if
    /// another node comes before it.
    fn readers(&self, key: &BlockKey) -> (Option<NodeId>, std::vec::IntoIter<Arc<Node>>) {
        let mut nodes = self.candidates(key).collect::<Vec<_>>();
        let primary = nodes.first().map(|node| node.id);
        nodes.sort_by_key(|node| !self.asker.engine.is_near(node.id));
        let is_first = nodes.first().map(|node| node.id) == primary;
        (primary.filter(|_| !is_first), nodes.into_iter())
    }

    /// Returns the primary, if it is still to be asked after a replica in this zone did not have the block.
    fn confirms(
        &self,
        key: &BlockKey,
        primary: Option<NodeId>,
        candidates: &mut impl Iterator<Item = Arc<Node>>,
    ) -> Option<(Arc<Node>, OwnedSemaphorePermit)> {
        let primary = primary?;
        self.second(key, &mut candidates.filter(|node| node.id == primary))
    }

    /// Returns the first node that is to be asked, and room for the block on its way. Where all
    /// have as much under way as they may, waits for the first of them that has room.
    async fn first(
        &self,
        key: &BlockKey,
        candidates: &mut impl Iterator<Item = Arc<Node>>,
    ) -> Option<(Arc<Node>, OwnedSemaphorePermit)> {
        let mut full: Vec<Arc<Node>> = Vec::new();
        for node in candidates {
            if !self.admits(&node, key) {
                continue;
            }
            match Arc::clone(&node.under_way).try_acquire_owned() {
                Ok(permit) => return Some((node, permit)),
                Err(_) => full.push(node),
            }
        }
        let patience = self.patience(full.first()?, None);
        let within = patience.first.max(self.asker.settings.whole);
        // It is our own load that is waited for, so this is no miss of the node's.
        let rooms = full.iter().map(|node| Arc::clone(&node.under_way));
        let room = select_all(rooms.map(|room| Box::pin(room.acquire_owned())));
        let (permit, at, _) = timeout(within, room).await.ok()?;
        Some((full.swap_remove(at), permit.ok()?))
    }

    /// Returns the next node that is to be asked and has room.
    fn second(
        &self,
        key: &BlockKey,
        candidates: &mut impl Iterator<Item = Arc<Node>>,
    ) -> Option<(Arc<Node>, OwnedSemaphorePermit)> {
        candidates.find_map(|node| {
            if !self.admits(&node, key) {
                return None;
            }
            let permit = Arc::clone(&node.under_way).try_acquire_owned().ok()?;
            Some((node, permit))
        })
    }

    /// Returns whether to ask a node. If a probe is due, sends it in the background.
    fn admits(&self, node: &Arc<Node>, key: &BlockKey) -> bool {
        match node.admit() {
            Admission::Ask => true,
            Admission::Skip => false,
            Admission::Probe => {
                node.asked(AskReason::Probe);
                let (asker, node) = (Arc::clone(&self.asker), Arc::clone(node));
                let patience = Patience {
                    first: asker.hedge.deadline(),
                    silence: None,
                    whole: asker.settings.whole,
                };
                let asked = attempt::ask(asker, node, *key, patience, Arc::default(), None);
                tokio::spawn(asked);
                false
            }
        }
    }

    /// Returns the nodes that may have been given a block. Replicas of a cluster follow their master.
    fn keepers(&self, key: &BlockKey) -> impl Iterator<Item = Arc<Node>> + use<> {
        let takes_over = self.asker.engine.second_takes_over();
        self.candidates(key)
            .take(if takes_over { usize::MAX } else { 1 })
    }

    /// Returns the node that takes a block.
    fn taker(&self, key: &BlockKey) -> Option<Arc<Node>> {
        self.keepers(key).find(|node| self.admits(node, key))
    }

    /// Returns the times and counters of leases.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Takes the lease of a block for some time, if no other client has it. The node has answered just now that it does not
    /// have the block, and those who ask for its lease are many: its answer is waited for, for `at_least` this time. A node
    /// that has never answered is waited for no longer than a lease.
    pub(crate) async fn take_lease(
        &self,
        key: &BlockKey,
        time: Duration,
        at_least: Duration,
    ) -> LeaseAnswer {
        let Some(node) = self.taker(key) else {
            return LeaseAnswer::Unknown;
        };
        let name = self.asker.form.name(key);
        let begun = Instant::now();
        let at_least = match node.has_answered() {
            true => at_least,
            false => at_least.min(time),
        };
        let end = begun + self.asker.hedge.deadline().max(at_least);
        let opens = node.opens();
        let holder = &self.leases.holder;
        let lease = self.asker.engine.lease(node.id, &name, holder, time);
        let answer = tokio::select! {
            biased;
            answer = deadline::by(end, lease) => answer,
            () = opens => None,
        };
        if let Some(Ok(_)) = answer {
            node.answers();
            let took = begun.elapsed();
            self.asker.hedge.record_patient(begun, took, took);
        }
        match answer {
            Some(Ok(true)) => {
                let lease = Lease::new(&self.asker, node.id, name, holder, (begun, time));
                LeaseAnswer::Taken(lease)
            }
            Some(Ok(false)) => LeaseAnswer::Held,
            Some(Err(_)) | None => LeaseAnswer::Unknown,
        }
    }

    /// Returns the copy of a block to look for before the block itself, if one is to be.
    pub(crate) fn copy(&self, key: &BlockKey) -> Option<BlockKey> {
        let are_busy = self.asker.hedge.busy().is_some();
        self.copies.of(key, self.leases.times(), are_busy)
    }

    /// Records that a copy was there: others read the same blocks.
    pub(crate) fn found_copy(&self) {
        self.counts.copy_hits.one();
        self.copies.found();
        self.leases.contend();
    }

    /// Records that this client makes a copy.
    pub(crate) fn makes_copy(&self) {
        self.copies.makes();
    }

    /// Returns the last node that did not answer a request for a block, and the reason.
    pub(crate) fn failure(&self) -> Option<String> {
        self.asker.failure.get()
    }

    /// Returns what of the engine's setting-up will hurt.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.asker.engine.warnings()
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        let counts = &self.counts;
        totals.hedges = counts.hedges.get();
        totals.hedges_won = counts.hedges_won.get();
        totals.hedges_refused = counts.hedges_refused.get();
        totals.deadline_misses = counts.late.get();
        totals.breaker_skips = counts.skipped.get();
        totals.fills = counts.fills.get();
        totals.dropped_fills = counts.dropped_fills.get();
        let known = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let far = known
            .iter()
            .filter(|node| !self.asker.engine.is_near(node.id));
        totals.other_zone_hits = far.map(|node| node.hits()).sum();
        drop(known);
        totals.leases = self.leases.taken.get();
        totals.lease_waits = self.leases.waits.get();
        totals.lease_waits_in_vain = self.leases.in_vain.get();
        totals.copies = counts.copies.get();
        totals.copy_hits = counts.copy_hits.get();
        totals.deadline_seconds = Some(self.asker.hedge.deadline().as_secs_f64());
        totals.hedge_after_seconds = self.asker.hedge.get().map(|after| after.as_secs_f64());
    }

    pub(crate) fn rows(&self) -> Vec<NodeRow> {
        let engine = &self.asker.engine;
        (0..engine.nodes())
            .map(|number| {
                let id = NodeId(number);
                self.node(id).row(engine.name(id), engine.connections(id))
            })
            .collect()
    }

    fn node(&self, id: NodeId) -> Arc<Node> {
        let at = usize::try_from(id.0).unwrap_or(usize::MAX);
        let known = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known.get(at) {
            return Arc::clone(node);
        }
        drop(known);
        let mut known = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        // Numbers are given out one after the other, so this adds one or a few.
        loop {
            if let Some(node) = known.get(at) {
                return Arc::clone(node);
            }
            let next = NodeId(u32::try_from(known.len()).unwrap_or(u32::MAX));
            let node = Node::new(next, &self.asker.settings, self.block_size);
            known.push(Arc::new(node));
        }
    }
}

/// The requests for one block that are under way.
struct Race<'a> {
    asker: &'a Arc<Asker>,
    key: BlockKey,
    attempts: FuturesUnordered<BoxFuture<'static, (AskReason, Answer)>>,
    starts: Vec<Arc<Started>>,
}

impl<'a> Race<'a> {
    fn new(asker: &'a Arc<Asker>, key: BlockKey) -> Self {
        Self {
            asker,
            key,
            attempts: FuturesUnordered::new(),
            starts: Vec::with_capacity(2),
        }
    }

    fn ask(
        &mut self,
        node: &Arc<Node>,
        why: AskReason,
        patience: Patience,
        permit: OwnedSemaphorePermit,
    ) {
        node.asked(why);
        let started = Arc::new(Started::default());
        self.starts.push(Arc::clone(&started));
        let (asker, node, key) = (Arc::clone(self.asker), Arc::clone(node), self.key);
        self.attempts.push(Box::pin(async move {
            let answer = attempt::ask(asker, node, key, patience, started, Some(permit)).await;
            (why, answer)
        }));
    }

    /// Says whether the first byte of an answer is there.
    fn has_started(&self) -> bool {
        self.starts.iter().any(|started| started.get().is_some())
    }
}

/// Requests continue after their reader has left. Breakers and percentiles need the real latency of
/// a node, and a connection whose reply arrives within the deadline can be kept.
impl Drop for Race<'_> {
    fn drop(&mut self) {
        if self.attempts.is_empty() {
            return;
        }
        let attempts = std::mem::take(&mut self.attempts);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(attempts.for_each(|_| std::future::ready(())));
        }
    }
}
