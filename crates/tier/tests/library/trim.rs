//! Blocks of real servers, counted by tenant, and removed where they are unused or over a limit.

use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Role, Topology};
use cachewise_tier::remote::{
    Credentials, EngineSettings, Secret, TenantBlocks, TrimOptions, trim,
};
use cachewise_tier::{Settings, Tier};
use cachewise_units::Bytes;

use crate::support::redis::RawRedis;
use crate::support::{self, BLOCK, Files, ask, forgetful, kill, read_all, row, until};

fn of_tenant(engine: &str, tenant: Option<&str>) -> Settings {
    Settings {
        tenant: tenant.map(str::to_owned),
        ..forgetful(Some(engine))
    }
}

/// Reads all files as a tenant, and returns how many blocks the origin served.
async fn read_by_origin(files: &Files, settings: Settings) -> u64 {
    row(&read_all(files, settings).await, Tier::Origin).hits
}

async fn trimmed(engine: &str, options: TrimOptions) -> Vec<TenantBlocks> {
    let settings = forgetful(Some(engine));
    trim(&settings, options).await.expect("all nodes answer")
}

fn standalone(nodes: usize) -> DevCluster {
    DevCluster::start(&DevClusterOptions {
        nodes,
        topology: Topology::Standalone,
        ..DevClusterOptions::default()
    })
    .expect("redis-server starts")
}

