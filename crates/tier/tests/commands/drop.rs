//! `tier drop`: what one machine drops, the mounts of all machines look up again.

use std::fs;
use std::net::SocketAddrV4;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::http::{HttpServer, Object};
use crate::mounted::{Mounted, bytes_of, has_fuse, origin, settle, write};
use crate::redis::{RawRedis, Reply};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("drop::other_mounts_see_a_change_at_once", seen_at_once),
        plain(
            "drop::forged_messages_are_refused_or_cost_reads_alone",
            forged,
        ),
        plain("drop::copies_of_blocks_are_dropped_too", copies),
        plain(
            "drop::mounts_of_one_machine_need_no_engine",
            without_an_engine,
        ),
        needs_root(
            "drop::mount_that_cannot_be_read_is_named_with_the_cause",
            unreadable,
        ),
    ]
}

fn replace(origin: &Path, name: &str, bytes: &[u8]) {
    let new = origin.join("new");
    write(&new, bytes);
    fs::rename(new, origin.join(name)).expect("replaced");
    settle(origin);
}

fn drops(arguments: &[&str], paths: &[&Path]) -> Value {
    let mut command = cachewise(["drop", "-o", "json"]);
    let ended = Ended::of(command.args(arguments).args(paths));
    let ended = ended.expect(0, "all is dropped");
    serde_json::from_slice(ended.out.as_ref()).expect("JSON")
}

fn reports(mount: &Mounted, number: &str) -> u64 {
    mount.report()[number].as_u64().expect("a number")
}

fn listens(mount: &Mounted) {
    until("the mount listens", || {
        (reports(mount, "drop_subscriptions_total") > 0).then_some(())
    });
}

/// Two mounts of one origin, as on two machines, whose names are valid for an hour.
fn two_mounts(scratch: &Scratch, origin: &Path, with: &[&str]) -> [Mounted; 2] {
    ["a", "b"].map(|name| {
        let directory = scratch.directory().join(name);
        fs::create_dir_all(&directory).expect("made");
        let hour = ["--revalidate", "1h", "--revalidate-missing", "1h"];
        Mounted::on(&directory, origin, &[&hour, with].concat())
    })
}

fn seen_at_once() {
    const WHAT: &str = "a drop on all machines";
    if !has_fuse(WHAT) || !has_redis(WHAT) {
        return;
    }
    for kind in [&["--nodes", "3"][..], &["--nodes", "2", "--standalone"]] {
        let scratch = Scratch::new();
        let origin = origin(&scratch, 4, 300_000);
        let (_servers, document) = start_servers(kind);
        let engine = document["engine"].as_str().expect("an address");
        let [a, b] = two_mounts(&scratch, &origin, &["--engine", engine]);
        listens(&b);
        for mount in [&a, &b] {
            for number in 0..4 {
                let read = fs::read(mount.path(&format!("f/{number}"))).expect("read");
                assert_eq!(read, bytes_of(number, 300_000));
            }
            assert!(!mount.path("f/late").exists() && !mount.path("d").exists());
        }
        replace(&origin, "f/0", &bytes_of(10, 200_000));
        replace(&origin, "f/1", &bytes_of(11, 300_000));
        write(&origin.join("f/late"), b"late");
        fs::create_dir(origin.join("d")).expect("made");
        settle(&origin);
        let old = fs::read(b.path("f/0")).expect("read");
        assert!(old == bytes_of(0, 300_000), "names are valid for an hour");
        let said = drops(&[], &[&a.path("f/0")]);
        let row = &said["rows"][0];
        assert_eq!(
            (&row["path"], &row["is_told"]),
            (&"f/0".into(), &"yes".into()),
            "{said}"
        );
        assert!(row["dropped_names"].as_u64() >= Some(1), "{said}");
        assert!(row["engine_blocks"].as_u64() == Some(3), "{said}");
        assert!(fs::read(a.path("f/0")).expect("read") == bytes_of(10, 200_000));
        until("the other mount has the new file", || {
            let new = fs::read(b.path("f/0")).ok()?;
            (new == bytes_of(10, 200_000)).then_some(())
        });
        let old = fs::read(b.path("f/1")).expect("read");
        assert!(old == bytes_of(1, 300_000), "another name stays");
        // A whole tree, and names that were missing.
        let said = drops(&[], &[&a.directory]);
        assert_eq!(said["rows"][0]["path"], ".", "the root has a name: {said}");
        until("the other mount has the new tree", || {
            let new = fs::read(b.path("f/1")).ok()?;
            let is_new = new == bytes_of(11, 300_000) && b.path("d").is_dir();
            (is_new && fs::read(b.path("f/late")).ok()? == b"late").then_some(())
        });
        assert!(reports(&b, "drops_heard_total") >= 2);
        fs::remove_file(origin.join("f/2")).expect("removed");
        drops(&[], &[&b.path("f/2")]);
        until("the removed file is gone", || {
            (!a.path("f/2").exists()).then_some(())
        });
        for mount in [a, b] {
            mount.end().expect(0, "a signal is the usual end");
        }
    }
}

