//! Sealed blocks in a real Redis, and an attacker who can read and write all of it.

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Topology};
use cachewise_tier::{BlockCache, EngineKey, Settings, Tier};
use twox_hash::XxHash3_64;

use crate::support::redis::{RawRedis, Reply};
use crate::support::{self, BLOCK, Files, WHOLE, bytes_of, forgetful, name_of, row};

/// Bytes of a file: a whole block and a short one.
const SIZE: u64 = BLOCK + 1_000;

/// Bytes before the encrypted ones: magic bytes and nonce.
const BEFORE: usize = 28;

fn server() -> Option<DevCluster> {
    support::has("redis-server", "sealed blocks").then(|| {
        DevCluster::start(&DevClusterOptions {
            nodes: 1,
            topology: Topology::Standalone,
            ..DevClusterOptions::default()
        })
        .expect("it starts")
    })
}

/// Settings of a tenant; 0 has no key.
fn tenant(engine: &str, number: u8) -> Settings {
    let secret = std::array::from_fn(|at| at as u8 ^ number);
    Settings {
        engine_key: (number > 0).then(|| EngineKey::new(&secret)),
        ..forgetful(Some(engine))
    }
}

/// Answers of the engine to a client that starts with an empty memory.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    hits: u64,
    misses: u64,
    corrupt: u64,
    origin: u64,
}

/// Reads all files with a new client and compares them with `expected`; returns when blocks that it wrote are there.
async fn read(files: &Files, settings: Settings, expected: &[Vec<u8>]) -> Found {
    let cache = BlockCache::open(settings, files.origin())
        .await
        .expect("it opens");
    for (file, expected) in files.settled(&cache).await.iter().zip(expected) {
        let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
        assert!(
            bytes == *expected,
            "{}: forged bytes",
            file.path().display()
        );
    }
    cache.close().await.expect("it closes");
    let table = cache.table();
    assert_eq!(table.totals.dropped_fills, 0, "{table:?}");
    let (remote, origin) = (row(&table, Tier::Remote), row(&table, Tier::Origin));
    Found {
        hits: remote.hits,
        misses: remote.misses,
        corrupt: remote.corrupt,
        origin: origin.calls,
    }
}

const fn found(hits: u64, misses: u64, corrupt: u64) -> Found {
    Found {
        hits,
        misses,
        corrupt,
        origin: misses + corrupt,
    }
}

