//! `tier trim`: the blocks of servers by tenant, and a limit of them.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::dev_cluster::{Servers, has_redis, servers};
use crate::mounted::origin;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("trim::tenants_are_listed_and_limited", limited),
        plain("trim::tenant_leaves_blocks_of_others", of_one_tenant),
        plain(
            "trim::missing_password_is_reported_with_its_variable_and_flag",
            password,
        ),
    ]
}

fn rows(arguments: &[&str]) -> Value {
    let mut command = cachewise(["trim", "-o", "json"]);
    let ended = Ended::of(command.args(arguments)).expect(0, "trim");
    let document: Value = serde_json::from_slice(ended.out.as_ref()).expect("JSON");
    document["rows"].clone()
}

/// Four files of three blocks each, their directory, and a cluster with its address.
fn cluster() -> (Scratch, String, Servers, String) {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 4, 300_000);
    let (servers, document) = servers(&["--nodes", "1"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    let path = origin.to_str().expect("ours").to_owned();
    (scratch, path, servers, engine)
}

fn limited() {
    if !has_redis("tier trim") {
        return;
    }
    let (_scratch, path, _servers, engine) = cluster();
    let (path, engine) = (path.as_str(), ["--engine", engine.as_str()]);
    let mut put = cachewise(["put", "--tenant", "team-a", path]);
    Ended::of(put.args(engine)).expect(0, "all are stored");
    let found = rows(&engine);
    let row = &found[0];
    assert_eq!(
        (&row["tenant"], &row["blocks"]),
        (&"team-a".into(), &12.into()),
        "{found}"
    );
    let none = rows(&[&engine[..], &["--limit", "0", "--dry-run"]].concat());
    assert_eq!(none[0]["removed_blocks"], 12, "{none}");
    assert_eq!(rows(&engine)[0]["blocks"], 12, "--dry-run removes nothing");
    let some = rows(&[&engine[..], &["--limit", "1M"]].concat());
    let left = some[0]["memory_bytes"].as_u64().expect("a number");
    assert!(left <= 1 << 20, "{some}");
    assert_eq!(rows(&engine)[0]["memory_bytes"], left);
    Ended::of(&mut cachewise(["trim"]))
        .expect(2, "no engine")
        .says("--engine: no engine is configured", "what is missing");
    let mut wrong = cachewise(["trim", "--tenant", "a:b"]);
    Ended::of(wrong.args(engine))
        .expect(2, "no name")
        .says("letters", "what a name is");
}

fn of_one_tenant() {
    if !has_redis("tier trim --tenant") {
        return;
    }
    let (scratch, path, _servers, engine) = cluster();
    let (path, engine) = (path.as_str(), ["--engine", engine.as_str()]);
    for tenant in [
        &["--tenant", "a"][..],
        &["--tenant", "b"],
        &["--tenant", "b.c"],
        &[],
    ] {
        let mut put = cachewise(["put", path]);
        Ended::of(put.args(tenant).args(engine)).expect(0, "all are stored");
    }
    let blocks = |rows: &Value| -> Vec<(String, u64, u64)> {
        let row = |row: &Value| {
            let text = row["tenant"].as_str().expect("a name").to_owned();
            let number = |key: &str| row[key].as_u64().expect("a number");
            (text, number("blocks"), number("removed_blocks"))
        };
        rows.as_array().expect("rows").iter().map(row).collect()
    };
    let row = |tenant: &str, blocks, removed| (tenant.to_owned(), blocks, removed);
    let all = [("", 12), ("a", 12), ("b", 12), ("b.c", 12)].map(|(name, of)| row(name, of, 0));
    assert_eq!(blocks(&rows(&engine)), all);

    let one = rows(&[&engine[..], &["--tenant", "b"]].concat());
    assert_eq!(blocks(&one), [row("b", 12, 0)], "others are not shown");
    let one = rows(&[&engine[..], &["--tenant", "b", "--limit", "0"]].concat());
    assert_eq!(blocks(&one), [row("b", 0, 12)], "--tenant");
    let file = scratch.directory().join("settings.toml");
    std::fs::write(&file, "tenant = \"a\"\n").expect("written");
    let settings = ["--limit", "0", "--settings", file.to_str().expect("ours")];
    let one = rows(&[&engine[..], &settings].concat());
    assert_eq!(blocks(&one), [row("a", 0, 12)], "the settings file");
    let left = [row("", 12, 0), row("b.c", 12, 0)];
    assert_eq!(blocks(&rows(&engine)), left, "blocks of the others");
    let mut table = cachewise(["trim", "-o", "table"]);
    let table = Ended::of(table.args(engine)).expect(0, "trim");
    assert!(
        table.out().lines().any(|line| line.starts_with("- ")),
        "no tenant: {}",
        table.out()
    );

    let mut command = cachewise(["trim", "-o", "json", "--limit", "0"]);
    command.env("CACHEWISE_TIER_TENANT", "b.c");
    let ended = Ended::of(command.args(engine)).expect(0, "trim");
    let document: Value = serde_json::from_slice(ended.out.as_ref()).expect("JSON");
    assert_eq!(blocks(&document["rows"]), [row("b.c", 0, 12)]);
    assert_eq!(blocks(&rows(&engine)), [row("", 12, 0)]);
}

fn password() {
    if !has_redis("tier trim of a server with a password") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10_000);
    let (_servers, document) = servers(&["--nodes", "1"]);
    let engine = ["--engine", document["engine"].as_str().expect("an address")];
    let node = document["nodes"][0]["address"].as_str().expect("one node");
    let mut server = TcpStream::connect(node).expect("it listens");
    server
        .write_all(b"CONFIG SET requirepass secret\r\n")
        .expect("sent");
    let mut reply = [0; 5];
    server.read_exact(&mut reply).expect("answered");
    assert_eq!(&reply, b"+OK\r\n");
    let path = origin.to_str().expect("ours");
    for command in [&["trim"][..], &["warm", path]] {
        let mut command = cachewise(command);
        let ended = Ended::of(command.args(engine)).expect(2, "no password");
        assert!(!ended.err().contains(".:"), "{}", ended.err());
        ended.says(
            "set CACHEWISE_TIER_ENGINE_PASSWORD, or add --engine-password-file FILE",
            "the fix",
        );
    }
}
