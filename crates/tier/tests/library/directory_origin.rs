//! A directory as the origin: what changes in it is noticed, and what leads out of it is not read.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{self, BLOCK, Files, WHOLE, bytes_of, forgetful, name_of, row, settled};
use bytes::Bytes;
use cachewise_tier::{
    BlockCache, Directory, Entry, Error, ErrorKind, Kind, Meta, Origin, Settings, Tier, Version,
};
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;

async fn open(files: &Files) -> BlockCache {
    BlockCache::open(forgetful(None), files.origin())
        .await
        .expect("it opens")
}

#[tokio::test]
async fn every_range_is_what_pread_would_read() {
    let files = Files::new(1, 5 * BLOCK + 321);
    let cache = open(&files).await;
    let file = settled(&cache, &name_of(0)).await;
    let whole = bytes_of(0, files.size);
    let size = files.size;
    for start in [
        0,
        1,
        BLOCK - 1,
        BLOCK,
        3 * BLOCK + 17,
        size - 1,
        size,
        size + 1,
        u64::MAX,
    ] {
        for len in [0, 1, BLOCK, BLOCK + 1, 4 * BLOCK, size, u64::MAX] {
            let bytes = cache
                .get(&file, ByteRange { start, len })
                .await
                .expect("it is there");
            let from = usize::try_from(start.min(size)).expect("small");
            let to = usize::try_from(start.saturating_add(len).min(size)).expect("small");
            assert_eq!(bytes, whole[from..to], "{len} bytes from {start}");
        }
    }
    let origin = row(&cache.table(), Tier::Origin);
    assert_eq!(origin.errors, 0, "{origin:?}");
}

