//! Common parts of the cache's tests: an origin with known bytes, real servers, faults that end.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod certificate;
pub mod http;
pub mod redis;
pub mod server;

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions};
use cachewise_tier::{BlockCache, Directory, File, Settings, Table, Tier, TierRow};
use cachewise_units::{ByteRange, Bytes};
use rustix::process::{Pid, Signal, kill_process};

/// The size of blocks in tests.
pub const BLOCK: u64 = 64 << 10;

/// Says so if a program is not there.
pub fn has(program: &str, what: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {what}: {program} is not installed");
    }
    found
}

/// Held by a test that starts servers. A port that a killed node leaves may be given to a node of
/// another cluster, and the first one's nodes would go on talking to it.
pub async fn alone() -> tokio::sync::MutexGuard<'static, ()> {
    static SERVERS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    SERVERS.lock().await
}

/// A directory of files with distinct bytes.
#[derive(Debug)]
pub struct Files {
    pub directory: tempfile::TempDir,
    pub count: usize,
    pub size: u64,
}

/// The bytes of one file: a generator of random numbers, begun with the file's number.
pub fn bytes_of(number: usize, size: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number as u64 + 1);
    let size = usize::try_from(size).expect("a test's file fits into memory");
    let mut bytes = vec![0; size.next_multiple_of(8)];
    for word in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

impl Files {
    pub fn new(count: usize, size: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        for number in 0..count {
            let path = directory.path().join(name_of(number));
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            std::fs::write(path, bytes_of(number, size)).expect("a file can be written");
        }
        Self {
            directory,
            count,
            size,
        }
    }

    pub fn origin(&self) -> Arc<Directory> {
        Arc::new(Directory::open(self.directory.path()).expect("it was just made"))
    }

    /// Looks at all files, when they are old enough to be kept.
    pub async fn settled(&self, cache: &BlockCache) -> Vec<File> {
        let mut files = Vec::new();
        for number in 0..self.count {
            files.push(settled(cache, &name_of(number)).await);
        }
        files
    }
}

pub fn name_of(number: usize) -> PathBuf {
    PathBuf::from(format!("file{}/block{number}.bin", number % 7))
}

/// Looks at a file, when it is old enough to be kept.
pub async fn settled(cache: &BlockCache, path: &Path) -> File {
    let file = cache.stat(path).await.expect("it is there");
    let from = file.meta().keep_from;
    until("the file is old enough to be kept", || {
        from.is_none_or(|from| SystemTime::now() >= from)
    })
    .await;
    file
}

/// Waits, not for ever, until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "a minute is over before {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All bytes of a file.
pub const WHOLE: ByteRange = ByteRange::starting_at(0);

/// Settings of a cache that keeps next to nothing itself, so that blocks come from further on, and
/// that waits for a busy machine: what is asked of a node is answered by it.
pub fn forgetful(engine: Option<&str>) -> Settings {
    Settings {
        block: Bytes(BLOCK),
        memory: Bytes(4 * BLOCK),
        engine: engine.map(|engine| engine.parse().expect("the cluster says where it is")),
        read_deadline: Duration::from_secs(60),
        connect: Duration::from_secs(10),
        deadline: Duration::from_secs(20),
        whole: Duration::from_secs(30),
        hedge: Duration::ZERO,
        ..Settings::default()
    }
}

/// As [`forgetful`], and does not wait for long: the policy at work, a few times slower than by
/// default, as tests run on busy machines.
pub fn hasty(engine: &str) -> Settings {
    Settings {
        connect: Duration::from_millis(100),
        deadline: Duration::from_millis(120),
        whole: Duration::from_millis(500),
        hedge_min: Duration::from_millis(15),
        hedge: Duration::from_millis(40),
        ..forgetful(Some(engine))
    }
}

/// A row of the table; the tier is there.
pub fn row(table: &Table, tier: Tier) -> TierRow {
    table
        .tiers
        .iter()
        .find(|row| row.tier == tier)
        .cloned()
        .expect("the cache has this tier")
}

pub fn cluster(nodes: usize, replicas: usize) -> DevCluster {
    DevCluster::start(&DevClusterOptions {
        nodes,
        replicas,
        ..DevClusterOptions::default()
    })
    .expect("redis-server starts")
}

/// Reads all files through a cache of its own, compares them, and returns its counters.
pub async fn read_all(files: &Files, settings: Settings) -> Table {
    let cache = BlockCache::open(settings, files.origin())
        .await
        .expect("it opens");
    read_through(&cache, files).await;
    cache.close().await.expect("it closes");
    cache.table()
}

/// Reads all files through this cache, and compares them.
pub async fn read_through(cache: &BlockCache, files: &Files) {
    for (number, file) in files.settled(cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("it can be read");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
}

/// Brings all files to the engine, and returns when they are there.
pub async fn fill(files: &Files, engine: &str) {
    let totals = read_all(files, forgetful(Some(engine))).await.totals;
    assert_eq!(totals.dropped_fills, 0, "all are there: {totals:?}");
}

/// A process that is stopped, until this is dropped.
#[derive(Debug)]
pub struct Frozen(Pid);

pub fn freeze(pid: u32) -> Frozen {
    let pid = pid_of(pid);
    kill_process(pid, Signal::STOP).expect("it is ours");
    Frozen(pid)
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // It may have been killed meanwhile.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

pub fn kill(pid: u32) {
    kill_process(pid_of(pid), Signal::KILL).expect("it is ours");
}

fn pid_of(pid: u32) -> Pid {
    let pid = i32::try_from(pid).expect("process ids are small");
    Pid::from_raw(pid).expect("it is not 0")
}

/// Sends one line to a Redis node, and returns all it says.
pub fn ask(address: SocketAddrV4, line: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("not zero");
    write!(stream, "{line}\r\nQUIT\r\n").expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The results of readers.
#[derive(Clone, Debug, Default)]
pub struct Met {
    pub reads: usize,
    pub longest: Duration,
}

/// Reads random files with `tasks` tasks for `time`, and checks every byte.
pub async fn read_for(cache: &BlockCache, files: &[File], tasks: usize, time: Duration) -> Met {
    let end = Instant::now() + time;
    let expected: Arc<Vec<Vec<u8>>> = Arc::new(
        files
            .iter()
            .enumerate()
            .map(|(number, file)| bytes_of(number, file.meta().size))
            .collect(),
    );
    let readers: Vec<_> = (0..tasks)
        .map(|task| {
            let (cache, files) = (cache.clone(), files.to_vec());
            let expected = Arc::clone(&expected);
            tokio::spawn(async move {
                let mut met = Met::default();
                let mut at = task * 7919;
                while Instant::now() < end {
                    at = at.wrapping_mul(6_364_136_223).wrapping_add(1_442_695_041);
                    let number = (at >> 8) % files.len();
                    let begun = Instant::now();
                    let bytes = cache.get(&files[number], WHOLE).await;
                    met.longest = met.longest.max(begun.elapsed());
                    met.reads += 1;
                    let bytes = bytes.expect("a fault of a node is no error of a read");
                    assert_eq!(bytes, expected[number], "file {number}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                met
            })
        })
        .collect();
    let mut all = Met::default();
    for reader in readers {
        let met = reader.await.expect("no reader fails");
        all.reads += met.reads;
        all.longest = all.longest.max(met.longest);
    }
    all
}