/// Waits until no block was used for two seconds: servers store times in seconds.
async fn idle(engine: &str) {
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let second = TrimOptions {
        unused: Some(Duration::from_secs(2)),
        is_trial: true,
        ..TrimOptions::default()
    };
    while trimmed(engine, second)
        .await
        .iter()
        .any(|row| row.blocks > 0)
    {
        assert!(
            std::time::Instant::now() < end,
            "counting is no use of a block"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_are_counted_apart_and_kept_within_their_limit() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "limits of tenants") {
        return;
    }
    let (many, few) = (Files::new(40, BLOCK), Files::new(10, BLOCK));
    for servers in [support::cluster(3, 0), standalone(2)] {
        let engine = servers.address();
        assert_eq!(
            read_by_origin(&many, of_tenant(&engine, Some("many"))).await,
            40
        );
        assert_eq!(
            read_by_origin(&few, of_tenant(&engine, Some("few"))).await,
            10
        );
        assert_eq!(
            read_by_origin(&few, of_tenant(&engine, None)).await,
            10,
            "names differ"
        );
        let rows = trimmed(&engine, TrimOptions::default()).await;
        let counts: Vec<_> = rows
            .iter()
            .map(|row| (row.tenant.as_str(), row.blocks))
            .collect();
        assert_eq!(counts, [("", 10), ("few", 10), ("many", 40)]);
        assert!(
            rows.iter().all(|row| row.bytes > row.blocks * BLOCK),
            "{rows:?}"
        );

        let limit = Bytes(rows[2].bytes / 2);
        for is_trial in [true, false] {
            let options = TrimOptions {
                limit: Some(limit),
                is_trial,
                ..TrimOptions::default()
            };
            let after = trimmed(&engine, options).await;
            // They are unused for longer by now.
            let kept = after[..2].iter().zip(&rows[..2]).map(|(row, before)| {
                let longest_unused = before.longest_unused;
                TenantBlocks {
                    longest_unused,
                    ..row.clone()
                }
            });
            assert_eq!(kept.collect::<Vec<_>>(), rows[..2], "within their limit");
            let many = &after[2];
            assert_eq!(many.blocks + many.removed_blocks, 40);
            assert!(
                many.bytes <= limit.0 && many.removed_blocks <= 21,
                "{many:?}"
            );
        }
        let left = trimmed(&engine, TrimOptions::default()).await[2].blocks;
        assert_eq!(
            read_by_origin(&few, of_tenant(&engine, Some("few"))).await,
            0
        );
        let read = read_by_origin(&many, of_tenant(&engine, Some("many"))).await;
        assert_eq!(read, 40 - left, "removed blocks are read again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_blocks_are_removed_and_reads_at_replicas_are_uses() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "unused blocks") {
        return;
    }
    let files = Files::new(30, BLOCK);
    let cluster = support::cluster(2, 1);
    let engine = cluster.address();
    read_by_origin(&files, of_tenant(&engine, None)).await;
    until("masters list their replicas", || {
        let lists = |slots: String| slots.matches("127.0.0.1").count() == 4;
        lists(ask(cluster.nodes()[0].address, "CLUSTER SLOTS"))
    })
    .await;
    let none = TrimOptions {
        unused: Some(Duration::from_secs(3600)),
        ..TrimOptions::default()
    };
    assert_eq!(trimmed(&engine, none).await[0].removed_blocks, 0);
    idle(&engine).await;
    // Half of the blocks are read, at replicas alone.
    let mut used = Vec::new();
    for node in cluster.nodes() {
        if matches!(node.role, Role::ReplicaOf(_)) {
            let mut replica = RawRedis::connect(node.address);
            replica.ask(&[b"READONLY"]);
            let mut keys = replica.keys();
            keys.retain(|key| key.len() == 35);
            for key in keys.into_iter().step_by(2) {
                replica.value(b"GET", &key);
                used.push(key);
            }
        }
    }
    let all = trimmed(&engine, TrimOptions::default()).await;
    let each = all[0].bytes / all[0].blocks;
    let limit = Bytes(each * u64::try_from(used.len()).expect("few"));
    let options = TrimOptions {
        limit: Some(limit),
        ..TrimOptions::default()
    };
    let after = trimmed(&engine, options).await;
    assert_eq!(after[0].bytes, limit.0, "{after:?}");
    let mut left = Vec::new();
    for node in cluster.nodes() {
        if node.role == Role::Master {
            left.extend(RawRedis::connect(node.address).keys());
        }
    }
    left.retain(|key| key.len() == 35);
    left.sort();
    used.sort();
    assert_eq!(left, used, "those that were used at replicas");

    idle(&engine).await;
    let unused = TrimOptions {
        unused: Some(Duration::from_secs(2)),
        ..TrimOptions::default()
    };
    let after = trimmed(&engine, unused).await;
    assert_eq!((after[0].blocks, after[0].longest_unused), (0, None));
    assert_eq!(trimmed(&engine, TrimOptions::default()).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_keeps_tenants_apart() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "tenants with users of their own") {
        return;
    }
    let files = Files::new(10, BLOCK);
    let servers = standalone(1);
    let user = "ACL SETUSER a on >right resetkeys ~cw:a:* nocommands +get +set +ping";
    assert!(ask(servers.nodes()[0].address, user).starts_with("+OK"));
    let engine = servers.address();
    let as_user = |tenant| {
        let mut settings = of_tenant(&engine, Some(tenant));
        settings.engine = settings.engine.map(|engine| EngineSettings {
            credentials: Some(Credentials {
                user: Some("a".to_owned()),
                password: Secret::new("right".to_owned()),
            }),
            ..engine
        });
        settings
    };
    for (tenant, again) in [("a", 0), ("b", 10)] {
        assert_eq!(read_by_origin(&files, as_user(tenant)).await, 10);
        assert_eq!(
            read_by_origin(&files, as_user(tenant)).await,
            again,
            "{tenant}"
        );
    }
    let error = trim(&as_user("a"), TrimOptions::default()).await;
    let error = error.expect_err("it may not list keys").to_string();
    assert!(error.contains("+scan"), "what it needs: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_are_not_known_are_not_guessed() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "nodes that do not tell") {
        return;
    }
    let files = Files::new(10, BLOCK);
    let servers = standalone(2);
    let engine = servers.address();
    read_by_origin(&files, of_tenant(&engine, None)).await;
    let limit = TrimOptions {
        limit: Some(Bytes(0)),
        ..TrimOptions::default()
    };
    let refused = async |engine: &str| {
        let settings = forgetful(Some(engine));
        let refused = trim(&settings, limit).await;
        refused.expect_err("it is refused").to_string()
    };
    for node in servers.nodes() {
        let set = ask(node.address, "CONFIG SET maxmemory-policy allkeys-lfu");
        assert!(set.starts_with("+OK"), "{set}");
    }
    let error = refused(&engine).await;
    assert!(error.contains("set allkeys-lru"), "{error}");
    let rows = trimmed(&engine, TrimOptions::default()).await;
    assert_eq!(
        (rows[0].blocks, rows[0].longest_unused),
        (10, None),
        "counted"
    );
    kill(servers.nodes()[1].pid);
    let error = refused(&engine).await;
    let address = servers.nodes()[1].address.to_string();
    assert!(error.contains(&address), "the node that is gone: {error}");
    let error = refused("memcached://127.0.0.1:1").await;
    assert!(error.contains("memcached does not list"), "{error}");
}
