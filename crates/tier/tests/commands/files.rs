//! `tier get`, `put`, `warm` and `verify`.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, bytes_of, has_fuse, number_of, origin, write};
use crate::redis::{RawRedis, Reply};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("files::get_writes_what_was_asked_for", get),
        plain("files::put_and_warm_and_verify", put_warm_verify),
        plain(
            "files::dead_server_is_named_with_reason_and_fix",
            dead_server,
        ),
        plain(
            "files::interrupted_result_is_marked_and_counts_files",
            interrupted,
        ),
        plain("files::verify_changes_no_byte_of_a_disk", verify_of_a_disk),
        plain(
            "files::machines_with_other_paths_share_by_identity",
            identity,
        ),
        plain(
            "files::what_was_written_a_moment_ago_is_brought_too",
            just_written,
        ),
        plain("files::links_to_what_they_are_in_end", links),
        plain("files::an_origin_that_hangs_ends_in_an_error", origin_hangs),
        plain("files::a_small_disk_keeps_what_warm_brought", small_disk),
        plain("files::a_large_disk_is_many_open_files", many_open_files),
        plain(
            "files::warm_of_a_snapshot_reads_the_blocks_of_its_pages_alone",
            snapshot,
        ),
        needs_root("files::warm_fails_where_the_disk_is_full", full_disk),
        plain("files::a_poisoned_engine_gives_no_wrong_bytes", poisoned),
    ]
}

fn tier(command: &str, arguments: &[&str], origin: &Path, paths: &[&str]) -> Ended {
    let mut line = cachewise([command]);
    line.args(arguments).arg(origin).args(paths);
    Ended::of(&mut line)
}

fn get() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 300_000);
    let whole = tier("get", &[], &origin, &["f/0"]).expect(0, "it is there");
    assert!(whole.out == bytes_of(0, 300_000), "all of it");
    let arguments = ["--offset", "100000", "--length", "1000"];
    let part = tier("get", &arguments, &origin, &["f/0"]).expect(0, "it is there");
    assert!(part.out == bytes_of(0, 300_000)[100_000..101_000], "a part");
    let behind = tier("get", &["--offset", "1M"], &origin, &["f/0"]).expect(0, "behind its end");
    assert!(behind.out.is_empty(), "nothing");
    tier("get", &[], &origin, &["f/none"])
        .expect(2, "there is none")
        .says("f/none: not found at the origin", "which");
    tier("get", &[], &origin, &["f"])
        .expect(2, "a directory")
        .says("not a file", "why");
    tier("get", &[], &origin, &["../x"]).expect(2, "outside of the origin");
}

