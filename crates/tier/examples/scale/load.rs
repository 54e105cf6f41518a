//! Clients, nodes with queues, and what a policy makes of slow ones.
//!
//! Discrete events. Nodes answer one question after the other, as Redis does; so the end of an answer is known when
//! the question arrives, and only questions are events. Clients are paced: each asks five times a second, or when its
//! last answer has come if that is later, as those of the measurements at 5 nodes did.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::random::{Random, mix};

/// Clients for each node: 120 at 5 nodes.
const CLIENTS: usize = 24;
/// Clients on each machine: they read through one mount, which knows what each of them met.
const ON_A_MACHINE: usize = 15;
/// Time between a client's questions, in seconds.
const PACE: f64 = 0.2;
/// When nodes freeze, for how long, and when the simulation ends.
const BEGIN: f64 = 2.0;
const END: f64 = 7.0;
const STOP: f64 = 9.0;
/// A node answers in so much time for the question, and so much for each of its 64 to 1,024 KiB: measured at 5 nodes.
const QUESTION: f64 = 60e-6;
const KIB: f64 = 0.25e-6;
/// A read of the origin, on the average.
const ORIGIN: f64 = 5e-3;

/// The policy's settings, as they are by default.
const FIRST_BYTE: f64 = 20e-3;
const HEDGE: (f64, f64) = (3e-3, 10e-3);
const HEDGE_SHARE: f64 = 0.05;
const HEDGE_BURST: f64 = 32.0;
const BREAKER_MISSES: usize = 3;
const BREAKER_WINDOW: f64 = 1.0;
const BREAKER_OPEN: (f64, f64) = (0.5, 5.0);

/// How a client deals with a node that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// It waits.
    None,
    /// After 20 ms it reads from the origin.
    Deadline,
    /// And it does not ask a node that missed three deadlines within a second, for a while.
    Breaker,
    /// And it asks a second node that has the block, after 3 to 10 ms.
    All,
}

impl Policy {
    /// From nothing to everything.
    pub const ALL: [Policy; 4] = [Policy::None, Policy::Deadline, Policy::Breaker, Policy::All];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Deadline => "deadline",
            Policy::Breaker => "deadline, breaker",
            Policy::All => "deadline, breaker, hedge to a replica",
        }
    }
}

/// The fault of slow nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// They do nothing for five seconds.
    Frozen,
    /// They do nothing for 500 ms of every 520, for five seconds.
    Busy,
}

/// The simulated scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// How many nodes.
    pub nodes: usize,
    /// How many of them are slow.
    pub slow: usize,
    /// In which way.
    pub trouble: Trouble,
    /// The policy of the clients.
    pub policy: Policy,
}

impl Scenario {
    /// A scenario of `nodes` nodes, `slow` of which freeze.
    pub fn frozen(nodes: usize, slow: usize, policy: Policy) -> Self {
        Self {
            nodes,
            slow,
            trouble: Trouble::Frozen,
            policy,
        }
    }
}

/// The results while nodes were slow.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Requests answered, over those of as much time before.
    pub kept: f64,
    /// Seconds to the first byte of requests that began while nodes were slow.
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Hedges, as a share of requests.
    pub hedges: f64,
    /// Requests answered by the origin, as a share.
    pub origin: f64,
    pub origin_a_second: f64,
}

/// A question that is due.
struct Event {
    at: f64,
    client: usize,
    step: Step,
}

enum Step {
    /// A new request.
    Ask,
    /// The first node has not answered: ask the second.
    Hedge {
        began: f64,
        first: f64,
        node: usize,
        second: usize,
        service: f64,
    },
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        // A heap gives the greatest, and the earliest is wanted.
        let order = other.at.total_cmp(&self.at);
        order.then_with(|| other.client.cmp(&self.client))
    }
}

/// A client's breaker for one node.
#[derive(Debug, Default)]
struct Breaker {
    node: usize,
    misses: VecDeque<f64>,
    open_until: f64,
    length: f64,
}