/// Returns the keys of all blocks, without those of leases.
fn blocks(redis: &mut RawRedis) -> Vec<Vec<u8>> {
    let mut keys = redis.keys();
    keys.retain(|key| !key.starts_with(b"cw:lease:"));
    assert!(keys.iter().all(|key| key.len() == 35), "cw: and 32 digits");
    keys
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// A block in the plain form with a right checksum for the name in the engine: what sufficed before blocks were sealed.
fn forged_plain(name: &[u8], body: &[u8]) -> Vec<u8> {
    let hex = std::str::from_utf8(&name[name.len() - 16..]).expect("digits");
    // The second half of the 16 bytes of the name, as a number in little-endian order.
    let seed = u64::from_str_radix(hex, 16).expect("digits").swap_bytes();
    let len = u32::try_from(body.len()).expect("short");
    let sum = XxHash3_64::oneshot_with_seed(seed, body);
    let mut block = b"cwb1".to_vec();
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(&sum.to_le_bytes());
    block.extend_from_slice(body);
    block
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sealed_engine_shows_no_name_and_no_byte_of_a_file() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let files = Files::new(6, SIZE);
    let text = b"a sentence that is easy to find in a dump of the memory of a server. ";
    for number in 0..3 {
        let path = files.directory.path().join(name_of(number));
        let mut bytes = text.repeat(SIZE as usize / text.len() + 1);
        bytes.truncate(SIZE as usize);
        std::fs::write(path, bytes).expect("written");
    }
    let expected: Vec<Vec<u8>> = (0..6)
        .map(|number| std::fs::read(files.directory.path().join(name_of(number))).expect("read"))
        .collect();
    let engine = server.address();
    let filled = read(&files, tenant(&engine, 1), &expected).await;
    assert_eq!(filled, found(0, 12, 0));
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    let keys = blocks(&mut redis);
    assert_eq!(keys.len(), 12);
    let root = files.directory.path().to_string_lossy().into_owned();
    for key in redis.keys() {
        // Leases too: `cw:lease:{cw:...}`.
        let digits = key.rsplit(|byte| *byte == b':').next();
        let is_hash = digits.is_some_and(|digits| digits.trim_ascii_end().len() >= 32);
        assert!(is_hash && key.len() <= 46, "{}", key.escape_ascii());
    }
    for key in &keys {
        for command in [b"GET".as_slice(), b"DUMP"] {
            let value = redis.value(command, key);
            let all = [key.as_slice(), &value].concat();
            for word in ["block", "file", ".bin", "sentence", &root] {
                assert!(!contains(&all, word.as_bytes()), "{word} is in a dump");
            }
            for bytes in &expected {
                // Any part of a file that is 16 bytes long from an offset of 512 on.
                let mut parts = bytes.chunks_exact(512).map(|part| &part[..16]);
                assert!(parts.all(|part| !contains(&all, part)), "plain bytes");
            }
        }
    }
    // Clients without the key, or with another, share nothing with it and see no garbage.
    for number in [0, 2] {
        let other = read(&files, tenant(&engine, number), &expected).await;
        assert_eq!(other, found(0, 12, 0), "misses, tenant {number}");
    }
    assert_eq!(blocks(&mut redis).len(), 36, "three forms of each block");
    for number in [0, 1, 2] {
        let own = read(&files, tenant(&engine, number), &expected).await;
        assert_eq!(own, found(12, 0, 0), "all of its own, tenant {number}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_swapped_cut_and_random_blocks_are_counted_and_never_read() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let files = Files::new(6, SIZE);
    let expected: Vec<Vec<u8>> = (0..6).map(|number| bytes_of(number, SIZE)).collect();
    let engine = server.address();
    read(&files, tenant(&engine, 1), &expected).await;
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    let keys = blocks(&mut redis);
    let long: Vec<&[u8]> = keys
        .iter()
        .map(Vec::as_slice)
        .filter(|key| redis.value(b"GET", key).len() as u64 > BLOCK)
        .collect();
    assert_eq!(long.len(), 6, "each file has one whole block");
    let values: Vec<Vec<u8>> = long.iter().map(|key| redis.value(b"GET", key)).collect();
    let end = values[0].len();
    type Attack<'a> = (&'a str, Vec<Option<Vec<u8>>>);
    let each = |change: &dyn Fn(usize, Vec<u8>) -> Vec<u8>| -> Vec<Option<Vec<u8>>> {
        let changed = |(at, value): (usize, &Vec<u8>)| Some(change(at, value.clone()));
        values.iter().enumerate().map(changed).collect()
    };
    let attacks: [Attack<'_>; 8] = [
        (
            "one flipped bit: magic bytes, nonce, bytes, tag",
            each(&|at, mut value| {
                let places = [0, 10, BEFORE, end / 2, end - 16, end - 1];
                value[places[at]] ^= 1 << at;
                value
            }),
        ),
        (
            "cut",
            each(&|at, mut value| {
                value.truncate([0, 3, BEFORE, BEFORE + 16, end / 2, end - 1][at]);
                value
            }),
        ),
        ("extended", each(&|_, value| [value, vec![0]].concat())),
        (
            "swapped with the next",
            each(&|at, _| values[(at + 1) % values.len()].clone()),
        ),
        (
            "random bytes",
            each(&|at, value| bytes_of(100 + at, value.len() as u64)),
        ),
        (
            "random bytes in the right form",
            each(&|at, value| [&b"cws1"[..], &bytes_of(200 + at, value.len() as u64 - 4)].concat()),
        ),
        (
            "plain blocks with a right checksum",
            each(&|at, _| forged_plain(long[at], &bytes_of(300 + at, BLOCK))),
        ),
        ("a list instead of a value", vec![None; 6]),
    ];
    for (what, changed) in attacks {
        for (key, value) in long.iter().zip(changed) {
            match value {
                Some(value) => redis.set(key, &value),
                None => {
                    redis.ask(&[b"DEL", key]);
                    let pushed = redis.ask(&[b"RPUSH", key, b"x"]);
                    assert_eq!(pushed, Reply::Line(":1".to_owned()));
                }
            }
        }
        let attacked = read(&files, tenant(&engine, 1), &expected).await;
        println!("attack: {what}: {attacked:?}");
        assert_eq!(attacked, found(6, 0, 6), "{what}");
        let repaired = read(&files, tenant(&engine, 1), &expected).await;
        assert_eq!(repaired, found(12, 0, 0), "{what}: the client repaired it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replayed_and_foreign_blocks_are_counted_and_never_read() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let files = Files::new(6, SIZE);
    let mut expected: Vec<Vec<u8>> = (0..6).map(|number| bytes_of(number, SIZE)).collect();
    let engine = server.address();
    read(&files, tenant(&engine, 1), &expected).await;
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    let old = blocks(&mut redis);
    let new_keys = |redis: &mut RawRedis, known: &[Vec<u8>]| -> Vec<Vec<u8>> {
        let keys = blocks(redis).into_iter();
        keys.filter(|key| !known.contains(key)).collect()
    };

    // A file changes. The attacker puts each old block under each name of the new state.
    expected[0] = bytes_of(1_000, SIZE);
    let path = files.directory.path().join(name_of(0));
    std::fs::write(path, &expected[0]).expect("written");
    let changed = read(&files, tenant(&engine, 1), &expected).await;
    assert_eq!(changed, found(10, 2, 0), "the new state has other names");
    let new = new_keys(&mut redis, &old);
    assert_eq!(new.len(), 2);
    for key in &old {
        let value = redis.value(b"GET", key);
        for key in &new {
            redis.set(key, &value);
        }
        let replayed = read(&files, tenant(&engine, 1), &expected).await;
        assert_eq!(replayed, found(10, 0, 2), "an old block is no new one");
    }

    // Blocks of one tenant under the names of another, and back.
    let known = blocks(&mut redis);
    read(&files, tenant(&engine, 2), &expected).await;
    let theirs = new_keys(&mut redis, &known);
    assert_eq!(theirs.len(), 12);
    let foreign: Vec<Vec<u8>> = known.iter().map(|key| redis.value(b"GET", key)).collect();
    for (key, value) in theirs.iter().zip(&foreign) {
        redis.set(key, value);
    }
    let copied = read(&files, tenant(&engine, 2), &expected).await;
    assert_eq!(copied, found(0, 0, 12), "blocks of another tenant");
}
