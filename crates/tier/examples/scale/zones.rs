//! The loss of all nodes of one zone, under a steady load.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use cachewise_tier::Settings;
use cachewise_tier::simulation::{SimulatedClient, Source};
use tokio::time::{Instant, sleep, sleep_until};

use super::fleet::{Fleet, Replicas, ZONES};
use super::random::{Random, mix};
use super::storm::{bytes, fill, key, on_paused_clock};

/// Time between the reads of a client, on average.
const PACE: f64 = 0.5;
/// Seconds after which the zone is lost, replicas take over, and the simulation ends.
const LOST: f64 = 4.0;
const TAKEN_OVER: f64 = 19.0;
const END: f64 = 23.0;
/// Blocks for each node.
const BLOCKS: usize = 20;
/// Response time of the origin, on average.
const ORIGIN: f64 = 30e-3;

/// A loss of a third of the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Loss {
    pub clients: usize,
    pub nodes: usize,
    pub replicas: Replicas,
    /// Whether clients, which are spread over the zones, have one (`--zone`).
    pub has_zones: bool,
    pub settings: fn() -> Settings,
}

/// The results of one part of the time.
#[derive(Debug, Clone, Default)]
pub struct Part {
    origin: u64,
    other_zone: u64,
    seconds: f64,
    times: Vec<f64>,
}

impl Part {
    /// Reads of the origin, as a share of all reads.
    pub fn origin(&self) -> f64 {
        self.origin as f64 / self.times.len().max(1) as f64
    }

    /// Blocks that came from another zone, as a share of all reads; 0 without zones.
    pub fn other_zone(&self) -> f64 {
        self.other_zone as f64 / self.times.len().max(1) as f64
    }

    pub fn origin_a_second(&self) -> f64 {
        self.origin as f64 / self.seconds
    }

    /// Seconds that a share of the reads does not exceed.
    pub fn within(&mut self, share: f64) -> f64 {
        self.times.sort_by(f64::total_cmp);
        let last = self.times.len().saturating_sub(1);
        let place = (self.times.len() as f64 * share) as usize;
        self.times.get(place.min(last)).copied().unwrap_or(0.0)
    }
}

/// Plays a loss through; returns the parts before it, until replicas take over, and after that.
pub fn simulate(loss: Loss) -> [Part; 3] {
    on_paused_clock(async move {
        let fleet = Fleet::new(loss.nodes, loss.replicas);
        let blocks = loss.nodes * BLOCKS;
        fill(&fleet, blocks).await;
        let begun = Instant::now();
        let at = |seconds: f64| begun + Duration::from_secs_f64(seconds);
        let settings = (loss.settings)();
        let parts: [Part; 3] =
            [LOST - 1.0, TAKEN_OVER - LOST, END - TAKEN_OVER].map(|seconds| Part {
                seconds,
                ..Part::default()
            });
        let parts = Rc::new(RefCell::new(parts));
        for number in 0..loss.clients {
            let zone = loss.has_zones.then_some(number % ZONES);
            let client = SimulatedClient::new(fleet.view_from(zone), &settings);
            let parts = Rc::clone(&parts);
            let mut random = Random::new(mix(number as u64));
            tokio::task::spawn_local(async move {
                loop {
                    sleep(Duration::from_secs_f64(random.exponential(PACE))).await;
                    let began = begun.elapsed().as_secs_f64();
                    let wait = Duration::from_secs_f64(random.exponential(ORIGIN));
                    let key = key(random.below(blocks));
                    let origin = async {
                        sleep(wait).await;
                        bytes(&key)
                    };
                    let before = client.totals().other_zone_hits;
                    let source = client.read(&key, origin).await;
                    let other_zone = client.totals().other_zone_hits - before;
                    let took = begun.elapsed().as_secs_f64() - began;
                    let part = match began {
                        // The first second is a start.
                        ..1.0 => continue,
                        ..LOST => 0,
                        ..TAKEN_OVER => 1,
                        _ => 2,
                    };
                    let part = &mut parts.borrow_mut()[part];
                    part.origin += u64::from(source == Source::Origin);
                    part.other_zone += other_zone;
                    part.times.push(took);
                }
            });
        }
        sleep_until(at(LOST)).await;
        fleet.lose(0);
        sleep_until(at(TAKEN_OVER)).await;
        fleet.fail_over();
        sleep_until(at(END)).await;
        parts.take()
    })
}
