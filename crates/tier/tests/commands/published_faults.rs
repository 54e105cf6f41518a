//! Published versions: stores, keys and disks that cannot be used.

use std::fs;

use crate::published::Place;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![plain(
        "published_faults::address_that_is_no_store_is_refused_and_makes_no_directory",
        no_store,
    )]
}

fn no_store() {
    let place = Place::new();
    fs::write(place.at("origin/file"), "bytes").expect("written");
    let within = place.at("within");
    fs::create_dir(&within).expect("made");
    for (address, why) in [
        (
            "http://127.0.0.1:1/s",
            "no store is a http; name a directory",
        ),
        (
            "https://a:secret@127.0.0.1:1/s",
            "`cachewise mount --store` alone",
        ),
        (
            "gs://bucket/store",
            "no store is a gs; name a directory or s3://BUCKET",
        ),
        (
            "GS://bucket/store",
            "no store is a gs; name a directory or s3://BUCKET",
        ),
    ] {
        let mut publish = cachewise(["publish", "--to", address, "--key"]);
        publish.arg(place.at("key")).arg(place.at("origin"));
        publish.arg("--state").arg(place.at("publisher")).arg("a@1");
        let diff = cachewise(["diff", "--store", address, "a@1", "a@2"]);
        let gc = cachewise(["gc", "--keep", "1", address]);
        for mut command in [publish, diff, gc] {
            let ended = Ended::of(command.current_dir(&within)).expect(2, "it is refused");
            assert!(!ended.err().contains("secret"), "{}", ended.err());
            ended.says(why, "cause and fix");
        }
    }
    // The same as s3://, which has no server here.
    let mut command = cachewise(["gc", "--keep", "1", "S3://bucket/store"]);
    command
        .env("AWS_ENDPOINT", "http://127.0.0.1:1")
        .env("AWS_ALLOW_HTTP", "true");
    Ended::of(command.current_dir(&within))
        .expect(2, "no server")
        .says("read s3://bucket/store/", "the bucket");
    let made = fs::read_dir(&within).expect("it is there").count();
    assert_eq!(made, 0, "no directory has the name of an address");
}
