//! TLS: nodes are who they say, or are not asked.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use cachewise_tier::remote::{Credentials, EngineSettings, Secret, TlsSettings};
use cachewise_tier::{BlockCache, Settings};

use crate::support::certificate::vouched_for;
use crate::support::server::Server;
use crate::support::{self, BLOCK, Files, WHOLE, bytes_of, forgetful};

fn over_tls(engine: &str, authority: PathBuf) -> Settings {
    let mut settings = forgetful(Some(engine));
    settings.engine = settings.engine.map(|engine| EngineSettings {
        tls: Some(TlsSettings {
            engine_ca: Some(authority),
            engine_name: None,
        }),
        credentials: Some(Credentials {
            user: None,
            password: Secret::new("right".to_owned()),
        }),
        ..engine
    });
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_go_over_tls_to_nodes_that_are_vouched_for() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "TLS")
        || Command::new("openssl").arg("version").output().is_err()
    {
        println!("skipped: TLS: no redis-server or no openssl");
        return;
    }
    let directory = tempfile::tempdir().expect("made");
    let made = ["good", "other"].map(|name| vouched_for(directory.path(), name));
    let [Some((key, good)), Some((_, other))] = made else {
        println!("skipped: nodes over TLS: openssl is not installed");
        return;
    };
    let server = Server::start(Ipv4Addr::LOCALHOST, |port| {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--save",
            "",
            "--bind",
            "127.0.0.1",
            "--tls-auth-clients",
            "no",
        ]);
        command.args(["--requirepass", "right", "--tls-port", &port.to_string()]);
        command
            .arg("--tls-cert-file")
            .arg(&good)
            .arg("--tls-key-file")
            .arg(&key);
        command.arg("--tls-ca-cert-file").arg(&good);
        command
    });
    let engine = format!("redis+tls://{}", server.address);
    let files = Files::new(10, BLOCK);
    let cache = BlockCache::open(over_tls(&engine, good.clone()), files.origin())
        .await
        .expect("it opens");
    assert_eq!(cache.warnings(), Vec::<String>::new());
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("it is there");
        assert_eq!(bytes, bytes_of(number, files.size));
    }
    cache.close().await.expect("it closes");
    let table = cache.table();
    assert_eq!(table.totals.fills, 10, "all went over TLS: {table:?}");

    let stranger = BlockCache::open(over_tls(&engine, other), files.origin())
        .await
        .expect("a cache works without its engine");
    let warnings = stranger.warnings().join("\n");
    assert!(
        warnings.contains("certificate"),
        "why is said: {warnings:?}"
    );
    let error = BlockCache::open(over_tls(&engine, key), files.origin())
        .await
        .expect_err("a key is no certificate");
    assert!(error.to_string().contains("no certificate"), "{error}");
}