fn snapshot() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 4, 1 << 20);
    let file = |path: &str, size: u64, ranges: &str| {
        format!(
            r#"{{"path":"{path}","device":[8,1],"inode":1,"size_bytes":{size},"modified":[1,0],"ranges":{ranges}}}"#
        )
    };
    let snapshot = |name: &str, files: &[String], pages: u64| {
        let head = r#"{"format":"cachewise-snapshot","version":1,"page_size_bytes":4096,"created_seconds":1}"#;
        let end = format!(r#"{{"end":true,"files":{},"pages":{pages}}}"#, files.len());
        let path = scratch.directory().join(name);
        let text = [head, &files.join("\n"), &end].map(|line| format!("{line}\n"));
        fs::write(&path, text.concat()).expect("ours");
        path
    };
    let good = [
        file("/mnt/data/f/2", 1 << 20, "[[0,1],[3,4],[100,101]]"),
        file("/usr/lib/libc.so", 1 << 20, "[[0,256]]"),
        file("/mnt/data/f/0", 1 << 20, "[[0,256]]"),
    ];
    let list = snapshot("good", &good, 515);
    let disk = scratch.directory().join("disk");
    let warm = |list: &Path, more: &[&str]| {
        let mut command = cachewise(["warm", "-o", "json", "--disk-size", "64M", "--disk"]);
        command.arg(&disk).arg("--snapshot").arg(list).args(more);
        Ended::of(command.arg(&origin))
    };
    let mounted = ["--mounted-at", "/mnt/data"];
    let warmed = warm(&list, &mounted).expect(0, "the files are there").says(
        "1 file of the snapshot not below /mnt/data",
        "which are not",
    );
    let warmed: Value = serde_json::from_slice(&warmed.out).expect("JSON");
    // Pages 0, 3 and 100 are in two blocks of 128 KiB, and the other file has eight.
    assert_eq!(number_of(&warmed, "origin", "hits_total"), 2 + 8);
    let files = warmed["files"].as_array().expect("files");
    let blocks: Vec<_> = files
        .iter()
        .map(|file| (&file["path"], &file["blocks"]))
        .collect();
    assert_eq!(
        blocks,
        [(&"f/2".into(), &2.into()), (&"f/0".into(), &8.into())],
        "in the order of the snapshot"
    );
    let again = warm(&list, &mounted).expect(0, "all of it is on the disk");
    let again: Value = serde_json::from_slice(&again.out).expect("JSON");
    assert_eq!(number_of(&again, "origin", "hits_total"), 0);

    warm(&list, &[])
        .expect(2, "its paths are not below the origin")
        .says("no file in it is below", "why")
        .says("--mounted-at", "what to do");
    let changed = [
        file("/mnt/data/f/1", 5, "[[0,1]]"),
        file("/mnt/data/f/none", 5, "[[0,1]]"),
        file("/mnt/data/f/3", 1 << 20, "[[0,1]]"),
    ];
    warm(&snapshot("changed", &changed, 3), &mounted)
        .expect(2, "two cannot be read")
        .says("f/1: changed", "the one with another size")
        .says("f/none: not found at the origin", "the one that is gone");
    warm(Path::new("/dev/null"), &mounted).expect(2, "it is no snapshot");
    let mut command = cachewise(["warm", "--snapshot"]);
    Ended::of(command.arg(&list).arg("http://127.0.0.1:9/data"))
        .expect(2, "a URL is no path")
        .says("add --mounted-at DIR", "what to do");
}

fn many_open_files() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1_000);
    let warm = |limits: &str, disk: &str| {
        let disk = scratch.directory().join(disk);
        let arguments = ["warm", "--disk-size", "20G", "--disk"].map(OsStr::new);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limits}; exec \"$@\""), "sh"])
            .arg(PROGRAM)
            .args(arguments)
            .args([&disk, &origin]);
        Ended::of(&mut command)
    };
    // The usual limit, under another one that may be raised to.
    warm("ulimit -Sn 1024", "raised").expect(0, "the limit is raised");
    warm("ulimit -Sn 1024; ulimit -Hn 1200", "refused")
        .expect(2, "it cannot be raised so far")
        .says("1200: raise its hard limit", "what to do");
}

fn small_disk() {
    let of_json = |ended: &Ended| -> Value { serde_json::from_slice(&ended.out).expect("JSON") };
    let scratch = Scratch::new();
    let origin = origin(&scratch, 6, 4 << 20);
    let disk = scratch.directory().join("disk");
    let disk = disk.to_str().expect("ours");
    let with = [
        "--disk",
        disk,
        "--disk-size",
        "64M",
        "--memory",
        "1M",
        "-o",
        "json",
    ];
    let warmed = tier("warm", &with, &origin, &[]).expect(0, "all of it");
    assert_eq!(number_of(&of_json(&warmed), "origin", "hits_total"), 6 * 32);
    for _ in 0..5 {
        let read = tier("verify", &with, &origin, &[]).expect(0, "it is the same");
        assert_eq!(number_of(&of_json(&read), "disk", "hits_total"), 6 * 32);
    }
}

/// A file system of 2 MiB; unmounted when this is dropped.
struct Small<'a>(&'a str);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", self.0]).status();
    }
}

fn full_disk() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 4 << 20);
    let disk = scratch.directory().join("disk");
    fs::create_dir(&disk).expect("made");
    let disk = disk.to_str().expect("ours");
    let tmpfs = ["-t", "tmpfs", "-o", "size=2m", "cachewise-test", disk];
    let mounted = Command::new("mount").args(tmpfs).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: warm on a full disk: tmpfs cannot be mounted");
        return;
    }
    let _small = Small(disk);
    let with = ["--disk", disk, "--disk-size", "64M"];
    tier("warm", &with, &origin, &[])
        .expect(2, "the disk has not what was asked for")
        .says("has room for", "a warning before")
        .says("32 blocks did not reach the disk", "how many");
    let whole = tier("get", &with, &origin, &["f/0"]).expect(0, "it can be read");
    assert!(whole.out == bytes_of(0, 4 << 20), "all of it");
}

