//! Opening a cache on a cluster: passwords, wrong servers, error messages.

use std::time::Duration;

use cachewise_tier::remote::{Credentials, EngineSettings, Secret};
use cachewise_tier::{BlockCache, Error, ErrorKind, Tier};

use crate::support::{self, BLOCK, Files, WHOLE, ask, bytes_of, forgetful};

fn with_password(engine: &str, user: Option<&str>, password: &str) -> cachewise_tier::Settings {
    let mut settings = forgetful(Some(engine));
    settings.engine = settings.engine.map(|engine| EngineSettings {
        credentials: Some(Credentials {
            user: user.map(str::to_owned),
            password: Secret::new(password.to_owned()),
        }),
        ..engine
    });
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_a_cluster_is_refused_as_a_single_node() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a node of a cluster") {
        return;
    }
    let files = Files::new(1, BLOCK);
    for (nodes, is_refused) in [(2, true), (1, false)] {
        let cluster = support::cluster(nodes, 0);
        let settings = forgetful(Some(&format!("redis://{}", cluster.nodes()[0].address)));
        match BlockCache::open(settings.clone(), files.origin()).await {
            Err(error) => {
                let said = error.to_string();
                assert!(
                    is_refused && said.contains("name it as redis-cluster://HOST:PORT"),
                    "{said}"
                );
            }
            // It has all slots.
            Ok(_) => {
                assert!(!is_refused, "it has half of the slots");
                assert_eq!(support::read_all(&files, settings).await.totals.fills, 1);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_said_and_never_shown() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a cluster with passwords") {
        return;
    }
    let files = Files::new(8, BLOCK);
    let cluster = support::cluster(3, 0);
    for node in cluster.nodes() {
        let user = "ACL SETUSER tier on >right resetkeys ~cw:* nocommands +get +set +asking +readonly +cluster|slots";
        for line in [user, "ACL SETUSER default off"] {
            // Replies after the second cannot be had: the default user is gone.
            let said = ask(node.address, line);
            assert!(said.starts_with("+OK"), "{line}: {said}");
        }
    }
    let address = cluster.address();
    for (settings, advice) in [
        (
            with_password(&address, Some("tier"), "hunter2"),
            "check user and password",
        ),
        (forgetful(Some(&address)), "it wants a password"),
    ] {
        let error = BlockCache::open(settings.clone(), files.origin())
            .await
            .expect_err("nobody gets in like that");
        assert_eq!(error.kind(), ErrorKind::Failed);
        let said = format!("{error} {error:?} {settings:?}");
        assert!(said.contains(advice), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let cache = BlockCache::open(
        with_password(&address, Some("tier"), "right"),
        files.origin(),
    )
    .await
    .expect("the user may do what a cache does");
    let warnings = cache.warnings().join("\n");
    assert!(
        warnings.contains("is not known"),
        "it may not look at settings: {warnings:?}"
    );
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
        assert_eq!(bytes, bytes_of(number, files.size));
    }
    cache.close().await.expect("it closes");
    assert_eq!(cache.table().totals.fills, 8, "all went to the cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_is_no_cluster_and_is_told_from_one() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a single server") {
        return;
    }
    let server = cachewise_tier::dev_cluster::DevCluster::start(
        &cachewise_tier::dev_cluster::DevClusterOptions {
            nodes: 1,
            topology: cachewise_tier::dev_cluster::Topology::Standalone,
            ..Default::default()
        },
    )
    .expect("it starts");
    let address = server.address().replace("redis://", "redis-cluster://");
    let files = Files::new(1, BLOCK);
    let error = BlockCache::open(forgetful(Some(&address)), files.origin())
        .await
        .expect_err("it has no slots");
    assert!(matches!(error, Error::Engine { .. }), "{error:?}");
    assert!(
        error.to_string().contains("redis://"),
        "what to name instead: {error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_taken_out_of_the_cluster_is_not_believed() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a node without a cluster") {
        return;
    }
    let files = Files::new(20, BLOCK);
    let cluster = support::cluster(3, 0);
    // As `redis-cli --cluster del-node` leaves it: it runs, and knows of no slots.
    let directory = tempfile::tempdir().expect("made");
    let alone = support::server::Server::start(std::net::Ipv4Addr::LOCALHOST, |port| {
        let mut command = std::process::Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--cluster-enabled", "yes"]);
        command.args(["--cluster-port", &support::server::free_port().to_string()]);
        command.args(["--save", "", "--port", &port.to_string(), "--dir"]);
        command.arg(directory.path());
        command
    });
    let named = format!("redis-cluster://{},", alone.address);
    let engine = cluster.address().replace("redis-cluster://", &named);
    support::fill(&files, &engine).await;
    let cache = BlockCache::open(forgetful(Some(&engine)), files.origin())
        .await
        .expect("it opens");
    assert_eq!(cache.warnings(), Vec::<String>::new());
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("the others have it");
        assert_eq!(bytes, bytes_of(number, files.size));
    }
    let table = cache.table();
    assert_eq!(support::row(&table, Tier::Remote).hits, 20, "{table:?}");
}

/// Answers of servers that are not Redis.
const STRANGERS: [(&str, &[u8]); 4] = [
    ("says nothing", b""),
    ("speaks HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("promises a value that never comes", b"$1000\r\nx"),
    ("sends anything", &[0xFF; 100_000]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_redis_is_warned_of_and_the_origin_serves() {
    let _alone = support::alone().await;
    let files = Files::new(4, BLOCK);
    for (what, bytes) in STRANGERS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let stranger = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                // The client may close before the end of the answer.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await;
                held.push(stream);
            }
        });
        let settings = forgetful(Some(&format!("redis-cluster://{address}")));
        let cache = BlockCache::open(settings, files.origin())
            .await
            .expect("a cache works without its engine");
        let warnings = cache.warnings().join("\n");
        assert!(warnings.contains("no node answers"), "{what}: {warnings:?}");
        for (number, file) in files.settled(&cache).await.iter().enumerate() {
            let read = tokio::time::timeout(Duration::from_secs(20), cache.get(file, WHOLE));
            let bytes = read
                .await
                .expect("it does not hang")
                .expect("the origin has it");
            assert_eq!(bytes, bytes_of(number, files.size), "{what}");
        }
        stranger.abort();
    }
}
