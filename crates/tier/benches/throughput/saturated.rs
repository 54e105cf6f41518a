//! 120 readers as fast as they can, blocks of 256 KiB from five servers: the cache beside blocking sockets.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachewise_tier::dev_cluster::{DevCluster, Options, Topology};
use cachewise_tier::{BlockCache, Directory, File, PolicySettings, Settings};
use cachewise_units::{ByteRange, Bytes};

const BLOCK: u64 = 256 << 10;
const BLOCKS: usize = 500;
const READERS: usize = 120;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

pub fn run() {
    let cluster = DevCluster::start(&Options {
        nodes: 5,
        topology: Topology::Standalone,
        memory: Bytes(1 << 30),
        ..Options::default()
    })
    .expect("redis-server starts: apt-get install redis-server");
    let addresses: Vec<SocketAddrV4> = cluster.nodes().iter().map(|node| node.address).collect();
    for (at, address) in addresses.iter().enumerate() {
        fill(*address, at);
    }
    let scratch = tempfile::tempdir().expect("a directory can be made");
    for number in 0..BLOCKS {
        let bytes = vec![number as u8; BLOCK as usize];
        std::fs::write(scratch.path().join(number.to_string()), bytes).expect("room");
    }
    std::thread::sleep(Duration::from_millis(300));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    for (what, policy) in [
        ("saturated, 256 KiB, policy", PolicySettings::default()),
        ("saturated, 256 KiB, no policy", off()),
    ] {
        let (cache, files) = runtime.block_on(open(&cluster, scratch.path(), policy));
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let ours = runtime.block_on(through_cache(&cache, &files));
            rounds.push((ours, raw(&addresses)));
        }
        super::print(what, "cache", "raw GET", &mut rounds);
        let table = cache.table();
        let asked: u64 = table.tiers.iter().map(|row| row.calls).max().unwrap_or(0);
        println!(
            "    of {asked} blocks {} late, {} with all breakers open, {} hedges",
            table.totals.deadline_misses, table.totals.breaker_skips, table.totals.hedges
        );
    }
}

/// Waits for as long as it takes.
fn off() -> PolicySettings {
    let ever = Duration::from_secs(30);
    PolicySettings {
        connect: ever,
        first_byte: ever,
        whole: ever,
        hedge_max: Duration::ZERO,
        breaker_misses: u32::MAX,
        ..PolicySettings::default()
    }
}

async fn open(
    cluster: &DevCluster,
    origin: &std::path::Path,
    policy: PolicySettings,
) -> (BlockCache, Arc<Vec<File>>) {
    let settings = Settings {
        block_size: Bytes(BLOCK),
        memory: Bytes(4 * BLOCK),
        engine: Some(
            cluster
                .address()
                .parse()
                .expect("the servers say where they are"),
        ),
        policy,
        deadline: Duration::from_secs(30),
        ..Settings::default()
    };
    let origin = Arc::new(Directory::open(origin).expect("it was just made"));
    let cache = BlockCache::open(settings, origin).await.expect("it opens");
    let mut files = Vec::new();
    for number in 0..BLOCKS {
        let file = cache
            .stat(number.to_string().as_ref())
            .await
            .expect("it is there");
        cache.refill(&file, WHOLE).await.expect("it can be read");
        cache.filled().await;
        files.push(file);
    }
    (cache, Arc::new(files))
}

const WHOLE: ByteRange = ByteRange {
    start: 0,
    len: BLOCK,
};

/// Bytes a second.
async fn through_cache(cache: &BlockCache, files: &Arc<Vec<File>>) -> f64 {
    let begun = Instant::now();
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (cache, files) = (cache.clone(), Arc::clone(files));
            tokio::spawn(async move {
                let (mut bytes, mut state) = (0, reader as u64 + 1);
                while begun.elapsed() < ROUND {
                    let number = next(&mut state) as usize % files.len();
                    let read = cache
                        .get(&files[number], WHOLE)
                        .await
                        .expect("it is somewhere");
                    bytes += read.len() as u64;
                }
                bytes
            })
        })
        .collect();
    let mut bytes = 0;
    for reader in readers {
        bytes += reader.await.expect("no reader fails");
    }
    bytes as f64 / begun.elapsed().as_secs_f64()
}

fn raw(addresses: &[SocketAddrV4]) -> f64 {
    let (bytes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for reader in 0..READERS {
            let (bytes, is_over) = (&bytes, &is_over);
            scope.spawn(move || {
                let mut streams: Vec<TcpStream> = addresses.iter().map(|at| connect(*at)).collect();
                let mut state = reader as u64 + 1;
                let mut buffer = vec![0; BLOCK as usize + 2];
                while !is_over.load(Ordering::Relaxed) {
                    let number = next(&mut state) as usize % BLOCKS;
                    let at = number % streams.len();
                    let name = format!("raw:{number}");
                    let question = format!("*2\r\n$3\r\nGET\r\n${}\r\n{name}\r\n", name.len());
                    let stream = &mut streams[at];
                    stream.write_all(question.as_bytes()).expect("written");
                    line(stream);
                    stream.read_exact(&mut buffer).expect("read");
                    bytes.fetch_add(BLOCK, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(ROUND);
        is_over.store(true, Ordering::Relaxed);
    });
    bytes.into_inner() as f64 / begun.elapsed().as_secs_f64()
}

/// The raw client's values: each fifth is this server's.
fn fill(address: SocketAddrV4, at: usize) {
    let mut stream = connect(address);
    let value = vec![0x5a; BLOCK as usize];
    for number in (at..BLOCKS).step_by(5) {
        let name = format!("raw:{number}");
        let head = format!(
            "*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${BLOCK}\r\n",
            name.len()
        );
        stream
            .write_all(&[head.as_bytes(), &value, b"\r\n"].concat())
            .expect("written");
        assert_eq!(line(&mut stream), "+OK", "a server takes it");
    }
}

fn connect(at: SocketAddrV4) -> TcpStream {
    let stream = TcpStream::connect(at).expect("it listens");
    stream.set_nodelay(true).expect("it can be set");
    stream
}

fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).expect("read");
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}