fn put_warm_verify() {
    if !has_redis("files brought to an engine") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 4, 300_000);
    let (_servers, document) = start_servers(&["--nodes", "3"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    let with = ["--engine", &engine, "-o", "json"];
    let of = |command: &str, paths: &[&str], code: i32| -> Value {
        let ended = tier(command, &with, &origin, paths).expect(code, command);
        serde_json::from_slice(&ended.out).expect("JSON")
    };
    let put = of("put", &["f/0"], 0);
    let nodes = put["rows"].as_array().expect("rows").iter();
    let nodes: Vec<&Value> = nodes.filter(|row| row["of"] == "node").collect();
    let writes = nodes
        .iter()
        .map(|row| row["writes_total"].as_u64().expect("a number"));
    assert_eq!(
        writes.sum::<u64>(),
        sets(&document),
        "as the servers count: {put}"
    );
    assert!(
        nodes.iter().all(|row| row["calls_total"].is_null()),
        "no requests for blocks: {put}"
    );
    let with_columns = ["--engine", &engine, "-o", "csv", "--columns", "size,path"];
    let rows = tier("put", &with_columns, &origin, &["f/0"]).expect(0, "rows of these columns");
    assert!(
        rows.out().starts_with("size_bytes,path,reasons,"),
        "{}",
        rows.out()
    );
    assert_eq!(put["totals"]["fills_total"], 3, "three blocks: {put}");
    let verified = of("verify", &["f/0"], 0);
    assert_eq!(
        number_of(&verified, "remote", "hits_total"),
        3,
        "they are there: {verified}"
    );
    assert_eq!(verified["files"][0]["different_blocks"], 0, "{verified}");
    assert_eq!(
        number_of(&verified, "origin", "calls_total"),
        3,
        "it reads the origin too: {verified}"
    );
    let read = number_of(&verified, "origin", "read_bytes_total");
    assert_eq!(read, 300_000, "all of it: {verified}");
    // In no hurry, unless that is typed; a settings file is for `mount` too.
    let settings = scratch.path("settings.toml");
    fs::write(&settings, "deadline = \"30ms\"\nhedge = \"9ms\"\n").expect("a settings file");
    let settings = settings.to_str().expect("plain");
    for (more, deadline, hedge) in [
        (&["--settings", settings][..], 2.0, Value::Null),
        (
            &["--deadline", "50ms", "--hedge", "7ms"],
            0.05,
            0.007.into(),
        ),
    ] {
        let ended = tier("verify", &[&with, more].concat(), &origin, &["f/0"]).expect(0, "verify");
        let said: Value = serde_json::from_slice(&ended.out).expect("JSON");
        assert_eq!(
            said["totals"]["deadline_seconds"], deadline,
            "{more:?}: {said}"
        );
        assert_eq!(
            said["totals"]["hedge_after_seconds"], hedge,
            "{more:?}: {said}"
        );
    }
    let warmed = of("warm", &[], 0);
    assert_eq!(
        warmed["files"].as_array().expect("files").len(),
        4,
        "the whole tree"
    );
    assert_eq!(
        number_of(&warmed, "remote", "hits_total"),
        3,
        "what was there is not read again: {warmed}"
    );
    assert_eq!(number_of(&warmed, "origin", "calls_total"), 9, "{warmed}");
    assert!(
        warmed["files"][0]["different_blocks"].is_null(),
        "not compared is not zero"
    );
    let again = of("warm", &[], 0);
    assert_eq!(
        number_of(&again, "origin", "calls_total"),
        0,
        "all of it is there: {again}"
    );
    fs::remove_file(origin.join("f/3")).expect("ours");
    let ended = tier("warm", &with, &origin, &["f/3", "f/2"]).expect(2, "one is gone");
    let part: Value = serde_json::from_slice(&ended.out).expect("JSON");
    assert_eq!(
        part["files"].as_array().expect("files").len(),
        1,
        "the other is done"
    );
    tier("put", &[], &origin, &[])
        .expect(2, "no engine")
        .says("--engine URL", "what is missing");
}

/// Returns the address of a port on which nothing listens.
fn dead_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("bound").to_string()
}

