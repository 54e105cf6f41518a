//! 120 readers as fast as they can, blocks of 256 KiB from five servers: sealed blocks beside plain ones.

use cachewise_tier::dev_cluster::Topology;
use cachewise_tier::{EngineKey, Settings};

use super::saturated::{Client, Rate, TURNS, origin};
use crate::support::{self, Goal, READERS, median};

pub fn run() {
    let cluster = support::servers(Topology::Standalone, 0);
    let scratch = origin();
    let runtime = support::runtime();
    let sealed = Settings {
        engine_key: Some(EngineKey::new(&std::array::from_fn(|at| at as u8))),
        ..Settings::default()
    };
    let clients = runtime.block_on(async {
        [
            Client::new(&cluster, scratch.path(), Settings::default()).await,
            Client::new(&cluster, scratch.path(), sealed).await,
        ]
    });
    // Each is first in every other turn.
    let turns: Vec<[Rate; 2]> = (0..TURNS)
        .map(|turn| {
            let rate = |at: usize| Rate::of_read(|| runtime.block_on(clients[at].saturate()));
            match turn % 2 {
                0 => [rate(0), rate(1)],
                _ => {
                    let sealed = rate(1);
                    [rate(0), sealed]
                }
            }
        })
        .collect();
    println!("\nSealed blocks, {READERS} readers, blocks of 256 KiB, medians of {TURNS} turns");
    for (name, kind) in [("plain", 0), ("sealed", 1)] {
        let of = |figure: fn(&Rate) -> f64| median(turns.iter().map(|turn| figure(&turn[kind])));
        println!(
            "{name:<10} {:6.0} MB/s, {:5.0} MB for each second of the client's CPU time",
            of(|rate| rate.of_time) / 1e6,
            of(|rate| rate.of_cpu) / 1e6
        );
    }
    let ratios = |figure: fn(&Rate) -> f64| {
        let mut ratios: Vec<f64> = turns
            .iter()
            .map(|[plain, sealed]| figure(sealed) / figure(plain))
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    };
    let of_time = ratios(|rate| rate.of_time);
    Goal::AtLeast(0.8).beside("sealed, of plain (median of turns)", of_time[TURNS / 2], "");
    println!(
        "    turns: {:.2} to {:.2}; for the same CPU time: {:.2}",
        of_time[0],
        of_time[TURNS - 1],
        ratios(|rate| rate.of_cpu)[TURNS / 2]
    );
    let table = clients[1].cache.table();
    let corrupt: u64 = table.tiers.iter().map(|row| row.corrupt).sum();
    assert_eq!(corrupt, 0, "all blocks are authentic");
}