/// The mount of a machine: breakers, budget and latencies.
struct Machine {
    breakers: Vec<Breaker>,
    tokens: f64,
    latencies: VecDeque<f64>,
}

impl Machine {
    /// Whether the node is not to be asked now. When the time is over, one question is let through as a probe, and
    /// the next ones wait for what comes of it.
    fn is_open(&mut self, node: usize, now: f64) -> bool {
        let breaker = self
            .breakers
            .iter_mut()
            .find(|breaker| breaker.node == node);
        let Some(breaker) = breaker.filter(|breaker| breaker.length > 0.0) else {
            return false;
        };
        if now < breaker.open_until {
            return true;
        }
        breaker.open_until = now + FIRST_BYTE;
        false
    }

    /// The node missed its deadline.
    fn missed(&mut self, node: usize, now: f64) {
        let place = self
            .breakers
            .iter()
            .position(|breaker| breaker.node == node);
        let place = place.unwrap_or_else(|| {
            self.breakers.push(Breaker {
                node,
                ..Breaker::default()
            });
            self.breakers.len() - 1
        });
        let breaker = &mut self.breakers[place];
        breaker.misses.push_back(now);
        while breaker
            .misses
            .front()
            .is_some_and(|miss| *miss < now - BREAKER_WINDOW)
        {
            breaker.misses.pop_front();
        }
        // A request that an open breaker lets through is a probe.
        let is_probe = breaker.length > 0.0;
        if is_probe || breaker.misses.len() >= BREAKER_MISSES {
            breaker.length = (breaker.length * 2.0).clamp(BREAKER_OPEN.0, BREAKER_OPEN.1);
            breaker.open_until = now + breaker.length;
        }
    }

    fn answered(&mut self, node: usize, took: f64) {
        self.breakers.retain(|breaker| breaker.node != node);
        self.latencies.push_back(took);
        if self.latencies.len() > 100 {
            self.latencies.pop_front();
        }
    }

    /// When to hedge: the 99th percentile of the last answers, within bounds.
    fn hedge_after(&self) -> f64 {
        let most = self.latencies.iter().copied().fold(0.0, f64::max);
        most.clamp(HEDGE.0, HEDGE.1)
    }
}

/// A node's queue, and when it does nothing.
struct Nodes {
    free_at: Vec<f64>,
    slow: usize,
    trouble: Trouble,
    offsets: Vec<f64>,
}

impl Nodes {
    /// Takes a question at this time; returns when its answer is there.
    fn ask(&mut self, node: usize, at: f64, service: f64) -> f64 {
        let Some(free) = self.free_at.get(node).copied() else {
            return at;
        };
        let begins = self.awake(node, at.max(free));
        let mut ends = begins + service;
        let wakes = self.awake(node, ends);
        if wakes > ends {
            ends = wakes;
        }
        self.free_at[node] = ends;
        ends
    }

    /// When the node is next at work, from this time on.
    fn awake(&self, node: usize, at: f64) -> f64 {
        if node >= self.slow || !(BEGIN..END).contains(&at) {
            return at;
        }
        match self.trouble {
            Trouble::Frozen => END,
            Trouble::Busy => {
                let phase = (at - BEGIN + self.offsets[node]) % 0.52;
                if phase < 0.5 { at + 0.5 - phase } else { at }
            }
        }
    }
}

