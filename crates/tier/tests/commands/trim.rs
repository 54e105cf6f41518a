//! `tier trim`: the blocks of servers by tenant, and a limit of them.

use serde_json::Value;

use crate::dev_cluster::{has_redis, servers};
use crate::mounted::origin;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![plain("trim::tenants_are_listed_and_limited", limited)]
}

fn rows(arguments: &[&str]) -> Value {
    let mut command = cachewise(["trim", "-o", "json"]);
    let ended = Ended::of(command.args(arguments)).expect(0, "trim");
    let document: Value = serde_json::from_slice(ended.out.as_ref()).expect("JSON");
    document["rows"].clone()
}

fn limited() {
    if !has_redis("tier trim") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 4, 300_000);
    let (_servers, document) = servers(&["--nodes", "1"]);
    let engine = ["--engine", document["engine"].as_str().expect("an address")];
    let path = origin.to_str().expect("ours");
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
