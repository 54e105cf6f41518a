//! Faults around a mount: reads return right bytes or an error, in bounded time.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, bytes_of, has_fuse, origin, settle, write};
use crate::reader;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("faults::a_node_freezes_under_120_processes", node_freezes),
        plain("faults::the_origin_goes_away", origin_goes),
        plain("faults::a_file_shrinks_while_it_is_read", origin_shrinks),
        plain(
            "faults::two_mounts_on_one_cache_directory",
            two_on_one_directory,
        ),
        plain(
            "faults::a_hung_directory_of_the_origin_costs_its_own_readers",
            hung_directory,
        ),
        plain("faults::kill_9_and_mount_again", kill_9),
    ]
}

/// Far beyond what a read may take, and far below what a frozen node takes without a deadline.
const WORST: Duration = Duration::from_secs(5);

/// How long a node is frozen: a read that waited for it would have taken longer than [`WORST`].
const FROZEN: Duration = Duration::from_secs(8);

fn node_freezes() {
    if !has_fuse("a frozen node under a mount") || !has_redis("a frozen node under a mount") {
        return;
    }
    const FILES: usize = 40;
    const SIZE: usize = 1 << 20;
    let scratch = Scratch::new();
    let origin = origin(&scratch, FILES, SIZE);
    let (_servers, document) = start_servers(&["--nodes", "5", "--replicas", "1"]);
    let engine = document["engine"].as_str().expect("an address");
    // Next to no memory: blocks come from the servers.
    let with = ["--engine", engine, "--memory", "1M", "--block", "64K"];
    let mut warm = cachewise(["warm", "--engine", engine, "--block", "64K"]);
    Ended::of(warm.arg(&origin)).expect(0, "the servers have all of it");
    let mounted = Mounted::new(&scratch, &origin, &with);
    let readers: Vec<Started> = (0..120)
        .map(|seed| reader::start(&mounted.directory, FILES, SIZE, seed))
        .collect();
    let remote = || mounted.calls_of_tier("remote");
    until("all of them read", || (remote() > 600).then_some(()));
    let frozen = document["nodes"][2]["pid"].as_u64().expect("a pid");
    let frozen = u32::try_from(frozen).expect("a pid");
    signal(frozen, Signal::STOP);
    let before = remote();
    std::thread::sleep(FROZEN);
    let during = remote() - before;
    signal(frozen, Signal::CONT);
    let met: Vec<reader::Met> = readers.into_iter().map(reader::end).collect();
    let worst = met.iter().map(|met| met.worst).max().expect("120");
    let reads: u64 = met.iter().map(|met| met.reads).sum();
    println!(
        "120 processes, {reads} reads, {during} blocks asked for in the {} s that one of five nodes was frozen; the worst \
         read took {worst:?}",
        FROZEN.as_secs()
    );
    assert_eq!(
        met.iter().map(|met| met.errors).sum::<u64>(),
        0,
        "no read failed"
    );
    assert_eq!(
        met.iter().map(|met| met.wrong).sum::<u64>(),
        0,
        "no byte was wrong"
    );
    assert!(during > 600, "reading went on: {during}");
    assert!(
        worst < WORST,
        "nobody waited for the frozen node: {worst:?}"
    );

    // The same directory, changed at the origin: the new bytes appear at the next lookup.
    let directory = mounted.directory.clone();
    mounted.end().expect(0, "unmounted");
    let mounted = Mounted::on(
        &directory,
        &origin,
        &[&with[..], &["--revalidate", "0"]].concat(),
    );
    assert!(
        fs::read(mounted.path("f/3")).expect("read") == bytes_of(3, SIZE),
        "as it was"
    );
    write(&origin.join("f/3"), &bytes_of(1003, SIZE));
    settle(&origin);
    assert!(
        fs::read(mounted.path("f/3")).expect("read") == bytes_of(1003, SIZE),
        "as it is"
    );
}

fn origin_goes() {
    if !has_fuse("an origin that goes away") {
        return;
    }
    const SIZE: usize = 300_000;
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, SIZE);
    let mounted = Mounted::new(&scratch, &origin, &["--read-deadline", "5"]);
    assert!(
        fs::read(mounted.path("f/0")).expect("read") == bytes_of(0, SIZE),
        "as it is"
    );
    fs::metadata(mounted.path("f/1")).expect("it is known");
    fs::rename(origin.join("f"), origin.join("gone")).expect("ours");
    let began = Instant::now();
    assert!(
        fs::read(mounted.path("f/0")).expect("cached") == bytes_of(0, SIZE),
        "still there"
    );
    let error = fs::read(mounted.path("f/1")).expect_err("its bytes are gone");
    assert!(
        error.raw_os_error().is_some(),
        "an error of the kernel's: {error}"
    );
    assert!(began.elapsed() < 4 * WORST, "in bounded time");
    fs::rename(origin.join("gone"), origin.join("f")).expect("ours");
    assert!(
        fs::read(mounted.path("f/1")).expect("back") == bytes_of(1, SIZE),
        "it is back"
    );
}