/// Plays a scenario through.
pub fn simulate(scenario: &Scenario) -> Outcome {
    let seed = mix(scenario.nodes as u64 * 1_000 + scenario.slow as u64);
    let mut random = Random::new(seed);
    let mut nodes = Nodes {
        free_at: vec![0.0; scenario.nodes],
        slow: scenario.slow,
        trouble: scenario.trouble,
        offsets: (0..scenario.nodes).map(|_| random.unit() * 0.52).collect(),
    };
    let machines = (scenario.nodes * CLIENTS).div_ceil(ON_A_MACHINE);
    let mut machines: Vec<Machine> = (0..machines)
        .map(|_| Machine {
            breakers: Vec::new(),
            tokens: HEDGE_BURST,
            latencies: VecDeque::new(),
        })
        .collect();
    let mut events = BinaryHeap::new();
    for client in 0..scenario.nodes * CLIENTS {
        // Not all at once.
        let at = random.unit() * PACE;
        events.push(Event {
            at,
            client,
            step: Step::Ask,
        });
    }
    let mut tally = Tally::default();
    while let Some(event) = events.pop() {
        if event.at >= STOP {
            break;
        }
        let Some(machine) = machines.get_mut(event.client / ON_A_MACHINE) else {
            continue;
        };
        let now = event.at;
        let (began, done) = match event.step {
            Step::Ask => {
                let (node, second) = holders(&mut random, scenario.nodes);
                let service = service(&mut random);
                machine.tokens = (machine.tokens + HEDGE_SHARE).min(HEDGE_BURST);
                let mut first = node;
                if scenario.policy >= Policy::Breaker && machine.is_open(node, now) {
                    if scenario.policy == Policy::All && !machine.is_open(second, now) {
                        first = second;
                    } else {
                        let done = now + random.exponential(ORIGIN);
                        tally.origin(now);
                        tally.done(now, done);
                        events.push(Event {
                            at: done.max(now + PACE),
                            client: event.client,
                            step: Step::Ask,
                        });
                        continue;
                    }
                }
                let answer = nodes.ask(first, now, service);
                let hedge = now + machine.hedge_after();
                let may_hedge = scenario.policy == Policy::All && first == node;
                if may_hedge
                    && answer > hedge
                    && machine.tokens >= 1.0
                    && !machine.is_open(second, now)
                {
                    machine.tokens -= 1.0;
                    let step = Step::Hedge {
                        began: now,
                        first: answer,
                        node,
                        second,
                        service,
                    };
                    events.push(Event {
                        at: hedge,
                        client: event.client,
                        step,
                    });
                    continue;
                }
                let by = Answer {
                    node: first,
                    at: answer,
                };
                (
                    now,
                    settle(
                        scenario.policy,
                        machine,
                        &mut random,
                        &mut tally,
                        now,
                        &[by],
                    ),
                )
            }
            Step::Hedge {
                began,
                first,
                node,
                second,
                service,
            } => {
                tally.hedge(began);
                let answer = nodes.ask(second, now, service);
                let by = [
                    Answer { node, at: first },
                    Answer {
                        node: second,
                        at: answer,
                    },
                ];
                (
                    began,
                    settle(
                        scenario.policy,
                        machine,
                        &mut random,
                        &mut tally,
                        began,
                        &by,
                    ),
                )
            }
        };
        tally.done(began, done);
        let at = done.max(began + PACE);
        events.push(Event {
            at,
            client: event.client,
            step: Step::Ask,
        });
    }
    tally.outcome()
}

struct Answer {
    node: usize,
    at: f64,
}

/// When the request has its first byte, from a node or from the origin.
fn settle(
    policy: Policy,
    machine: &mut Machine,
    random: &mut Random,
    tally: &mut Tally,
    began: f64,
    answers: &[Answer],
) -> f64 {
    let soonest = answers
        .iter()
        .map(|answer| answer.at)
        .fold(f64::MAX, f64::min);
    if policy == Policy::None {
        return soonest;
    }
    let deadline = began + FIRST_BYTE;
    for answer in answers {
        if answer.at > deadline {
            machine.missed(answer.node, deadline);
        } else {
            machine.answered(answer.node, answer.at - began);
        }
    }
    if soonest <= deadline {
        return soonest;
    }
    tally.origin(began);
    deadline + random.exponential(ORIGIN)
}

/// A block somewhere: its first and its second node.
fn holders(random: &mut Random, nodes: usize) -> (usize, usize) {
    // Scores are as good as random, so two different nodes at random are what rendezvous hashing gives.
    let first = random.below(nodes);
    let second = (first + 1 + random.below(nodes.max(2) - 1)) % nodes;
    (first, second)
}

