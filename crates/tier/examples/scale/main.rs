//! The gain from more nodes and the cost of slow ones: placement, load and origin traffic of 10 to
//! 1,000 nodes.
//!
//! This is a simulation. `tests/scale.rs` checks it against real servers at 5 nodes. The same seed
//! gives the same tables on every machine:
//!
//! ```sh
//! cargo run --release -p cachewise-tier --example scale          # prints the tables
//! cargo run --release -p cachewise-tier --example scale -- storm    # prints one of them
//! cargo run --release -p cachewise-tier --example scale -- docs/scale.md   # writes them into the page
//! ```

mod fleet;
mod load;
mod page;
mod placement;
mod random;
mod storm;
mod zones;

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use cachewise_tier::Settings;
use fleet::Replicas;

use load::{Outcome, Policy, Scenario, Trouble, simulate};
use placement::{Names, Placement, evenness, moved_by_growing, moved_by_shrinking};

/// How many nodes are looked at.
const SIZES: [usize; 5] = [10, 30, 100, 300, 1_000];

/// The name of a place in the page, and what makes the table for it.
type Table = (&'static str, fn() -> String);

const TABLES: [Table; 10] = [
    ("evenness", evenness_table),
    ("moves", moves_table),
    ("one-slow", one_slow_table),
    ("many-slow", many_slow_table),
    ("busy", busy_table),
    ("growth", growth_table),
    ("storm", storm_table),
    ("copies", copies_table),
    ("zones", zones_table),
    ("own-zone", own_zone_table),
];

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args_os().nth(1);
    let one = TABLES
        .iter()
        .find(|(name, _)| argument.as_ref().is_some_and(|argument| argument == name));
    if let Some((_, table)) = one {
        println!("{}", table());
        return Ok(());
    }
    let tables = TABLES.map(|(name, table)| (name, table()));
    match argument {
        Some(file) => page::write(file.as_ref(), &tables)?,
        None => {
            for (name, table) in &tables {
                println!("{name}\n\n{table}");
            }
        }
    }
    Ok(())
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0".into(),
        p if p < 0.995 => format!("{p:.2}"),
        p if p < 9.95 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    }
}

/// The least and the most loaded node, as a share of the mean.
fn evenness_table() -> String {
    let mut table = String::from(
        "| nodes | files of 100 blocks | slots, plain names | slots, hashed keys | rendezvous, plain names | rendezvous, hashed keys |\n\
         |---:|---:|---:|---:|---:|---:|\n",
    );
    let sizes = [(5, 50), (10, 50), (10, 1_000), (100, 1_000), (1_000, 1_000)];
    for (nodes, files) in sizes {
        let _ = write!(table, "| {nodes} | {files} ");
        for (placement, names) in [
            (Placement::Slots, Names::Plain),
            (Placement::Slots, Names::Hashed),
            (Placement::Rendezvous, Names::Plain),
            (Placement::Rendezvous, Names::Hashed),
        ] {
            let (least, most) = evenness(placement, names, files, nodes);
            let _ = write!(table, "| {least:.2} to {most:.2} ");
        }
        table.push_str("|\n");
    }
    table
}

fn moves_table() -> String {
    let mut table = String::from(
        "| nodes | the least possible | rendezvous, one more | one less | slots, moved one by one | slots, dealt out anew | hash modulo nodes |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for nodes in SIZES {
        let least = 1.0 / (nodes as f64 + 1.0);
        let _ = write!(table, "| {nodes} | {} ", percent(least));
        let growing = |placement| percent(moved_by_growing(placement, nodes));
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            growing(Placement::Rendezvous),
            percent(moved_by_shrinking(Placement::Rendezvous, nodes)),
            growing(Placement::SlotsMoved),
            growing(Placement::Slots),
            growing(Placement::Modulo),
        );
    }
    table
}

const LOAD_HEAD: &str = "| nodes | slow | policy | requests kept, % | first byte p50, ms | p99 | p99.9 | max | hedges, % | from the origin, % | origin reads/s |\n\
     |---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";

fn load_row(table: &mut String, scenario: &Scenario, outcome: &Outcome) {
    let ms = |seconds: f64| match seconds * 1e3 {
        ms if ms < 9.95 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    };
    let _ = writeln!(
        table,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |",
        scenario.nodes,
        scenario.slow,
        scenario.policy.name(),
        percent(outcome.kept),
        ms(outcome.p50),
        ms(outcome.p99),
        ms(outcome.p999),
        ms(outcome.max),
        percent(outcome.hedges),
        percent(outcome.origin),
        outcome.origin_a_second,
    );
}

/// One frozen node, whatever the number of nodes.
fn one_slow_table() -> String {
    let mut table = LOAD_HEAD.to_owned();
    for nodes in [5, 10, 100, 1_000] {
        for policy in Policy::ALL {
            let scenario = Scenario::frozen(nodes, 1, policy);
            load_row(&mut table, &scenario, &simulate(&scenario));
        }
    }
    table
}

/// A tenth and a hundredth of all nodes frozen.
fn many_slow_table() -> String {
    let mut table = LOAD_HEAD.to_owned();
    for (nodes, slow) in [
        (10, 2),
        (100, 1),
        (100, 5),
        (100, 10),
        (1_000, 10),
        (1_000, 100),
    ] {
        for policy in [Policy::None, Policy::Deadline, Policy::All] {
            let scenario = Scenario::frozen(nodes, slow, policy);
            load_row(&mut table, &scenario, &simulate(&scenario));
        }
    }
    table
}

