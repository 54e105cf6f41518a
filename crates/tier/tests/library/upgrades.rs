//! Blocks that an older version wrote, on a disk and in an engine, and disks of a newer one.
//!
//! `data/upgrades/segment.bin` and [`STORED`] were written by the program of commit c4ad810:
//! `cachewise-tier warm --disk DISK --disk-size 64M --block 16K --identity upgrades --engine redis://... ORIGIN a/one two
//! three`, with an origin over HTTP that has the files of [`content`] with the ETag `"v1"`. Memory that the program left
//! behind the blocks in the segment was replaced by zeros.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Topology};
use cachewise_tier::{BlockCache, Error, Http, NetworkOptions, Settings, Tier};
use cachewise_units::Bytes;

use crate::support::http::{HttpServer, Object};
use crate::support::redis::RawRedis;
use crate::support::{self, WHOLE, forgetful, row};

const BLOCK: usize = 16 << 10;

/// Size of a segment of a disk of 64 MiB, in bytes.
const SEGMENT: u64 = 1 << 20;

/// The blocks in the engine: file, number, Redis key, and the bytes of the value before those of the file.
const STORED: [(&str, usize, &str, &[u8; 16]); 4] = [
    (
        "a/one",
        0,
        "cw:5b1fc143bfec71f769446455f27da57c",
        b"cwb1\x23\0\0\0\x82\xef\xc6\x0d\x11\xa7\x5f\x8e",
    ),
    (
        "two",
        0,
        "cw:79773a0b828ed31eccbb295f4043edc3",
        b"cwb1\0\x40\0\0\x11\x8a\xe4\x9f\xb2\xcf\x79\xf9",
    ),
    (
        "two",
        1,
        "cw:e5d4c576bf7fd74c83ccebb92b63c897",
        b"cwb1\x60\0\0\0\x4d\xa3\xd4\xaa\xf9\x8c\x91\x4e",
    ),
    (
        "three",
        0,
        "cw:c97d73a38a3ecd13294373b721dc6fb8",
        b"cwb1\x01\0\0\0\x25\xf8\x48\xac\x31\x39\xb2\xf2",
    ),
];

fn content(name: &str) -> Vec<u8> {
    match name {
        "a/one" => b"the first file of an older version\n".to_vec(),
        "two" => b"0123456789abcdef".repeat(1030),
        "three" => b"3".to_vec(),
        other => panic!("{other}: no file of the origin"),
    }
}

/// The origin from which the older version read. `state` is the ETag of its files.
struct Origin {
    server: HttpServer,
}

impl Origin {
    fn new(state: &'static str) -> Self {
        let server = HttpServer::start(move |asked| {
            let name = asked.target.strip_prefix("/data/").expect("below the URL");
            Object {
                etag: Some(format!("\"{state}\"")),
                modified: None,
                ..Object::new(content(name))
            }
            .answer(asked)
        });
        Self { server }
    }

    async fn cache(&self, settings: Settings) -> Result<BlockCache, Error> {
        let options = NetworkOptions {
            identity: Some("upgrades".to_owned()),
            ..NetworkOptions::default()
        };
        let origin = Http::open(&self.server.url("/data"), &options).expect("a URL");
        BlockCache::open(settings, Arc::new(origin)).await
    }

    /// Reads all files and compares each byte; returns how often bytes were read from the origin.
    async fn read(&self, cache: &BlockCache) -> usize {
        for name in ["a/one", "two", "three"] {
            let file = cache.stat(Path::new(name)).await.expect("it is there");
            let bytes = cache.get(&file, WHOLE).await.expect("it can be read");
            assert!(bytes == content(name), "{name}: wrong bytes");
        }
        let asked = self.server.asked();
        asked.iter().filter(|asked| asked.method == "GET").count()
    }
}

fn settings(disk: Option<&Path>, engine: Option<&str>) -> Settings {
    Settings {
        block: Bytes(BLOCK as u64),
        disk: disk.map(Path::to_owned),
        disk_size: Bytes(64 << 20),
        disk_deadline: std::time::Duration::from_secs(30),
        ..forgetful(engine)
    }
}

