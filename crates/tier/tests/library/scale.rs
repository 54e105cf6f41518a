//! The simulation of many nodes beside five real ones: the same keys on the same nodes, and the same shares lost.

#[path = "../../examples/scale/fleet.rs"]
#[allow(dead_code)]
mod fleet;
#[path = "../../examples/scale/load.rs"]
#[allow(dead_code)]
mod load;
#[path = "../../examples/scale/page.rs"]
#[allow(dead_code)]
mod page;
#[path = "../../examples/scale/placement.rs"]
#[allow(dead_code)]
mod placement;
#[path = "../../examples/scale/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../../examples/scale/storm.rs"]
#[allow(dead_code)]
mod storm;
#[path = "../../examples/scale/zones.rs"]
#[allow(dead_code)]
mod zones;

use std::time::Duration;

use crate::support;
use cachewise_tier::Settings;
use cachewise_tier::dev_cluster::{DevCluster, Role};
use fleet::Replicas;
use load::{Policy, Scenario, simulate};
use placement::{node_of_slot, slot};

/// How many keys each master has.
fn kept(cluster: &DevCluster) -> Vec<u64> {
    let masters = cluster
        .nodes()
        .iter()
        .filter(|node| node.role == Role::Master);
    let sizes = masters.map(|node| {
        let answer = support::ask(node.address, "DBSIZE");
        let number = answer.lines().find_map(|line| line.strip_prefix(':'));
        number.expect("a number").trim().parse().expect("a number")
    });
    sizes.collect()
}

#[test]
fn keys_are_where_the_simulation_puts_them() {
    if !support::has("redis-server", "placement on five real nodes") {
        return;
    }
    let cluster = support::cluster(5, 0);
    let mut expected = vec![0; 5];
    let masters: Vec<_> = cluster.nodes().to_vec();
    for number in 0..400 {
        let key = format!("{:032x}", u128::from(random::mix(number)));
        let node = node_of_slot(slot(key.as_bytes()), masters.len());
        expected[node] += 1;
        // Another node would answer MOVED.
        let answer = support::ask(masters[node].address, &format!("SET {key} x"));
        assert!(answer.contains("+OK"), "{key} is node {node}'s: {answer}");
    }
    assert_eq!(kept(&cluster), expected, "the same share on each node");
}

#[test]
fn a_fifth_goes_to_the_origin_without_replicas_and_nothing_with_them() {
    let deadline = simulate(&Scenario::frozen(5, 1, Policy::Deadline));
    // Measured on five real nodes: 20 % of the requests, at 94 to 100 % of the rate.
    assert!((0.17..0.23).contains(&deadline.origin), "{deadline:?}");
    assert!(deadline.kept > 0.9, "{deadline:?}");
    // Measured: 120 of 600 requests a second, that is 20 %.
    let none = simulate(&Scenario::frozen(5, 1, Policy::None));
    assert!((0.05..0.3).contains(&none.kept), "{none:?}");
    assert!(
        none.max > 4.0,
        "somebody waits for nearly all of it: {none:?}"
    );
    // Measured with a replica and a hedge at 10 ms: nothing from the origin, at most 15 ms.
    let all = simulate(&Scenario::frozen(5, 1, Policy::All));
    assert!(
        all.origin == 0.0 && all.max < 0.015 && all.kept > 0.95,
        "{all:?}"
    );
    let again = simulate(&Scenario::frozen(5, 1, Policy::All));
    assert_eq!(
        format!("{all:?}"),
        format!("{again:?}"),
        "the same seed, the same figures"
    );
}

#[test]
fn clients_with_leases_read_each_block_once_when_starts_are_spread() {
    let start = |leases| {
        storm::simulate(storm::Start {
            clients: 100,
            nodes: 10,
            within: Duration::from_secs(1),
            leases,
            copies: 1,
            is_warm: false,
        })
    };
    let (with, without) = (start(true), start(false));
    assert!((1.0..1.05).contains(&with.reads_per_block), "{with:?}");
    assert!(without.reads_per_block > 5.0, "{without:?}");
    assert!(with.last < 1.0, "no client waits for long: {with:?}");
    let again = start(true);
    assert_eq!(
        format!("{with:?}"),
        format!("{again:?}"),
        "the same figures each time"
    );
}

