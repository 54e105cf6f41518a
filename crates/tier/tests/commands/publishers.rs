//! Publishers: refused, killed, several at once, and while files change.

use std::fs;
use std::io::Write;

use rustix::process::Signal;
use serde_json::Value;

use crate::mounted::{bytes_of, has_fuse, write};
use crate::published::Place;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "publishers::a_refused_publication_makes_no_store",
            refused_publication,
        ),
        plain(
            "publishers::output_that_cannot_be_written_says_that_the_version_is_there",
            full_output,
        ),
        plain(
            "publishers::of_publishers_at_once_each_version_has_one",
            publishers_at_once,
        ),
        plain(
            "publishers::a_killed_publisher_leaves_no_version",
            killed_publisher,
        ),
        plain(
            "publishers::a_file_that_changes_is_refused_or_whole",
            changing_file,
        ),
    ]
}

fn refused_publication() {
    let place = Place::new();
    let publish = |origin: &str, store: &str| {
        let mut command = cachewise(["publish"]);
        command.arg(place.at(origin)).arg("data@v1");
        command.arg("--to").arg(place.at(store));
        Ended::of(command.arg("--key").arg(place.at("key")))
    };
    publish("origin", "origin/new/store")
        .expect(2, "it would publish itself")
        .says("name a store outside of the origin", "the way out");
    assert!(!place.at("origin/new").exists());
    publish("none", "store").expect(2, "there is nothing to publish");
    publish("key", "store")
        .expect(2, "a file is no tree")
        .says("Not a directory", "the cause");
    assert!(!place.at("store").exists());
}

fn full_output() {
    let place = Place::new();
    let full = fs::File::options().write(true).open("/dev/full");
    let mut command = place.publishing("data@v1");
    let status = command.stdout(full.expect("it is a device")).output();
    let status = status.expect("started");
    let said = String::from_utf8_lossy(&status.stderr);
    assert_eq!(status.status.code(), Some(2), "{said}");
    assert!(
        said.contains("data@v1 is published, but its figures cannot be written"),
        "{said}"
    );
    let mut command = cachewise(["diff", "data@v1", "data@latest", "--store"]);
    Ended::of(command.arg(place.at("store"))).expect(0, "it is visible");
}

fn publishers_at_once() {
    let place = Place::new();
    for number in 0..100 {
        write(
            &place.at(&format!("origin/deep/{number}")),
            &bytes_of(number, 3_000),
        );
    }
    let same: Vec<Started> = (0..3)
        .map(|_| Started::of(&mut place.publishing("data@v1")))
        .collect();
    let codes: Vec<i32> = same
        .into_iter()
        .map(|started| {
            let ended = started.wait();
            if ended.code() == 2 {
                return ended
                    .says("published already", "one of them has won")
                    .code();
            }
            ended.code()
        })
        .collect();
    assert_eq!(
        codes.iter().filter(|code| **code == 0).count(),
        1,
        "{codes:?}"
    );
    let others: Vec<Started> = (2..5)
        .map(|number| Started::of(&mut place.publishing(&format!("data@v{number}"))))
        .collect();
    let mut serials: Vec<u64> = others
        .into_iter()
        .map(|started| {
            let ended = started.wait().expect(0, "each has a name of its own");
            let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
            document["rows"][0]["serial"].as_u64().expect("a number")
        })
        .collect();
    serials.sort_unstable();
    assert_eq!(serials, [2, 3, 4], "each has a number of its own");
    let latest = fs::read_to_string(place.at("store/names/data/latest")).expect("there");
    assert!(
        latest.contains("serial 4\n"),
        "the last one is the newest: {latest}"
    );
}

fn killed_publisher() {
    if !has_fuse("a version that was published again") {
        return;
    }
    let place = Place::new();
    for number in 0..30 {
        write(
            &place.at(&format!("origin/deep/{number}")),
            &bytes_of(number, 1 << 20),
        );
    }
    let started = Started::of(&mut place.publishing("data@v1"));
    until("the first pack is being written, or all is done", || {
        place.at("store/packs").exists().then_some(())
    });
    started.signal(Signal::KILL);
    started.wait();
    let record = place.at("store/names/data/versions/v1");
    if record.exists() {
        println!("skipped: a killed publisher: it was done before it was killed");
        return;
    }
    place
        .refused("data@v1")
        .says("no version", "it is not visible");
    place.publish("data@v1");
    let mounted = place.mount("data@v1");
    for number in 0..30 {
        let read = fs::read(mounted.path(&format!("deep/{number}"))).expect("there");
        assert!(read == bytes_of(number, 1 << 20), "file {number}");
    }
}

fn changing_file() {
    if !has_fuse("a file that changed while it was published") {
        return;
    }
    let place = Place::new();
    let path = place.at("origin/log");
    write(&path, &vec![b'x'; 8 << 20]);
    let mut started = Started::of(&mut place.publishing("data@v1"));
    let mut file = fs::File::options().append(true).open(&path).expect("there");
    let status = until("it is published or refused", || {
        file.write_all(b"y").expect("appended");
        file.flush().expect("appended");
        started.child.try_wait().expect("it runs")
    });
    let ended = started.wait();
    match status.code() {
        Some(2) => {
            ended.says("changed while it was read, 3 times", "it is told");
        }
        _ => {
            ended.expect(0, "it was read between two writes");
            let mounted = place.mount("data@v1");
            let read = fs::read(mounted.path("log")).expect("there");
            assert!(
                read[8 << 20..].iter().all(|byte| *byte == b'y'),
                "a state that there was"
            );
        }
    }
}
