//! Replicas in two zones, which are addresses of loopback: reads stay in the zone of their client.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use cachewise_tier::remote::ZoneMap;
use cachewise_tier::{BlockCache, Settings, Tier};

use super::faults::{A_WHILE, NO_HANG, READERS};
use crate::support::server::{Server, free_port};
use crate::support::{
    self, BLOCK, Files, WHOLE, ask, bytes_of, forgetful, freeze, hasty, read_for, row, until,
};

const ZONES: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
const ZONE_OF: &str = "a=127.0.0.2,b=127.0.0.3/32";

/// Three primaries and their replicas.
struct Zoned {
    nodes: Vec<Server>,
    _directory: tempfile::TempDir,
    engine: String,
}

impl Zoned {
    /// Starts three nodes in each zone. The replica of each primary is in the other zone.
    async fn start() -> Option<Self> {
        if !support::has("redis-server", "a cluster in two zones") {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory can be made");
        let start = |number: usize| {
            let (ip, bus) = (ZONES[number % ZONES.len()], free_port().to_string());
            let server = Server::start(ip, |port| {
                let node = directory.path().join(port.to_string());
                std::fs::create_dir_all(&node).expect("made");
                let mut command = Command::new("redis-server");
                command
                    .current_dir(node)
                    .args(["--port", &port.to_string()]);
                command.args([
                    "--bind",
                    &ip.to_string(),
                    "--save",
                    "",
                    "--cluster-port",
                    &bus,
                ]);
                command.args([
                    "--cluster-enabled",
                    "yes",
                    "--cluster-require-full-coverage",
                    "no",
                ]);
                command.args([
                    "--repl-diskless-sync-delay",
                    "0",
                    "--repl-ping-replica-period",
                    "1",
                ]);
                // Else others see 127.0.0.1, from where the kernel connects.
                command.args(["--cluster-announce-ip", &ip.to_string()]);
                command
            });
            (server, bus)
        };
        let nodes: Vec<(Server, String)> = (0..6).map(start).collect();
        let tell = |number: usize, line: &str| {
            let said = ask(nodes[number].0.address, line);
            assert!(said.starts_with(['+', '$', '*']), "{line}: {said}");
            said
        };
        let slots = ["0 5460", "5461 10922", "10923 16383"];
        for (number, slots) in slots.iter().enumerate() {
            tell(number, &format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
        for (number, (node, bus)) in nodes.iter().enumerate() {
            tell(number, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            let (ip, port) = (node.address.ip(), node.address.port());
            for other in 0..number {
                tell(other, &format!("CLUSTER MEET {ip} {port} {bus}"));
            }
        }
        for number in 0..nodes.len() {
            until("the nodes have met", || {
                let known = tell(number, "CLUSTER NODES");
                known.matches(" connected").count() == 6 && !known.contains("handshake")
            })
            .await;
        }
        for number in 0..3 {
            let id = tell(number, "CLUSTER MYID");
            let id = id.lines().nth(1).expect("an id");
            tell(number + 3, &format!("CLUSTER REPLICATE {id}"));
        }
        for number in 0..nodes.len() {
            // A replica is listed once it has told how far it is.
            until(
                "clients get to know all replicas, and they are in step",
                || {
                    tell(number, "CLUSTER SLOTS").matches("127.0.0.").count() == 6
                        && !tell(number, "INFO replication").contains("master_link_status:down")
                },
            )
            .await;
        }
        let nodes: Vec<Server> = nodes.into_iter().map(|(server, _)| server).collect();
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
        Some(Self {
            nodes,
            _directory: directory,
            engine: format!("redis-cluster://{}", addresses.join(",")),
        })
    }

    fn of(&self, zone: Ipv4Addr) -> impl Iterator<Item = &Server> {
        let is_in = move |node: &&Server| *node.address.ip() == zone;
        self.nodes.iter().filter(is_in)
    }

    /// Requests for blocks at the nodes of a zone, as these count them.
    fn gets(&self, zone: Ipv4Addr) -> u64 {
        let gets = |node: &Server| {
            let info = ask(node.address, "INFO commandstats");
            let calls = info.split_once("cmdstat_get:calls=");
            calls.map_or(0, |(_, rest)| {
                let digits = rest.split(',').next().expect("it has one");
                digits.parse::<u64>().expect("a number")
            })
        };
        self.of(zone).map(gets).sum()
    }

    /// Waits until the nodes of each zone have all blocks.
    async fn in_step(&self, blocks: usize) {
        for zone in ZONES {
            let has = |node: &Server| {
                let keys = ask(node.address, "KEYS cw:*");
                let is_block = |key: &&str| key.starts_with("cw:") && !key.starts_with("cw:lease");
                keys.lines().filter(is_block).count()
            };
            let all = || self.of(zone).map(has).sum::<usize>() == blocks;
            until("each zone has all blocks", all).await;
        }
    }

    fn settings(&self, base: fn(&str) -> Settings, zone: &str) -> Settings {
        Settings {
            zone: Some(zone.to_owned()),
            zone_of: Some(ZONE_OF.parse::<ZoneMap>().expect("it is well-formed")),
            ..base(&self.engine)
        }
    }
}

fn patient(engine: &str) -> Settings {
    forgetful(Some(engine))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_stay_in_the_zone_of_their_client() {
    let _alone = support::alone().await;
    let Some(zoned) = Zoned::start().await else {
        return;
    };
    let files = Files::new(60, BLOCK);
    support::fill(&files, &zoned.engine).await;
    zoned.in_step(files.count).await;
    for (zone, [near, far]) in [("a", ZONES), ("b", [ZONES[1], ZONES[0]])] {
        let cache = BlockCache::open(zoned.settings(patient, zone), files.origin())
            .await
            .expect("it opens");
        assert_eq!(cache.warnings(), Vec::<String>::new());
        let before = [near, far].map(|zone| zoned.gets(zone));
        for (number, file) in files.settled(&cache).await.iter().enumerate() {
            let bytes = cache.get(file, WHOLE).await.expect("a node has it");
            assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
        }
        let after = [near, far].map(|zone| zoned.gets(zone));
        let gets = [after[0] - before[0], after[1] - before[1]];
        let table = cache.table();
        assert_eq!(row(&table, Tier::Remote).hits, 60, "{table:?}");
        assert_eq!(gets, [60, 0], "of the own zone and of the other: {table:?}");
        assert_eq!(table.totals.other_zone_hits, 0);
    }
    let none = BlockCache::open(zoned.settings(patient, "c"), files.origin())
        .await
        .expect("it opens");
    let warnings = none.warnings().join("\n");
    assert!(
        warnings.contains("no node is in zone c, there are a, b"),
        "{warnings}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_tell_their_zones_without_a_setting_for_them() {
    let _alone = support::alone().await;
    let Some(zoned) = Zoned::start().await else {
        return;
    };
    for (zone, name) in ZONES.into_iter().zip(["a", "b"]) {
        for node in zoned.of(zone) {
            let said = ask(
                node.address,
                &format!("CONFIG SET availability-zone {name}"),
            );
            if !said.starts_with("+OK") {
                println!(
                    "skipped: zones that nodes tell: this redis-server has no availability-zone (Valkey 8)"
                );
                return;
            }
        }
    }
    let files = Files::new(60, BLOCK);
    support::fill(&files, &zoned.engine).await;
    zoned.in_step(files.count).await;
    let settings = Settings {
        zone: Some("b".to_owned()),
        ..patient(&zoned.engine)
    };
    let cache = BlockCache::open(settings, files.origin())
        .await
        .expect("it opens");
    assert_eq!(cache.warnings(), Vec::<String>::new());
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("a node has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    let totals = cache.table().totals;
    assert_eq!(totals.other_zone_hits, 0, "{totals:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_written_through_a_zone_are_found_in_the_other() {
    let _alone = support::alone().await;
    let Some(zoned) = Zoned::start().await else {
        return;
    };
    let files = Files::new(40, BLOCK);
    let open = |zone| BlockCache::open(zoned.settings(patient, zone), files.origin());
    let [writer, reader] = [open("a").await, open("b").await].map(|cache| cache.expect("it opens"));
    let read = files.settled(&writer).await;
    for (number, file) in read.iter().enumerate() {
        let bytes = writer.get(file, WHOLE).await.expect("the origin has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    writer.close().await.expect("fills end");
    assert_eq!(
        writer.table().totals.fills,
        40,
        "primaries of both zones take them"
    );
    for (number, file) in files.settled(&reader).await.iter().enumerate() {
        let bytes = reader.get(file, WHOLE).await.expect("a node has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    let table = reader.table();
    // A replica that is behind has not the block yet; its primary has.
    assert_eq!(row(&table, Tier::Origin).calls, 0, "{table:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_zone_costs_its_clients_no_read_of_the_origin() {
    let _alone = support::alone().await;
    let Some(zoned) = Zoned::start().await else {
        return;
    };
    let files = Files::new(60, BLOCK);
    support::fill(&files, &zoned.engine).await;
    let settings = Settings {
        // Far longer than a hedge takes, so that a busy machine is not taken for a node that has no answer.
        deadline: Duration::from_secs(3),
        whole: Duration::from_secs(10),
        hedge_burst: 100_000,
        ..zoned.settings(hasty, "a")
    };
    let cache = BlockCache::open(settings, files.origin())
        .await
        .expect("it opens");
    let read = files.settled(&cache).await;
    read_for(&cache, &read, READERS, A_WHILE / 3).await;
    let frozen: Vec<_> = zoned.of(ZONES[0]).map(|node| freeze(node.pid())).collect();
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let table = cache.table();
    assert_eq!(row(&table, Tier::Origin).calls, 0, "{table:?}");
    let served = table.totals.other_zone_hits;
    assert!(served > 60, "by the other zone: {table:?}");
    drop(frozen);
    let near = || row(&cache.table(), Tier::Remote).hits - cache.table().totals.other_zone_hits;
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let before = near();
    while near() < before + 120 {
        assert!(std::time::Instant::now() < end, "the own zone serves again");
        read_for(&cache, &read, 4, Duration::from_millis(100)).await;
    }
}
