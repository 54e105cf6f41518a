//! The node plugin for Kubernetes, by csi-sanity and the official client (tests/csi, in Go).

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::mounted::has_fuse;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("csi::plugin_serves_csi_sanity_and_pods", plugin),
        needs_root("csi::wrong_arguments_are_refused", wrong_arguments),
        needs_root("csi::ordinary_user_may_not_serve", ordinary_user),
    ]
}

/// A directory with a file that has the directory's name in it.
fn directory(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.directory().join(name);
    fs::create_dir(&path).expect("the directory can be made");
    fs::write(path.join("name"), name).expect("the file can be written");
    path
}

/// Go in the module of the tests, with the modules of go.sum, whatever else this machine is set to.
fn go() -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/csi"))
        .env("GOFLAGS", "-mod=readonly");
    command
}

fn plugin() {
    if !has_fuse("csi-sanity") {
        return;
    }
    let mut modules = go();
    match modules.args(["mod", "download"]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            println!(
                "skipped: csi-sanity: {}",
                why.lines().last().unwrap_or("no modules")
            );
            return;
        }
        Err(error) => {
            println!("skipped: csi-sanity: go: {error}");
            return;
        }
    }
    let scratch = Scratch::new();
    let (origin, other) = (directory(&scratch, "origin"), directory(&scratch, "other"));
    let disk = scratch.directory().join("blocks");
    let settings = scratch.directory().join("settings.toml");
    let text = format!("disk = {disk:?}\ndisk_size = \"64M\"\nmemory = \"16M\"\n");
    fs::write(&settings, text).expect("the settings can be written");
    let socket = scratch.directory().join("csi.sock");
    let mut command = cachewise(["csi", "--node-id", "node-1", "--endpoint"]);
    command.arg(&socket).arg("--settings").arg(&settings);
    let started = Started::of(&mut command);
    until("it serves", || UnixStream::connect(&socket).ok());

    let mut tests = go();
    tests
        .env("CSI_SOCKET", &socket)
        .env("CSI_ORIGIN", &origin)
        .env("CSI_OTHER", &other)
        .env("CSI_DISK", &disk)
        .args(["test", "-count=1", "-v", ".", "-args", "-ginkgo.no-color"])
        // Its volumes come from a controller of the test.
        .arg("-ginkgo.skip=Controller Service");
    let ended = Ended::of(&mut tests);
    ended.expect(0, "csi-sanity and pods are served");

    started.signal(Signal::TERM);
    started.wait().expect(0, "SIGTERM ends it");
    assert!(!socket.exists(), "the socket is removed");
}

fn wrong_arguments() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1);
    let file = file.to_str().expect("UTF-8");
    for (endpoint, why) in [
        ("tcp://127.0.0.1:1", "unix://PATH"),
        (file, "is not a socket"),
        ("/nonexistent/csi.sock", "cannot make the socket"),
    ] {
        let ended = Ended::of(&mut cachewise(["csi", "--endpoint", endpoint]));
        ended.expect(2, endpoint).says(why, "the reason");
    }
    assert_eq!(fs::metadata(file).expect("it is left alone").len(), 1);
    let mut nameless = cachewise([
        "csi",
        "--endpoint",
        "/nonexistent/csi.sock",
        "--node-id",
        "",
    ]);
    Ended::of(&mut nameless)
        .expect(2, "no name")
        .says("--node-id", "the flag");
}

fn ordinary_user() {
    let scratch = Scratch::new();
    let mut command = cachewise_as_nobody(&scratch);
    command.args(["csi", "--endpoint", "/nonexistent/csi.sock"]);
    Ended::of(&mut command)
        .expect(2, "it mounts for all users")
        .says("run csi as root", "the fix");
}