/// Keys of blocks on a server.
fn block_keys(node: SocketAddrV4) -> Vec<Vec<u8>> {
    let mut keys = RawRedis::connect(node).keys();
    keys.retain(|key| !key.starts_with(b"cw:lease:"));
    keys
}

fn copies() {
    const WHAT: &str = "a drop of copies";
    const FILES: usize = 8;
    if !has_fuse(WHAT) || !has_redis(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let object = Object::new(bytes_of(0, 1_000));
    // Leases, and so copies, need an origin with a latency.
    let origin = HttpServer::start(move |asked| {
        std::thread::sleep(Duration::from_millis(10));
        object.answer(asked)
    });
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address");
    let node = engine.strip_prefix("redis://").expect("a node");
    let node = node.parse().expect("an address");
    let with = ["--engine", engine, "--copies", "16", "--deadline", "10s"];
    let url = origin.url("/");
    let mount = Mounted::on(scratch.directory(), Path::new(&url), &with);
    for number in 0..FILES {
        let read = fs::read(mount.path(&number.to_string())).expect("read");
        assert!(read == bytes_of(0, 1_000));
    }
    until("the blocks and copies are there", || {
        // The first blocks of a client are looked for in copies, but for one of 16 times.
        (block_keys(node).len() > FILES).then_some(())
    });
    for number in 0..FILES {
        let said = drops(&[], &[&mount.path(&number.to_string())]);
        assert_eq!(said["rows"][0]["engine_blocks"], 1, "{said}");
    }
    // Removed blocks and leases expire after a millisecond.
    for key in RawRedis::connect(node).keys() {
        let Reply::Line(time) = RawRedis::connect(node).ask(&[b"PTTL", &key]) else {
            panic!("a number");
        };
        assert!([":-2", ":0", ":1"].contains(&time.as_str()), "{time}");
    }
    let again = drops(&[], &[&mount.path("0")]);
    assert_eq!(again["rows"][0]["engine_blocks"], 0, "it is gone: {again}");
    mount.end().expect(0, "a signal is the usual end");
}

/// Publishes a message on the one channel that has listeners.
fn publish(node: SocketAddrV4, message: &[u8]) -> Vec<u8> {
    let mut redis = RawRedis::connect(node);
    let Reply::List(channels) = redis.ask(&[b"PUBSUB", b"CHANNELS"]) else {
        panic!("a list of channels");
    };
    let [Reply::Value(Some(channel))] = &channels[..] else {
        panic!("one channel: {channels:?}");
    };
    redis.ask(&[b"PUBLISH", channel, message]);
    channel.clone()
}

fn forged() {
    const WHAT: &str = "forged messages";
    if !has_fuse(WHAT) || !has_redis(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 10_000);
    let key = scratch.directory().join("key");
    let mut file = fs::File::options();
    let file = file.write(true).create_new(true).mode(0o600).open(&key);
    std::io::Write::write_all(&mut file.expect("made"), &[7; 31]).expect("written");
    fs::write(
        &key,
        "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef",
    )
    .expect("written");
    let key = key.to_str().expect("text");
    let mut channels = Vec::new();
    for with in [&["--engine-key-file", key][..], &[]] {
        let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
        let engine = document["engine"].as_str().expect("an address");
        let node = engine.strip_prefix("redis://").expect("a node");
        let node = node.parse().expect("an address");
        let [a, b] = two_mounts(&scratch, &origin, &[&["--engine", engine], with].concat());
        for mount in [&a, &b] {
            listens(mount);
            assert!(fs::read(mount.path("f/0")).expect("read") == bytes_of(0, 10_000));
        }
        for message in [&b""[..], b"f/0", &[0; 200], b"cwb1../../etc"] {
            channels.push(publish(node, message));
        }
        until("the forged messages are counted", || {
            (reports(&b, "drops_forged_total") == 4).then_some(())
        });
        assert_eq!(reports(&b, "drops_heard_total"), 0);
        let lookups = |mount: &Mounted| mount.of_operation("lookup", "origin_calls");
        let before = lookups(&b);
        assert!(fs::read(b.path("f/0")).expect("read") == bytes_of(0, 10_000));
        assert_eq!(lookups(&b), before, "nothing was forgotten");
        // A right message again: what an attacker can replay costs a look, and changes no byte.
        drops(&[], &[&a.path("f/0")]);
        until("a right message is heard", || {
            (reports(&b, "drops_heard_total") == 1).then_some(())
        });
        until("the name is looked up again", || {
            let read = fs::read(b.path("f/0")).expect("read");
            assert!(read == bytes_of(0, 10_000));
            (lookups(&b) > before).then_some(())
        });
        for mount in [a, b] {
            mount.end().expect(0, "a signal is the usual end");
        }
    }
    assert_ne!(
        channels[0], channels[4],
        "the name of the channel depends on the key"
    );
}

fn without_an_engine() {
    const WHAT: &str = "a drop without an engine";
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 10_000);
    let [a, b] = two_mounts(&scratch, &origin, &[]);
    for mount in [&a, &b] {
        assert!(fs::read(mount.path("f/0")).expect("read") == bytes_of(0, 10_000));
    }
    replace(&origin, "f/0", &bytes_of(5, 10_000));
    let said = drops(&[], &[&a.path("f/0")]);
    let rows = said["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{said}");
    assert!(rows.iter().all(|row| row["dropped_blocks"] == 1), "{said}");
    for mount in [&a, &b] {
        assert!(fs::read(mount.path("f/0")).expect("read") == bytes_of(5, 10_000));
    }
    let outside = Ended::of(cachewise(["drop"]).arg(&origin)).expect(2, "no mount");
    assert!(
        String::from_utf8_lossy(&outside.err).contains("not in a mount"),
        "{outside:?}"
    );
    for mount in [a, b] {
        mount.end().expect(0, "a signal is the usual end");
    }
}

