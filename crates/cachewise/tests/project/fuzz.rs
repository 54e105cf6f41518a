//! Bytes from outside, mutated: readers return errors, and neither panic nor hang. The targets are those of `fuzz/`, which
//! libFuzzer runs for longer; here each gets the corpus and a fixed number of mutations of it, the same in each run.

#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

use std::fs;
use std::path::Path;

/// Mutations of each file of a corpus.
const MUTATIONS: u32 = 1_500;

/// The files of a corpus, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let entries = fs::read_dir(directory.join(name)).expect("a corpus is in the repository");
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{name}: an empty corpus tests nothing");
    let read = paths
        .iter()
        .map(|path| fs::read(path).expect("it can be read"));
    read.collect()
}

/// Changes a few bytes, or takes, doubles, moves or inserts some.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut fastrand::Rng) {
    /// Numbers at which lengths go wrong.
    const NUMBERS: [&[u8]; 8] = [
        b"0",
        b"-1",
        b"65536",
        b"2147483648",
        b"18446744073709551615",
        b"1e308",
        &[0xff; 8],
        &[0; 8],
    ];
    for _ in 0..random.u8(1..6) {
        let at = random.usize(0..=bytes.len());
        let end = (at + random.usize(0..24)).min(bytes.len());
        match random.u8(0..8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.u8(0..8),
            1 if at < bytes.len() => bytes[at] = random.u8(..),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copied = bytes[at..end].to_vec();
                let to = random.usize(0..=bytes.len());
                bytes.splice(to..to, copied);
            }
            4 => {
                let number = NUMBERS[random.usize(0..NUMBERS.len())];
                bytes.splice(at..end, number.iter().copied());
            }
            5 => bytes.truncate(at),
            6 => {
                let from = random.usize(0..=other.len());
                let to = (from + random.usize(0..200)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            _ => bytes.insert(at, random.u8(..)),
        }
    }
}

/// Hands the corpus and its mutations to `take`.
fn each(name: &str, mutations: u32, mut take: impl FnMut(&[u8])) {
    let corpus = corpus(name);
    let mut random = fastrand::Rng::with_seed(0x6361_6368_6577_6973);
    for seed in &corpus {
        take(seed);
        for _ in 0..mutations {
            let other = &corpus[random.usize(0..corpus.len())];
            let mut bytes = seed.clone();
            mutate(&mut bytes, other, &mut random);
            take(&bytes);
        }
    }
}

#[test]
fn readers_survive_mutated_input() {
    for (name, target) in targets::TARGETS {
        each(name, MUTATIONS, |bytes| {
            let ended = std::panic::catch_unwind(|| target(bytes));
            assert!(
                ended.is_ok(),
                "{name}: {:?}",
                String::from_utf8_lossy(bytes)
            );
        });
    }
}

/// Otherwise the mutations would be of refusals.
#[test]
fn corpus_files_are_valid() {
    for bytes in corpus("matrix") {
        let text = String::from_utf8(bytes).expect("it is text");
        let plan = cachewise_bench::matrix::Plan::parse(&text);
        plan.unwrap_or_else(|error| panic!("{error}"));
    }
    for bytes in corpus("snapshot") {
        let reader = cachewise_residency::snapshot::Reader::new(&*bytes).expect("a snapshot");
        let mut files = 0;
        for entry in reader {
            entry.expect("it is whole");
            files += 1;
        }
        assert!(files > 0, "it has files");
    }
    for bytes in corpus("recording") {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("a.rec");
        fs::write(&path, bytes).expect("the disk has room");
        let mut reader = cachewise_recording::Reader::open(&path).expect("a recording");
        assert!(
            reader.next().expect("it can be read").is_some(),
            "it has samples"
        );
    }
    for bytes in corpus("chunk") {
        assert!(cachewise_tier::fuzzing::chunk(&bytes), "a chunk");
    }
    for bytes in corpus("resp") {
        assert!(cachewise_tier::fuzzing::resp(&bytes), "a whole reply");
    }
}

/// Requests to a real server: it answers the next one each time, and no thread of it panics.
#[test]
fn serve_survives_mutated_requests() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    /// Far more than any answer takes: only a hang reaches it.
    const ANSWER: std::time::Duration = std::time::Duration::from_secs(60);

    let directory = tempfile::tempdir().expect("made");
    let socket = directory.path().join("socket");
    let errors = directory.path().join("stderr");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cachewise"));
    command
        .args(["serve", "--socket"])
        .arg(&socket)
        .stdout(Stdio::null())
        .stderr(fs::File::create(&errors).expect("the disk has room"));
    cachewise_sys::die_with_spawner(&mut command);
    let mut serve = command.spawn().expect("it starts");
    let connect = || {
        (0..2_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            UnixStream::connect(&socket).ok()
        })
    };
    drop(connect().expect("it listens"));
    each("http", 150, |bytes| {
        let mut stream = UnixStream::connect(&socket).expect("it still listens");
        stream
            .set_read_timeout(Some(ANSWER))
            .expect("a socket has a limit");
        // It may refuse the head before it has all of it.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // An answer, or an end; of a stream of events the head.
        if let Err(error) = stream.read(&mut [0; 512]) {
            assert_ne!(
                error.kind(),
                std::io::ErrorKind::WouldBlock,
                "no answer to {:?}",
                String::from_utf8_lossy(bytes)
            );
        }
    });
    let mut stream = UnixStream::connect(&socket).expect("it still listens");
    let healthy = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(healthy).expect("it takes requests");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let is_alive = serve.try_wait().expect("a child can be asked").is_none();
    serve.kill().expect("it is ours");
    serve.wait().expect("it ends");
    let errors = fs::read_to_string(&errors).expect("it is there");
    assert!(is_alive && !errors.contains("panicked"), "{errors}");
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
}