fn dead_server() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 300_000);
    for scheme in ["redis", "redis-cluster"] {
        let address = dead_address();
        let engine = format!("{scheme}://{address}");
        for format in ["table", "json"] {
            let with = ["--engine", &engine, "-o", format];
            let ended = tier("verify", &with, &origin, &[]).expect(2, "nothing was compared");
            let ended = ended.says("6 of 6 blocks could not be compared: ", "how many");
            assert!(ended.err().contains(&address), "{}", ended.err());
            ended.says("check the server, then repeat the command", "the fix");
        }
        for command in ["put", "warm"] {
            let ended = tier(command, &["--engine", &engine], &origin, &[]);
            let ended = ended.expect(2, "the engine is dead");
            let lost = format!(
                "6 blocks did not reach the engine ({}",
                match scheme {
                    "redis" => format!("{address}: cannot connect: Connection refused"),
                    _ => format!("{engine}: no server answers"),
                }
            );
            ended
                .says(&lost, "server and reason")
                .says("check the server, then repeat the command", "the fix");
        }
    }
}

/// Files that seem to change later are waited for, so that there is time for the signal.
fn interrupted() {
    const FILES: usize = 40;
    let scratch = Scratch::new();
    let origin = origin(&scratch, FILES, 1000);
    let later = SystemTime::now() + Duration::from_secs(3600);
    for number in 1..FILES {
        let file = fs::File::options()
            .write(true)
            .open(origin.join(format!("f/{number}")));
        file.and_then(|file| file.set_modified(later))
            .expect("ours");
    }
    for command in ["warm", "verify"] {
        let disk = scratch.directory().join(command);
        let with = ["-o", "json", "--disk-size", "64M", "--disk"];
        let mut line = cachewise([command]);
        let started = Started::of(line.args(with).arg(&disk).arg(&origin));
        // Signals are caught before the disk is opened.
        until("the disk is open", || {
            disk.join("blocks").exists().then_some(())
        });
        started.signal(Signal::INT);
        let ended = started.wait().expect(128 + 2, "as shells have it");
        let said: Value = serde_json::from_slice(&ended.out).expect("JSON");
        assert_eq!(said["interrupted"], true, "{said}");
        let done = said["files"].as_array().expect("files").len();
        let marked = ended.err().contains("interrupted: ");
        assert!(marked && done < FILES, "{done}: {}", ended.err());
        if ended.err().contains(" of ") {
            let left = FILES - done;
            ended.says(
                &format!("interrupted: {left} of {FILES} files were not done"),
                "how many",
            );
        }
    }
    let disk = scratch.directory().join("whole");
    let with = ["-o", "json", "--disk-size", "64M", "--disk"];
    let with = [&with[..], &[disk.to_str().expect("ours")]].concat();
    let whole = tier("warm", &with, &origin, &["f/0"]).expect(0, "all of it");
    let said: Value = serde_json::from_slice(&whole.out).expect("JSON");
    assert_eq!(said["interrupted"], false, "{said}");
}

/// Returns how many blocks servers have stored, as they count.
fn sets(document: &Value) -> u64 {
    let nodes = document["nodes"].as_array().expect("nodes");
    let sets = nodes.iter().map(|node| {
        let address = node["address"].as_str().expect("an address");
        let mut redis = RawRedis::connect(address.parse().expect("IPv4"));
        let Reply::Value(Some(info)) = redis.ask(&[b"INFO", b"commandstats"]) else {
            panic!("INFO is answered by a text");
        };
        let info = String::from_utf8(info).expect("a text");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_set:calls="));
        let calls = line.map(|line| line.split(',').next().unwrap_or_default());
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    });
    sets.sum()
}