/// Checks that `drop` of paths in a mount, and `stat` of it, say the same.
fn say_the_same(command: impl Fn() -> Command, mount: &Path, why: &str) {
    let said = Ended::of(command().arg("stat").arg(mount)).expect(2, "stat");
    let said = said.says(why, "cause and fix");
    for path in ["", "f/0", "missing/too"] {
        let dropped = Ended::of(command().arg("drop").arg(mount.join(path)));
        let dropped = dropped.expect(2, "drop");
        assert_eq!(dropped.err(), said.err(), "{path}");
    }
}

fn unreadable() {
    if !has_fuse("drop in a mount that cannot be read") {
        return;
    }
    let scratch = Scratch::new();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scratch.directory(), mode).expect("ours");
    let origin = origin(&scratch, 1, 10_000);
    let mut mounted = Mounted::new(&scratch, &origin, &[]);
    let directory = mounted.directory.clone();
    let program = copy_for_everyone(scratch.directory());
    let as_other = || {
        let mut command = as_nobody();
        command.arg(&program);
        command
    };
    say_the_same(as_other, &directory, "be the user who mounted it");
    mounted.kill();
    let as_root = || cachewise([""; 0]);
    let why = format!(
        "{}: the process of this mount has ended",
        directory.display()
    );
    say_the_same(as_root, &directory, &why);
}
