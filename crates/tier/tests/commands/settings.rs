//! Settings: flags, environment variables and keys of a settings file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mounted::{bytes_of, number_of, origin, write};
use crate::support::*;

/// A key as text.
const HEX: &str = "000102030405060708090a0b0c0d0e0ff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "settings::flag_overrides_environment_overrides_file",
            precedence,
        ),
        plain("settings::names_of_older_versions_are_aliases", aliases),
        plain(
            "settings::wrong_settings_are_refused_with_their_source",
            refused,
        ),
        plain(
            "settings::key_file_that_is_no_secret_key_is_refused",
            key_file,
        ),
        plain("settings::disk_in_the_origin_is_refused", disk_in_origin),
        plain("settings::help_names_flag_default_and_variable", help),
        plain(
            "settings::limit_of_addresses_is_refused_or_suffices",
            address_limit,
        ),
    ]
}

/// Runs `warm` with a settings file, environment variables and flags.
fn warm(origin: &Path, file: &Path, variables: &[(&str, &str)], flags: &[&str]) -> Ended {
    let mut command = cachewise(["warm", "-o", "json", "--settings"]);
    command.arg(file).args(flags).arg(origin);
    Ended::of(command.envs(variables.iter().copied()))
}

fn files(scratch: &Scratch, text: &str) -> (PathBuf, PathBuf) {
    let file = scratch.directory().join("cache.toml");
    write(&file, text.as_bytes());
    (origin(scratch, 1, 100_000), file)
}

fn precedence() {
    let scratch = Scratch::new();
    let (origin, file) = files(&scratch, "block = \"64K\"\nthreads = 2\n");
    let variable = ("CACHEWISE_TIER_BLOCK", "32K");
    let empty = ("CACHEWISE_TIER_BLOCK", "");
    for (variables, flags, blocks) in [
        (&[][..], &[][..], 2),
        (&[empty], &[], 2),
        (&[variable], &[], 4),
        (&[variable], &["--block", "16K"], 7),
        (&[], &["--block", "16K"], 7),
    ] {
        let warmed = warm(&origin, &file, variables, flags).expect(0, "all are valid");
        let warmed: Value = serde_json::from_slice(&warmed.out).expect("JSON");
        let read = number_of(&warmed, "origin", "calls_total");
        assert_eq!(read, blocks, "{variables:?} {flags:?}: {warmed}");
    }
}

fn key_file() {
    let scratch = Scratch::new();
    let (origin, file) = files(&scratch, "");
    let path = scratch.path("key");
    let key = path.to_str().expect("plain");
    let engine = ["--engine", "redis://127.0.0.1:1", "--engine-key-file", key];
    let refused = |flags: &[&str], why: &str| {
        warm(&origin, &file, &[], flags)
            .expect(2, "there is no secret key")
            .says(why, "cause and fix");
    };
    refused(&engine, "key: No such file");
    for (content, mode, why) in [
        (
            "",
            0o600,
            "key: is empty; make one with: (umask 077; openssl rand -hex 32",
        ),
        (
            "secret",
            0o600,
            "6 characters of text are no key of 256 bits",
        ),
        ("\u{1}\u{2}", 0o600, "2 bytes are no key: 32 bytes are"),
        (
            HEX,
            0o644,
            "mode 0644 lets other users access the key: chmod 600",
        ),
    ] {
        write(&path, content.as_bytes());
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, permissions).expect("it is ours");
        refused(&engine, why);
    }
    refused(
        &["--engine-key-file", key],
        "no engine is configured: add --engine URL",
    );
}

fn disk_in_origin() {
    let scratch = Scratch::new();
    let (origin, _) = files(&scratch, "");
    let mount = scratch.path("mnt");
    std::fs::create_dir(&mount).expect("made");
    let link = scratch.path("link");
    std::os::unix::fs::symlink(origin.join("f"), &link).expect("made");
    for disk in [origin.join("blocks"), origin.clone(), link] {
        for command in ["warm", "mount"] {
            let mut command = cachewise([command, "--disk-size", "64M", "--disk"]);
            command.arg(&disk).arg(&origin);
            if command
                .get_args()
                .next()
                .is_some_and(|name| name == "mount")
            {
                command.arg(&mount);
            }
            Ended::of(&mut command)
                .expect(2, "blocks would be files of the origin")
                .says("--disk: ", "the flag")
                .says("name a directory outside of it", "fix");
        }
    }
    let names = std::fs::read_dir(&origin).expect("it is there");
    let names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["f"], "nothing was written there");
}

fn aliases() {
    let scratch = Scratch::new();
    let old = "disk-size = \"64M\"\nengine-user = \"a\"\nengine-password-file = \"/missing\"\n\
        engine-ca = \"/missing\"\nengine-name = \"a\"\nhedge-share = 0.1\nin-flight = \"4M\"\n\
        origin-reads = 2\nread-deadline = 5\nallow-other = true\n";
    let (origin, file) = files(&scratch, old);
    let disk = scratch.path("disk");
    let disk = disk.to_str().expect("plain");
    // All are read: the first that cannot be used is the password's file.
    let engine = ["--engine", "redis+tls://127.0.0.1:1", "--disk", disk];
    warm(&origin, &file, &[], &engine)
        .expect(2, "there is no password file")
        .says(
            "cache.toml: engine-password-file: /missing: No such file",
            "why",
        );
    write(&file, b"engine_user = \"a\"\n");
    for variable in [
        "CACHEWISE_TIER_ENGINE_PASSWORD",
        "CACHEWISE_ENGINE_PASSWORD",
    ] {
        let engine = ["--engine", "redis://127.0.0.1:1"];
        warm(&origin, &file, &[], &engine)
            .expect(2, "there is no password")
            .says(
                "cache.toml: engine_user: there is no password: set CACHEWISE_TIER_ENGINE_PASSWORD",
                "why",
            );
        let ended = warm(&origin, &file, &[(variable, "open sesame")], &engine);
        let said = ended.expect(2, "no server listens").err();
        assert!(!said.contains("there is no password"), "{variable}: {said}");
    }
}