#[test]
fn clients_with_leases_read_each_block_once_when_all_start_in_the_same_instant() {
    let start = |leases| {
        storm::simulate(storm::Start {
            clients: 500,
            nodes: 10,
            within: Duration::ZERO,
            leases,
            copies: 1,
            is_warm: false,
        })
    };
    let (with, without) = (start(true), start(false));
    assert!((1.0..1.05).contains(&with.reads_per_block), "{with:?}");
    assert!(without.reads_per_block > 100.0, "{without:?}");
    assert_eq!(with.in_vain, 0.0, "{with:?}");
}

#[test]
fn copies_divide_the_time_of_a_start_and_cost_no_reads_of_the_origin() {
    let start = |is_warm, copies| {
        storm::simulate(storm::Start {
            clients: 1_000,
            nodes: 100,
            within: Duration::ZERO,
            leases: true,
            copies,
            is_warm,
        })
    };
    for is_warm in [false, true] {
        let (without, with) = (start(is_warm, 1), start(is_warm, 8));
        assert!(with.median < without.median / 2.0, "{with:?} {without:?}");
        assert!(with.reads_per_block < 1.1, "{with:?} {without:?}");
        assert!(with.copies_per_block <= 7.0, "{with:?}");
        assert_eq!(without.copies_per_block, 0.0);
    }
    // A copy costs its maker time, and no client waits for it where starts are spread.
    let spread = |copies| {
        storm::simulate(storm::Start {
            clients: 200,
            nodes: 100,
            within: Duration::from_secs(10),
            leases: true,
            copies,
            is_warm: false,
        })
    };
    let (without, with) = (spread(1), spread(8));
    assert_eq!(with.reads_per_block, 1.0, "{with:?}");
    assert!(with.last < without.last * 1.5, "{with:?} {without:?}");
}

#[test]
fn lost_zone_costs_the_origin_nothing_where_replicas_are_in_another() {
    let lost = |replicas| {
        let [_, mut lost, _] = zones::simulate(zones::Loss {
            clients: 30,
            nodes: 12,
            replicas,
            has_zones: false,
            settings: Settings::default,
        });
        // Also of a lost node that a client has not asked before.
        let p99 = lost.within(0.99);
        assert!(p99 < 0.5, "{replicas:?}: {p99} s");
        lost.origin()
    };
    assert_eq!(lost(Replicas::OtherZone), 0.0);
    for replicas in [Replicas::None, Replicas::SameZone] {
        let origin = lost(replicas);
        assert!((0.2..0.5).contains(&origin), "{replicas:?}: {origin}");
    }
}

#[test]
fn clients_with_zones_read_in_their_own_and_lose_nothing_with_a_zone() {
    let [before, lost, after] = zones::simulate(zones::Loss {
        clients: 99,
        nodes: 12,
        replicas: Replicas::OtherZone,
        has_zones: true,
        settings: Settings::default,
    });
    // Two of three zones have a copy of each block.
    let other = before.other_zone();
    assert!((0.28..0.39).contains(&other), "{other}");
    for part in [before, lost, after] {
        assert_eq!(part.origin(), 0.0, "{part:?}");
    }
}

#[test]
fn the_page_has_a_place_for_each_table() {
    let page = include_str!("../../../../docs/scale.md");
    let names = [
        "evenness",
        "moves",
        "one-slow",
        "many-slow",
        "busy",
        "growth",
        "storm",
        "copies",
        "zones",
        "own-zone",
    ];
    for name in names {
        let begin = format!("<!-- scale: {name} -->\n| ");
        assert!(page.contains(&begin), "docs/scale.md has the table {name}");
    }
    let tables = names.map(|name| (name, String::new()));
    let empty = page::replaced(page, &tables).expect("each place is there");
    assert!(!empty.contains("| 5 |"), "tables are in their places only");
}