/// Makes the directory of a cache as the older version left it.
fn older_disk() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().expect("made");
    let disk = scratch.path().join("disk");
    fs::create_dir_all(disk.join("blocks")).expect("made");
    fs::write(disk.join("cachewise.lock"), "4711\n").expect("written");
    let segment = disk.join("blocks/foyer-storage-direct-fs-00000000");
    let bytes = include_bytes!("../data/upgrades/segment.bin");
    fs::write(&segment, bytes).expect("written");
    let file = fs::File::options().write(true).open(&segment);
    file.and_then(|file| file.set_len(SEGMENT)).expect("sized");
    (scratch, disk)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_of_an_older_version_is_used() {
    let (_scratch, disk) = older_disk();
    let origin = Origin::new("v1");
    let cache = origin.cache(settings(Some(&disk), None)).await;
    let cache = cache.expect("the format is known");
    assert_eq!(origin.read(&cache).await, 0, "no byte from the origin");
    let table = cache.table();
    assert_eq!(row(&table, Tier::Disk).hits, 4, "{table:?}");
    assert_eq!(row(&table, Tier::Disk).corrupt, 0, "{table:?}");
    cache.close().await.expect("it closes");
    let format = fs::read_to_string(disk.join("blocks/format")).expect("it is written");
    assert_eq!(format, "cachewise blocks 1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_of_an_older_version_has_no_bytes_of_another_state() {
    let (_scratch, disk) = older_disk();
    let origin = Origin::new("v2");
    let cache = origin.cache(settings(Some(&disk), None)).await;
    let cache = cache.expect("the format is known");
    assert_eq!(origin.read(&cache).await, 4, "all from the origin");
    assert_eq!(row(&cache.table(), Tier::Disk).hits, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engine_of_an_older_version_is_used() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "blocks of an older version in an engine") {
        return;
    }
    let server = DevCluster::start(&DevClusterOptions {
        nodes: 1,
        topology: Topology::Standalone,
        ..DevClusterOptions::default()
    })
    .expect("it starts");
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    for (name, number, key, head) in STORED {
        let content = content(name);
        let start = number * BLOCK;
        let end = content.len().min(start + BLOCK);
        redis.set(key.as_bytes(), &[head, &content[start..end]].concat());
    }
    let origin = Origin::new("v1");
    let cache = origin.cache(settings(None, Some(&server.address()))).await;
    let cache = cache.expect("it opens");
    assert_eq!(origin.read(&cache).await, 0, "no byte from the origin");
    let table = cache.table();
    assert_eq!(row(&table, Tier::Remote).hits, 4, "{table:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_of_a_newer_version_is_refused_and_left_as_it_is() {
    let origin = Origin::new("v1");
    for (text, why) in [
        (
            "cachewise blocks 2\n",
            "its blocks have format 2, of a newer cachewise, and this one reads format 1",
        ),
        ("cachewise blocks 2", "not of a known cachewise"),
        ("\u{1}\u{2}", "not of a known cachewise"),
    ] {
        let (_scratch, disk) = older_disk();
        let format = disk.join("blocks/format");
        fs::write(&format, text).expect("written");
        // A segment of other settings, which a disk of this version would lose.
        let segment = disk.join("blocks/foyer-storage-direct-fs-00000009");
        fs::write(&segment, "newer").expect("written");
        let error = origin.cache(settings(Some(&disk), None)).await;
        let said = error.expect_err("it is refused").to_string();
        for part in ["blocks/format", why, "name another directory, or remove"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(fs::read_to_string(&format).expect("there"), text);
        assert_eq!(fs::read_to_string(&segment).expect("there"), "newer");
    }
    let (_scratch, disk) = older_disk();
    fs::write(disk.join("blocks/format"), "").expect("written");
    let cache = origin.cache(settings(Some(&disk), None)).await;
    assert!(cache.is_ok(), "a process was killed before it wrote");
}