fn refused() {
    let scratch = Scratch::new();
    let (origin, file) = files(&scratch, "");
    for (text, why) in [
        (
            "blokc = \"64K\"",
            "cache.toml: blokc: no such setting; there are memory,",
        ),
        ("block_size = \"64K\"", "block_size: no such setting"),
        (
            "block = \"64 s\"",
            "cache.toml: block: \"64 s\" is not a size",
        ),
        (
            "deadline = \"5 MiB\"",
            "deadline: \"5 MiB\" is not an interval",
        ),
        (
            "block = 100000",
            "cache.toml: block: 97.7 KiB is not a power of two",
        ),
        (
            "threads = 300",
            "cache.toml: threads: 300 is not from 1 to 256",
        ),
        (
            "disk-size = \"1G\"",
            "cache.toml: disk-size: there is no directory for it: add --disk DIRECTORY",
        ),
        (
            "zone = \"a\"",
            "cache.toml: zone: no engine is configured: add --engine URL",
        ),
        (
            "poll = 5",
            "cache.toml: poll: for published versions only: add --store STORE",
        ),
        ("block = \"64K\"\nblock = \"32K\"", "duplicate key"),
        (
            "origin-reads = 1\norigin_reads = 2",
            "origin_reads is there twice",
        ),
        (
            "allow_other = \"maybe\"",
            "allow_other: \"maybe\" is not true or false",
        ),
        ("block = [1, 2]", "cache.toml: block: it has one value"),
        ("[cache]\nblock = 1", "cache is of the type table"),
    ] {
        write(&file, text.as_bytes());
        let ended = warm(&origin, &file, &[], &[]).expect(2, text);
        ended.says(why, text);
    }
    write(&file, b"");
    for (variable, value, why) in [
        (
            "CACHEWISE_TIER_BLOCK",
            "64 s",
            "variable CACHEWISE_TIER_BLOCK: \"64 s\" is not a size",
        ),
        (
            "CACHEWISE_TIER_HEDGE",
            "0",
            "variable CACHEWISE_TIER_HEDGE: \"0\" is not an interval",
        ),
        (
            "CACHEWISE_TIER_HEDGE_SHARE",
            "2",
            "variable CACHEWISE_TIER_HEDGE_SHARE: 2 is not from 0 to 1",
        ),
    ] {
        warm(&origin, &file, &[(variable, value)], &[])
            .expect(2, variable)
            .says(why, variable);
    }
    for (flags, why) in [
        (
            &["--block", "16K", "--block", "32K"][..],
            "cannot be used multiple times",
        ),
        (
            &["--block-size", "16K"],
            "unexpected argument '--block-size'",
        ),
        (&["--threads", "2"], "unexpected argument '--threads'"),
        (
            &["--deadline", "1 KiB"],
            "--deadline: \"1 KiB\" is not an interval",
        ),
        (
            &["--origin-reads", "0"],
            "--origin-reads: 0 is too small: the minimum is 1",
        ),
        (
            &["--engine", "127.0.0.1:6379"],
            "cachewise: --engine: the form is redis-cluster://HOST:PORT",
        ),
        (
            &["--zone-of", "a=10.0.0.0/8"],
            "--zone-of: no engine is configured: add --engine URL",
        ),
    ] {
        let ended = warm(&origin, &file, &[], flags);
        ended.expect(2, "it is refused").says(why, "why");
    }
}

fn help() {
    let help = Ended::of(&mut cachewise(["mount", "--help"]))
        .expect(0, "always")
        .out();
    let words: Vec<&str> = help.split_whitespace().collect();
    let text = words.join(" ");
    for part in [
        "--disk-size <BYTES> Maximum disk space for blocks, with --disk; minimum 64M [default: 10.0 GiB] [env: CACHEWISE_TIER_DISK_SIZE]",
        "--revalidate <TIME|0>",
        "[default: 1h] [env: CACHEWISE_TIER_REVALIDATE]",
        "[env: CACHEWISE_TIER_ALLOW_OTHER]",
    ] {
        assert!(text.contains(part), "{part}: {help}");
    }
}

/// Runs `get` of 40 MB with a limit of addresses, in KiB.
fn get_within(addresses: u64, memory: &str, origin: &Path) -> Ended {
    let get = cachewise(["get", "--memory", memory]);
    let mut shell = Command::new("sh");
    let script = format!("ulimit -v {addresses} && exec \"$0\" \"$@\"");
    shell
        .args(["-c", &script])
        .arg(get.get_program())
        .args(get.get_args());
    for (name, value) in get.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Ended::of(shell.arg(origin).arg("f/0"))
}

fn address_limit() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 40_000_000);
    // The least that is accepted.
    let got = get_within((8 + 256) << 10, "8M", &origin).expect(0, "enough addresses");
    assert!(
        got.out == bytes_of(0, 40_000_000),
        "all bytes: {}",
        got.out.len()
    );
    let refused = get_within((64 + 256) << 10, "65M", &origin);
    let refused = refused.expect(2, "1 MiB too few");
    let said = String::from_utf8_lossy(&refused.err).into_owned();
    for part in ["320.0 MiB", "321.0 MiB", "ulimit -v", "--memory"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(refused.out.is_empty(), "nothing was written");
}