/// Nodes that answer now and then: 20 ms of every 520.
fn busy_table() -> String {
    let mut table = LOAD_HEAD.to_owned();
    for (nodes, slow) in [(5, 1), (10, 1), (100, 10), (1_000, 100)] {
        for policy in [Policy::None, Policy::Deadline, Policy::All] {
            let scenario = Scenario {
                trouble: Trouble::Busy,
                ..Scenario::frozen(nodes, slow, policy)
            };
            load_row(&mut table, &scenario, &simulate(&scenario));
        }
    }
    table
}

/// The origin traffic that a node causes when it joins or returns empty.
fn growth_table() -> String {
    let mut table = String::from(
        "| nodes | misses at once, % | origin reads/s in the first second | after 10 s | after 60 s | blocks read again, % of all |\n\
         |---:|---:|---:|---:|---:|---:|\n",
    );
    for nodes in SIZES {
        let refill = load::refill(nodes);
        let _ = writeln!(
            table,
            "| {nodes} | {} | {:.0} | {:.0} | {:.0} | {} |",
            percent(refill.misses_at_once),
            refill.first_second,
            refill.after_ten,
            refill.after_sixty,
            percent(refill.read_again),
        );
    }
    table
}

/// Clients that start at once, with leases and without.
fn storm_table() -> String {
    let mut table = String::from(
        "| clients | nodes | all start within | leases | origin reads per block | in the busiest 100 ms | ready: median, s | last, s | waits in vain, % |\n\
         |---:|---:|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for (clients, nodes) in [(1_000, 10), (1_000, 100), (10_000, 1_000)] {
        for seconds in [0, 1, 10] {
            for leases in [false, true] {
                let cost = storm::simulate(storm::Start {
                    clients,
                    nodes,
                    within: Duration::from_secs(seconds),
                    leases,
                    copies: 1,
                    is_warm: false,
                });
                let leases = if leases { "yes" } else { "no" };
                let _ = writeln!(
                    table,
                    "| {clients} | {nodes} | {seconds} s | {leases} | {:.2} | {} | {:.2} | {:.2} | {} |",
                    cost.reads_per_block,
                    cost.busiest,
                    cost.median,
                    cost.last,
                    percent(cost.in_vain),
                );
            }
        }
    }
    table
}

/// Clients that start at once where busy nodes have copies of blocks made.
fn copies_table() -> String {
    let mut table = String::from(
        "| clients | nodes | all start within | in the engine before | copies, at most | made per block | origin reads per block | ready: median, s | last, s |\n\
         |---:|---:|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for (clients, nodes) in [(1_000, 100), (10_000, 1_000)] {
        for (is_warm, seconds) in [(false, 0), (true, 0), (false, 10)] {
            for copies in [1, 4, 8, 16] {
                let cost = storm::simulate(storm::Start {
                    clients,
                    nodes,
                    within: Duration::from_secs(seconds),
                    leases: true,
                    copies,
                    is_warm,
                });
                let before = if is_warm { "all blocks" } else { "none" };
                let _ = writeln!(
                    table,
                    "| {clients} | {nodes} | {seconds} s | {before} | {copies} | {:.2} | {:.2} | {:.2} | {:.2} |",
                    cost.copies_per_block, cost.reads_per_block, cost.median, cost.last,
                );
            }
        }
    }
    table
}

/// A third of the nodes lost at once.
fn zones_table() -> String {
    let mut table = String::from(
        "| clients | nodes | replicas | time | from the origin, % | origin reads/s | read p50, ms | p99 | p99.9 | max |\n\
         |---:|---:|---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (clients, nodes) in [(100, 12), (1_000, 100), (10_000, 1_000)] {
        for (replicas, name) in [
            (Replicas::None, "none"),
            (Replicas::SameZone, "in the same zone"),
            (Replicas::OtherZone, "in another zone"),
        ] {
            let parts = zones::simulate(zones::Loss {
                clients,
                nodes,
                replicas,
                has_zones: false,
                settings: Settings::default,
            });
            for (mut part, time) in parts.into_iter().zip(["before", "lost", "after 15 s"]) {
                let ms = |seconds: f64| format!("{:.0}", seconds * 1e3);
                let _ = writeln!(
                    table,
                    "| {clients} | {nodes} | {name} | {time} | {} | {:.0} | {} | {} | {} | {} |",
                    percent(part.origin()),
                    part.origin_a_second(),
                    ms(part.within(0.5)),
                    ms(part.within(0.99)),
                    ms(part.within(0.999)),
                    ms(part.within(1.0)),
                );
            }
        }
    }
    table
}

/// Clients that prefer nodes in their zone, and that do not.
fn own_zone_table() -> String {
    let mut table = String::from(
        "| clients | nodes | time | from another zone, % | from the origin, % | read p99, ms |\n\
         |---:|---:|---|---:|---:|---:|\n",
    );
    for (clients, nodes) in [(100, 12), (1_000, 100)] {
        let parts = zones::simulate(zones::Loss {
            clients,
            nodes,
            replicas: Replicas::OtherZone,
            has_zones: true,
            settings: Settings::default,
        });
        for (mut part, time) in parts.into_iter().zip(["before", "lost", "after 15 s"]) {
            let _ = writeln!(
                table,
                "| {clients} | {nodes} | {time} | {} | {} | {:.0} |",
                percent(part.other_zone()),
                percent(part.origin()),
                part.within(0.99) * 1e3,
            );
        }
    }
    table
}