fn origin_shrinks() {
    if !has_fuse("a file that shrinks") {
        return;
    }
    const SIZE: usize = 1 << 20;
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, SIZE);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    fs::metadata(mounted.path("f/0")).expect("it is known, for an hour");
    write(&origin.join("f/0"), &bytes_of(1, 1000));
    settle(&origin);
    let error = fs::read(mounted.path("f/0")).expect_err("what was known is gone");
    assert_eq!(
        error.raw_os_error(),
        Some(rustix::io::Errno::STALE.raw_os_error()),
        "and that is said: {error}"
    );
    let again = until("the name is asked for anew", || {
        fs::read(mounted.path("f/0")).ok()
    });
    assert!(
        again == bytes_of(1, 1000),
        "the next one who opens it gets what there is"
    );
}

fn two_on_one_directory() {
    if !has_fuse("two mounts on one cache directory") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100_000);
    let disk = scratch.directory().join("disk");
    let disk = disk.to_str().expect("ours");
    let with = ["--disk", disk, "--disk-size", "64M"];
    let mounted = Mounted::new(&scratch, &origin, &with);
    let other = scratch.directory().join("other");
    fs::create_dir(&other).expect("made");
    let mut second = cachewise(["mount"]);
    Ended::of(second.args(with).arg(&origin).arg(&other))
        .expect(2, "one at a time")
        .says("in use by process", "by whom");
    assert!(
        fs::read(mounted.path("f/0")).expect("read") == bytes_of(0, 100_000),
        "the first goes on"
    );
}

fn kill_9() {
    if !has_fuse("a killed mount") {
        return;
    }
    const SIZE: usize = 1 << 20;
    let scratch = Scratch::new();
    let origin = origin(&scratch, 4, SIZE);
    let disk = scratch.directory().join("disk");
    let disk = disk.to_str().expect("ours");
    let with = ["--disk", disk, "--disk-size", "64M"];
    // Takes away what is left when something fails.
    let _guard = Mounted {
        started: None,
        directory: scratch.directory().join("mnt"),
    };
    for round in 0..3 {
        let mut mounted = Mounted::new(&scratch, &origin, &with);
        for number in 0..=round {
            let bytes = fs::read(mounted.path(&format!("f/{number}"))).expect("read");
            assert!(bytes == bytes_of(number, SIZE), "right in round {round}");
        }
        mounted.kill();
        let dead = fs::read_dir(&mounted.directory).expect_err("nobody answers");
        assert_eq!(dead.kind(), std::io::ErrorKind::NotConnected, "{dead}");
        let mut stat = cachewise(["stat"]);
        Ended::of(stat.arg(&mounted.directory))
            .expect(2, "it has no process")
            .says("fusermount3 -u", "what to do");
        // The next round mounts over what this one leaves.
        std::mem::forget(mounted);
    }
    let mounted = Mounted::new(&scratch, &origin, &with);
    assert!(
        fs::read(mounted.path("f/3")).expect("read") == bytes_of(3, SIZE),
        "whole again"
    );
}

/// A directory of the origin hangs, as a dead server would: its readers get errors, and no others.
fn hung_directory() {
    const WHAT: &str = "a directory of the origin that hangs";
    if !has_fuse(WHAT) {
        return;
    }
    const FILES: usize = 60;
    let scratch = Scratch::new();
    let origin = origin(&scratch, FILES, 10_000);
    let served = scratch.directory().join("served");
    fs::create_dir_all(served.join("f")).expect("made");
    for number in 0..40 {
        write(&served.join(number.to_string()), b"bytes");
    }
    write(&served.join("f/last"), b"bytes");
    // Files of this moment would have another state at each look.
    settle(&served);
    fs::create_dir(origin.join("hung")).expect("made");
    let below = Mounted::on(&origin.join("hung"), &served, &[]);
    // Far more readers than requests that may be under way.
    let arguments = [
        "--identity",
        "a",
        "--origin-reads",
        "8",
        "--read-deadline",
        "4s",
        "--revalidate",
        "0",
    ];
    let mounted = Mounted::new(&scratch, &origin, &arguments);
    assert_eq!(fs::read(mounted.path("hung/0")).expect("read"), b"bytes");
    let process = below.started.as_ref().expect("it runs");
    process.signal(Signal::STOP);
    std::thread::scope(|scope| {
        let mounted = &mounted;
        let readers: Vec<_> = (1..40)
            .map(|number| {
                let path = mounted.path(&format!("hung/{number}"));
                scope.spawn(move || fs::read(path).map_err(|error| error.raw_os_error()))
            })
            .collect();
        for number in 0..FILES {
            let read = fs::read(mounted.path(&format!("f/{number}"))).expect("it does not hang");
            assert_eq!(read, bytes_of(number, 10_000));
        }
        for reader in readers {
            let error = reader.join().expect("it ends").expect_err("it hangs");
            assert_eq!(error, Some(rustix::io::Errno::TIMEDOUT.raw_os_error()));
        }
        let refused = fs::read(mounted.path("hung/0")).expect_err("it hangs");
        assert_eq!(
            refused.raw_os_error(),
            Some(rustix::io::Errno::TIMEDOUT.raw_os_error())
        );
    });
    process.signal(Signal::CONT);
    until("the directory answers again", || {
        fs::read(mounted.path("hung/3")).is_ok().then_some(())
    });
    mounted.end().expect(0, "a signal is the usual end");
}