/// Another machine's path: the same files, as a network's file system has them, under another name.
fn identity() {
    if !has_redis("an origin at two paths") {
        return;
    }
    let scratch = Scratch::new();
    let here = origin(&scratch, 2, 100_000);
    let (_servers, document) = start_servers(&["--nodes", "3"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    let with = ["--engine", &engine, "-o", "json", "--identity"];
    let of = |origin: &Path, identity: &str, more: &[&str]| -> Value {
        let arguments = [&with[..], &[identity], more].concat();
        let ended = tier("warm", &arguments, origin, &[]).expect(0, "warm");
        serde_json::from_slice(&ended.out).expect("JSON")
    };
    of(&here, "ours", &[]);
    let there = scratch.directory().join("there");
    fs::rename(&here, &there).expect("ours");
    let shared = of(&there, "ours", &[]);
    assert_eq!(number_of(&shared, "origin", "calls_total"), 0, "{shared}");
    for (identity, more) in [("another", &[][..]), ("ours", &["--block", "64K"])] {
        let alone = of(&there, identity, more);
        assert_eq!(number_of(&alone, "remote", "hits_total"), 0, "{alone}");
    }
}

fn just_written() {
    if !has_redis("a new file brought to an engine") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1000);
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    let with = ["--engine", &engine, "-o", "json"];
    for (number, command) in ["put", "warm"].into_iter().enumerate() {
        let name = format!("f/new{number}");
        write(&origin.join(&name), &bytes_of(number, 300_000));
        let ended = tier(command, &with, &origin, &[&name]).expect(0, "it is waited for");
        let brought: Value = serde_json::from_slice(&ended.out).expect("JSON");
        assert_eq!(brought["totals"]["fills_total"], 3, "{brought}");
        let ended = tier("verify", &with, &origin, &[&name]).expect(0, "it is right");
        let verified: Value = serde_json::from_slice(&ended.out).expect("JSON");
        assert_eq!(
            number_of(&verified, "remote", "hits_total"),
            3,
            "{verified}"
        );
    }
}

fn links() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1000);
    for (to, name) in [(".", "x"), (".", "y"), ("..", "f/up"), ("../f", "f/same")] {
        std::os::unix::fs::symlink(to, origin.join(name)).expect("made");
    }
    for (paths, expected) in [(&[][..], "f/0"), (&["f/up/x"][..], "f/up/x/f/0")] {
        let ended = tier("warm", &["-o", "json"], &origin, paths).expect(0, "it ends");
        let warmed: Value = serde_json::from_slice(&ended.out).expect("JSON");
        let files = warmed["files"].as_array().expect("files");
        let files: Vec<&Value> = files.iter().map(|file| &file["path"]).collect();
        assert_eq!(files, [expected], "once: {warmed}");
    }
}

/// Whether all threads of a process sleep: none runs, is about to run, or waits for a page.
fn is_idle(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        state.is_empty() || state.starts_with('S')
    })
}

/// The process under a mount is stopped, so that its readers block.
fn origin_hangs() {
    if !has_fuse("an origin that hangs") {
        return;
    }
    const SIZE: usize = 16 << 20;
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, SIZE);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let mut get = cachewise(["get", "--identity", "a", "--read-deadline", "1"]);
    let mut get = get
        .args([mounted.directory.as_os_str(), "f/0".as_ref()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = get.stdout.take().expect("piped");
    let mut first = [0];
    out.read_exact(&mut first).expect("it has begun");
    let pid = mounted.started.as_ref().expect("it runs").pid();
    // The pipe is full, and no request reaches the mount: readahead ends.
    let mut reads = 0;
    until("nothing is under way", || {
        let before = std::mem::replace(&mut reads, mounted.of_operation("read", "calls"));
        let are_idle = is_idle(get.id()) && is_idle(pid);
        (before == reads && are_idle).then_some(())
    });
    signal(pid, Signal::STOP);
    let mut rest = Vec::new();
    // Ends with the process, or with the mount's that it waits for.
    let reader = std::thread::spawn(move || out.read_to_end(&mut rest).map(|_| rest));
    let end = Instant::now() + Duration::from_secs(30);
    let ended = loop {
        match get.try_wait().expect("ours") {
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    signal(pid, Signal::CONT);
    let status = get.wait().expect("ours");
    let rest = reader.join().expect("it reads").expect("a pipe");
    let mut said = String::new();
    let mut err = get.stderr.take().expect("piped");
    err.read_to_string(&mut said).expect("text");
    assert!(ended.is_some(), "it waited for the origin: {said}");
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("no answer within 1000 ms"), "{said}");
    let got = 1 + rest.len();
    assert!(got < SIZE, "{got} bytes");
    assert!(
        [&first[..], &rest].concat() == bytes_of(0, got),
        "what it gave was right"
    );
}

fn verify_of_a_disk() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 300_000);
    let disk = scratch.directory().join("disk");
    let with = [
        "--disk",
        disk.to_str().expect("ours"),
        "--disk-size",
        "64M",
        "-o",
        "json",
    ];
    tier("warm", &with, &origin, &[]).expect(0, "all of it");
    let blocks = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let files = fs::read_dir(disk.join("blocks")).expect("its blocks");
        let mut files: Vec<_> = files
            .map(|file| file.expect("a file").path())
            .map(|path| (path.clone(), fs::read(path).expect("ours")))
            .collect();
        files.sort();
        files
    };
    let verified = |missing: u64| {
        let before = blocks();
        let ended = tier("verify", &with, &origin, &[]).expect(0, "no other bytes are given");
        let said: Value = serde_json::from_slice(&ended.out).expect("JSON");
        let file = &said["files"][0];
        let counts = (&file["missing_blocks"], &file["different_blocks"]);
        assert_eq!(counts, (&missing.into(), &0.into()), "{file}");
        assert!(blocks() == before, "no byte on the disk changed");
    };
    verified(0);
    // The second of three blocks, on the disk.
    let part = &bytes_of(0, 300_000)[200_000..200_064];
    for (path, mut bytes) in blocks() {
        let mut windows = bytes.windows(part.len());
        if let Some(at) = windows.position(|window| window == part) {
            bytes[at..at + 5].copy_from_slice(b"wrong");
            fs::write(path, bytes).expect("ours");
        }
    }
    for _ in 0..2 {
        verified(1);
    }
    let got = tier("get", &with[..4], &origin, &["f/0"]).expect(0, "from the origin");
    assert!(got.out == bytes_of(0, 300_000), "the right bytes");
}