fn service(random: &mut Random) -> f64 {
    // 64, 128, 256, 512 and 1,024 KiB alike, and some noise.
    let kib = 64usize << random.below(5);
    let mean = QUESTION + KIB * kib as f64;
    mean * 0.8 + random.exponential(mean * 0.2)
}

/// The counts of requests by outcome.
#[derive(Default)]
struct Tally {
    before: u64,
    answered: u64,
    asked: u64,
    hedges: u64,
    origin: u64,
    times: Vec<f64>,
}

impl Tally {
    fn done(&mut self, began: f64, done: f64) {
        // As long before as is looked at: the first fifth of a second is a start.
        if (PACE..BEGIN).contains(&done) {
            self.before += 1;
        }
        if (BEGIN..END).contains(&done) {
            self.answered += 1;
        }
        if (BEGIN..END).contains(&began) {
            self.asked += 1;
            self.times.push(done - began);
        }
    }

    fn hedge(&mut self, began: f64) {
        self.hedges += u64::from((BEGIN..END).contains(&began));
    }

    fn origin(&mut self, began: f64) {
        self.origin += u64::from((BEGIN..END).contains(&began));
    }

    fn outcome(mut self) -> Outcome {
        self.times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (self.times.len() as f64 * share) as usize;
            let last = self.times.len().saturating_sub(1);
            self.times.get(place.min(last)).copied().unwrap_or(0.0)
        };
        let healthy = self.before as f64 / (BEGIN - PACE);
        let asked = self.asked.max(1) as f64;
        Outcome {
            kept: self.answered as f64 / (END - BEGIN) / healthy,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            hedges: self.hedges as f64 / asked,
            origin: self.origin as f64 / asked,
            origin_a_second: self.origin as f64 / (END - BEGIN),
        }
    }
}

/// The cost of a node that joins empty.
pub struct Refill {
    /// Misses among the requests at first, as a share.
    pub misses_at_once: f64,
    pub first_second: f64,
    pub after_ten: f64,
    pub after_sixty: f64,
    /// Blocks that were read from the origin again within a minute, as a share of all.
    pub read_again: f64,
}

/// Adds a node to `nodes` nodes that have all blocks: 4,000 blocks a node, with a Zipf distribution
/// of requests (exponent 0.9).
pub fn refill(nodes: usize) -> Refill {
    const BLOCKS: usize = 4_000;
    let blocks = nodes * BLOCKS;
    let mut random = Random::new(mix(nodes as u64));
    // By rendezvous hashing the newcomer wins each block with the same chance.
    let moved: Vec<bool> = (0..blocks).map(|_| random.below(nodes + 1) == 0).collect();
    let mut weights = Vec::with_capacity(blocks);
    let mut sum = 0.0;
    for rank in 0..blocks {
        sum += 1.0 / ((rank + 1) as f64).powf(0.9);
        weights.push(sum);
    }
    let rate = (nodes * CLIENTS) as f64 / PACE;
    let mut is_filled = vec![false; blocks];
    let mut reads = Vec::new();
    let total = (rate * 61.0) as usize;
    for request in 0..total {
        let wanted = random.unit() * sum;
        let block = weights
            .partition_point(|weight| *weight < wanted)
            .min(blocks - 1);
        if moved[block] && !is_filled[block] {
            is_filled[block] = true;
            reads.push(request as f64 / rate);
        }
    }
    let within = |from: f64| {
        reads
            .iter()
            .filter(|at| (from..from + 1.0).contains(*at))
            .count()
    };
    let moved_weight: f64 = (0..blocks)
        .filter(|block| moved[*block])
        .map(|block| 1.0 / ((block + 1) as f64).powf(0.9))
        .sum();
    Refill {
        misses_at_once: moved_weight / sum,
        first_second: within(0.0) as f64,
        after_ten: within(10.0) as f64,
        after_sixty: within(60.0) as f64,
        read_again: reads.len() as f64 / blocks as f64,
    }
}
