//! Files that a user names: settings, passwords, keys and certificates. A file without an end is refused, and not read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::mounted::{origin, write};
use crate::published::Place;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "named_files::devices_fifos_and_long_files_are_refused",
            not_files,
        ),
        plain("named_files::process_substitution_is_read", substitution),
        plain(
            "named_files::password_file_that_is_no_secret_is_refused",
            password,
        ),
    ]
}

const ENGINE: [&str; 2] = ["--engine", "redis+tls://127.0.0.1:1"];

fn not_files() {
    let place = Place::new();
    let origin = place.at("origin");
    let fifo = place.at("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()), "a FIFO");
    let long = place.at("long");
    let sparse = fs::File::create(&long).expect("made");
    sparse.set_len(1 << 40).expect("a file with holes");
    let mode = fs::Permissions::from_mode(0o600);
    sparse.set_permissions(mode).expect("ours");
    for (path, why) in [
        (Path::new("/dev/zero"), "is a character device, not a file"),
        (&fifo, "is a FIFO, not a file"),
        (&long, "is longer than"),
    ] {
        for flag in [
            "--settings",
            "--engine-password-file",
            "--engine-key-file",
            "--engine-ca",
        ] {
            let mut warm = cachewise(["warm", flag]);
            warm.arg(path).arg(&origin);
            if flag != "--settings" {
                warm.args(ENGINE);
            }
            Ended::of(&mut warm).expect(2, flag).says(why, flag);
        }
        let mut mount = cachewise(["mount", "a@1", "--store"]);
        mount.arg(place.at("store")).arg("--trust").arg(path);
        mount.arg(place.at("mnt"));
        Ended::of(&mut mount)
            .expect(2, "--trust")
            .says(why, "--trust");
        let mut publish = cachewise(["publish"]);
        publish.arg(&origin).args(["a@1", "--key"]).arg(path);
        publish.arg("--to").arg(place.at("store"));
        Ended::of(&mut publish)
            .expect(2, "--key")
            .says(why, "--key");
    }
}

fn substitution() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1_000);
    let settings = scratch.path("settings");
    write(&settings, b"block = 100000\n");
    let password = scratch.path("password");
    write(&password, b"\n");
    let key = scratch.path("key");
    write(&key, b"secret\n");
    for (flag, file, why) in [
        ("--settings", &settings, "block: 97.7 KiB is not a power"),
        ("--engine-password-file", &password, "is empty"),
        ("--engine-key-file", &key, "6 characters of text are no key"),
    ] {
        let mut bash = Command::new("bash");
        let line = format!("exec \"$0\" warm {flag} <(cat \"$1\") \"${{@:2}}\"");
        bash.args(["-c", &line]).arg(PROGRAM).arg(file).arg(&origin);
        if flag != "--settings" {
            bash.args(ENGINE);
        }
        Ended::of(&mut bash)
            .expect(2, flag)
            .says(why, "its content");
    }
}

fn password() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1_000);
    let path = scratch.path("password");
    let refused = |content: &str, mode: u32| {
        write(&path, content.as_bytes());
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(&path, permissions).expect("it is ours");
        let mut warm = cachewise(["warm", "--engine-password-file"]);
        warm.arg(&path).args(["--engine", "redis://127.0.0.1:1"]);
        Ended::of(warm.arg(&origin)).expect(2, "no server listens")
    };
    for mode in [0o644, 0o604, 0o620] {
        let said = refused("open sesame\n", mode);
        let why = format!("mode {mode:04o} lets other users access the password: chmod 600");
        said.says(&why, "cause and fix");
    }
    for content in ["", "\n", " \n"] {
        refused(content, 0o600).says("password: is empty", "cause");
    }
    refused("\nopen sesame\n", 0o600).says("its first line", "cause");
    let said = refused("open sesame\n", 0o600).err();
    assert!(!said.contains("password-file"), "it is one: {said}");
}