/// A client that can write to the servers can write any bytes; the cache must not trust them.
fn poisoned() {
    if !has_redis("an engine with wrong bytes") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 300_000);
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    let with = ["--engine", engine.as_str(), "-o", "json"];
    tier("put", &with, &origin, &[]).expect(0, "brought there");
    let address = document["nodes"][0]["address"]
        .as_str()
        .expect("an address");
    let (host, port) = address.split_once(':').expect("host and port");
    let script = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('SETRANGE', key, 5000, 'wrong') end \
        return redis.call('DBSIZE')";
    let said = std::process::Command::new("redis-cli")
        .args(["-h", host, "-p", port, "EVAL", script, "0"])
        .output()
        .expect("redis-cli comes with the server");
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        "3",
        "all of them: {said:?}"
    );
    let got = tier("get", &["--engine", &engine], &origin, &["f/0"]).expect(0, "a miss");
    assert!(got.out == bytes_of(0, 300_000), "the origin's bytes");
    let client = |arguments: &[&str]| {
        let mut command = std::process::Command::new("redis-cli");
        let command = command.args(["-h", host, "-p", port]).args(arguments);
        let said = command.output().expect("redis-cli comes with the server");
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    until("the right blocks are there again", || {
        let ended = tier("verify", &with, &origin, &[]);
        (ended.code() == 0).then_some(())
    });
    client(&["EVAL", script, "0"]);
    let digest = client(&["DEBUG", "DIGEST"]);
    for _ in 0..2 {
        let ended = tier("verify", &with, &origin, &[]).expect(1, "damaged blocks");
        let verified: Value = serde_json::from_slice(&ended.out).expect("JSON");
        assert_eq!(verified["files"][0]["different_blocks"], 3, "{verified}");
        let corrupt = number_of(&verified, "remote", "corrupt_total");
        assert_eq!(corrupt, 3, "and counted: {verified}");
    }
    assert_eq!(client(&["DEBUG", "DIGEST"]), digest, "it changed nothing");
    client(&["FLUSHALL"]);
    let ended = tier("verify", &with, &origin, &[]).expect(0, "nothing is wrong");
    let ended = ended.says("does not have 3 of 3 blocks", "and nothing there");
    let verified: Value = serde_json::from_slice(&ended.out).expect("JSON");
    assert_eq!(verified["files"][0]["missing_blocks"], 3, "{verified}");
    assert_eq!(client(&["DBSIZE"]), "0", "it stored nothing");
    tier("verify", &[], &origin, &[])
        .expect(2, "there is no cache")
        .says("add --disk DIRECTORY or --engine URL", "what to do");
}