#[tokio::test]
async fn a_changed_file_gives_no_old_and_no_mixed_bytes() {
    let files = Files::new(1, 3 * BLOCK);
    let cache = open(&files).await;
    let path = files.directory.path().join(name_of(0));
    let old = settled(&cache, &name_of(0)).await;
    let first = ByteRange {
        start: 0,
        len: BLOCK,
    };
    cache.get(&old, first).await.expect("it is there");
    // As many bytes, and the time set back to what it was.
    let times = std::fs::metadata(&path)
        .expect("there")
        .modified()
        .expect("has one");
    std::fs::write(&path, bytes_of(9, files.size)).expect("written");
    let handle = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("ours");
    handle.set_modified(times).expect("ours");
    let rest = ByteRange {
        start: BLOCK,
        len: BLOCK,
    };
    let error = cache
        .get(&old, rest)
        .await
        .expect_err("it is another file by now");
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    let new = cache.stat(&name_of(0)).await.expect("it is there");
    assert_eq!(new.meta().size, old.meta().size);
    let bytes = cache.get(&new, WHOLE).await.expect("it is there");
    assert_eq!(bytes, bytes_of(9, files.size), "the new bytes");

    std::fs::write(&path, b"short").expect("written");
    let error = cache.get(&new, rest).await.expect_err("it shrank");
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    std::fs::remove_file(&path).expect("ours");
    let error = cache.get(&new, rest).await.expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn a_file_that_is_written_all_the_time_is_kept_nowhere_and_read_right() {
    let files = Files::new(1, BLOCK);
    let cache = open(&files).await;
    let path = files.directory.path().join(name_of(0));
    for number in 0..200 {
        std::fs::write(&path, bytes_of(number, files.size)).expect("written");
        let file = cache.stat(&name_of(0)).await.expect("it is there");
        let bytes = cache
            .get(&file, WHOLE)
            .await
            .expect("nobody writes meanwhile");
        assert_eq!(bytes, bytes_of(number, files.size), "write {number}");
    }
}

#[tokio::test]
async fn nothing_outside_and_nothing_but_files_is_read() {
    let files = Files::new(1, BLOCK);
    let root = files.directory.path();
    let outside = tempfile::NamedTempFile::new().expect("made");
    symlink(outside.path(), root.join("out")).expect("made");
    symlink("../..", root.join("up")).expect("made");
    symlink(name_of(0), root.join("in")).expect("made");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a FIFO can be made");
    let cache = open(&files).await;
    for path in [
        "out",
        "up/etc/passwd",
        "../x",
        "/etc/passwd",
        "file0/../file0",
    ] {
        let error = cache
            .stat(Path::new(path))
            .await
            .expect_err("it is not of the origin");
        assert!(matches!(error, Error::Path { .. }), "{path}: {error:?}");
    }
    for path in ["nothing", "file0/block0.bin/x"] {
        let error = cache
            .stat(Path::new(path))
            .await
            .expect_err("it is not there");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{path}: {error:?}");
    }
    for path in ["pipe", "file0", ""] {
        let file = cache.stat(Path::new(path)).await.expect("it is there");
        let error = cache.get(&file, WHOLE).await.expect_err("it has no bytes");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error:?}");
    }
    let linked = settled(&cache, Path::new("in")).await;
    let bytes = cache
        .get(&linked, WHOLE)
        .await
        .expect("a link within is followed");
    assert_eq!(bytes, bytes_of(0, files.size));
    let mut listed = cache.list(Path::new("")).await.expect("a directory");
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    let listed: Vec<(&str, Kind)> = listed
        .iter()
        .map(|entry| (entry.name.to_str().expect("plain"), entry.kind))
        .collect();
    let expected = [
        ("file0", Kind::Directory),
        ("in", Kind::Link),
        ("out", Kind::Link),
        ("pipe", Kind::Other),
        ("up", Kind::Link),
    ];
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn a_time_of_writing_that_lies_ahead_keeps_nothing_from_being_kept() {
    let files = Files::new(1, BLOCK);
    let cache = open(&files).await;
    let path = files.directory.path().join(name_of(0));
    let ahead = std::time::SystemTime::now() + Duration::from_secs(1 << 20);
    let handle = std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("ours");
    handle.set_modified(ahead).expect("ours");
    let file = settled(&cache, &name_of(0)).await;
    assert_eq!(file.meta().modified, Some(ahead), "shown as it is");
    for _ in 0..2 {
        let bytes = cache.get(&file, WHOLE).await.expect("it is there");
        assert_eq!(bytes, bytes_of(0, files.size));
    }
    let origin = row(&cache.table(), Tier::Origin);
    assert_eq!(origin.calls, 1, "the second was kept: {origin:?}");
}

#[tokio::test]
async fn reading_leaves_the_time_of_last_access_as_it_is() {
    let files = Files::new(2, BLOCK);
    let cache = open(&files).await;
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let path = |number| files.directory.path().join(name_of(number));
    for number in 0..2 {
        let handle = std::fs::File::options()
            .write(true)
            .open(path(number))
            .expect("ours");
        let times = std::fs::FileTimes::new().set_accessed(long_ago);
        handle.set_times(times).expect("ours");
    }
    let accessed = |number| {
        let found = std::fs::metadata(path(number)).expect("there");
        found.accessed().expect("has one")
    };
    std::fs::read(path(1)).expect("ours");
    if accessed(1) == long_ago {
        println!("skipped: times of access: this file system does not keep them");
        return;
    }
    let file = settled(&cache, &name_of(0)).await;
    let bytes = cache.get(&file, WHOLE).await.expect("it is there");
    assert_eq!(bytes, bytes_of(0, files.size));
    assert_eq!(accessed(0), long_ago);
}

/// A writer with a lease: the kernel makes later opens wait until it is released.
const LEASES: &str = "import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";

#[tokio::test]
async fn a_file_that_somebody_has_leased_ends_in_an_error_and_is_read_later() {
    use std::io::BufRead;

    if !support::has("python3", "a leased file") {
        return;
    }
    let files = Files::new(1, BLOCK);
    let origin = files.origin();
    let meta = origin.stat(&name_of(0)).await.expect("it is there");
    let whole = ByteRange {
        start: 0,
        len: BLOCK,
    };
    let mut holder = std::process::Command::new("python3")
        .args(["-c", LEASES])
        .arg(files.directory.path().join(name_of(0)))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it is installed");
    let mut line = String::new();
    let said = holder.stdout.take().expect("piped");
    std::io::BufReader::new(said)
        .read_line(&mut line)
        .expect("it tells");
    // The kernel breaks a lease after 45 s; the read must have ended by then.
    let read = tokio::time::timeout(
        Duration::from_secs(30),
        origin.read(&name_of(0), &meta, whole),
    )
    .await;
    drop(holder.stdin.take());
    let ended = holder.wait().expect("ours");
    if line.trim() != "held" {
        println!("skipped: a leased file: this file system has no leases ({ended})");
        return;
    }
    let error = read
        .expect("it ends by itself")
        .expect_err("somebody has it");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    let bytes = origin.read(&name_of(0), &meta, whole).await;
    assert_eq!(bytes.expect("given back"), bytes_of(0, BLOCK));
}

/// An origin whose reads never end: what a network file system does when its server is gone.
#[derive(Debug)]
struct Hangs(Arc<Directory>);

impl Origin for Hangs {
    fn identity(&self) -> &str {
        "hangs"
    }

    fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        self.0.stat(path)
    }

    fn list<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        Box::pin(std::future::pending())
    }

    fn read<'a>(
        &'a self,
        _: &'a Path,
        _: &'a Meta,
        _: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn an_origin_that_hangs_ends_in_an_error_and_is_not_asked_without_end() {
    let files = Files::new(40, BLOCK);
    let settings = Settings {
        read_deadline: Duration::from_millis(300),
        origin_reads: 4,
        ..forgetful(None)
    };
    let origin = Arc::new(Hangs(files.origin()));
    let cache = BlockCache::open(settings, Arc::clone(&origin) as Arc<dyn Origin>)
        .await
        .expect("it opens");
    let mut reads = Vec::new();
    for number in 0..files.count {
        let file = cache.stat(&name_of(number)).await.expect("it is there");
        let cache = cache.clone();
        reads.push(tokio::spawn(async move { cache.get(&file, WHOLE).await }));
    }
    let all = tokio::time::timeout(Duration::from_secs(30), async {
        for read in reads {
            let error = read
                .await
                .expect("it runs")
                .expect_err("nobody gives bytes");
            assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
        }
    });
    all.await.expect("each ends at its deadline");
    let error = cache.list(Path::new("")).await.expect_err("nobody lists");
    assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
    // Only the four hanging calls hold further references to the origin.
    assert!(
        Arc::strong_count(&origin) <= 2 + 4 + 1 + 1,
        "{}",
        Arc::strong_count(&origin)
    );
}

#[tokio::test]
async fn versions_tell_states_apart() {
    assert_ne!(Version::new("a"), Version::new("b"));
    let files = Files::new(1, BLOCK);
    let origin = files.origin();
    let before = origin.stat(&name_of(0)).await.expect("it is there");
    // The kernel's clock goes on in steps of some milliseconds.
    let path = files.directory.path().join(name_of(0));
    support::until("the file's time is another", || {
        std::fs::write(&path, bytes_of(1, BLOCK)).expect("written");
        std::fs::metadata(&path).expect("there").modified().ok() != before.modified
    })
    .await;
    let after = origin.stat(&name_of(0)).await.expect("it is there");
    assert_ne!(before.version, after.version);
}
