//! Permissions of the origin: a file that a caller cannot open there gives no bytes, wherever they are kept.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, bytes_of, has_fuse, origin, settle};
use crate::support::*;

/// The user who owns the secret.
const OWNER: u32 = 1234;

pub fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "permissions::tier_commands_give_no_cached_byte_of_a_closed_file",
            commands,
        ),
        needs_root("permissions::shared_mount_checks_each_caller", shared_mount),
        needs_root(
            "permissions::own_mount_gives_no_cached_byte_of_a_closed_file",
            own_mount,
        ),
    ]
}

/// An origin whose `f/0` is its owner's alone, and whose `f/1` is for all to read.
fn closed(scratch: &Scratch) -> PathBuf {
    let origin = origin(scratch, 2, 300_000);
    let mode = |name: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(origin.join(name), mode).expect("ours");
    };
    mode("", 0o755);
    mode("f", 0o755);
    mode("f/1", 0o644);
    mode("f/0", 0o600);
    chown(origin.join("f/0"), Some(OWNER), Some(OWNER)).expect("root may");
    settle(&origin);
    origin
}

/// Brings all of it to the engine, as root.
fn warm(engine: &str, identity: &[&str], origin: &Path) {
    let mut line = cachewise(["warm", "--engine", engine]);
    Ended::of(line.args(identity).arg(origin)).expect(0, "root may read all of it");
}

fn as_user(user: u32) -> Command {
    let user = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command
}

fn commands() {
    if !has_redis("a closed file in an engine") {
        return;
    }
    let scratch = Scratch::new();
    let origin = closed(&scratch);
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    warm(&engine, &[], &origin);
    let binary = copy_for_everyone(scratch.directory());
    let tier = |user, command: &str, more: &[&str], name: &str| {
        let mut line = as_user(user);
        line.arg(&binary).args([command]).args(more);
        Ended::of(line.arg(&origin).arg(name))
    };
    let cat = Ended::of(as_nobody().arg("cat").arg(origin.join("f/0")));
    cat.expect(1, "the origin refuses").says("denied", "why");
    let engine = ["--engine", &engine];
    for more in [&[][..], &engine[..]] {
        let got = tier(65_534, "get", more, "f/0");
        let got = got
            .expect(2, "what cat does not get")
            .says("refuses access", "why");
        assert!(got.out.is_empty(), "not one byte: {}", got.line);
        // Without a cache there is nothing to verify.
        for command in ["warm", "verify"].iter().take(1 + more.len().min(1)) {
            tier(65_534, command, more, "f/0")
                .expect(2, "it is not read either")
                .says("refuses access", "why");
        }
        let open = tier(65_534, "get", more, "f/1").expect(0, "it is for all to read");
        assert!(open.out == bytes_of(1, 300_000), "the bytes");
        let own = tier(OWNER, "get", more, "f/0").expect(0, "it is the owner's");
        assert!(own.out == bytes_of(0, 300_000), "the bytes");
    }
}

/// An access control list in the form of the kernel's attribute: owner and others read, user 65534 does not.
fn deny_nobody(path: &Path) -> bool {
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 0, 65_534),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 4, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags).is_ok()
}

fn shared_mount() {
    if !has_fuse("a closed file in a shared mount") || !has_redis("a closed file in a shared mount")
    {
        return;
    }
    let scratch = Scratch::new();
    let origin = closed(&scratch);
    let has_lists = deny_nobody(&origin.join("f/1"));
    settle(&origin);
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address").to_owned();
    warm(&engine, &[], &origin);
    let mounted = Mounted::new(&scratch, &origin, &["--allow-other", "--engine", &engine]);
    let secret = mounted.path("f/0");
    let root = fs::read(&secret).expect("root may");
    assert!(
        root == bytes_of(0, 300_000),
        "and now the kernel has it too"
    );
    let found = fs::metadata(&secret).expect("it is there");
    assert_eq!(
        (found.uid(), found.gid()),
        (OWNER, OWNER),
        "as at the origin"
    );
    assert_eq!(
        found.mode() & 0o7777,
        0o400,
        "as at the origin, less writing"
    );
    let cat = |user, path: &Path| Ended::of(as_user(user).arg("cat").arg(path));
    let denied = cat(65_534, &secret)
        .expect(1, "the kernel refuses")
        .says("denied", "why");
    assert!(denied.out.is_empty(), "not one byte");
    let own = cat(OWNER, &secret).expect(0, "it is the owner's");
    assert!(own.out == bytes_of(0, 300_000), "the bytes");
    if has_lists {
        let at_origin = cat(65_534, &origin.join("f/1"));
        at_origin
            .expect(1, "its list refuses")
            .says("denied", "why");
        let listed = cat(65_534, &mounted.path("f/1")).expect(1, "so does the mount");
        assert!(listed.out.is_empty(), "not one byte");
    } else {
        println!("skipped: access control lists: this file system has none");
    }
}

/// Runs in its own namespaces, with a /dev/fuse open to all. Arguments: a directory of the
/// unprivileged user, the origin, the binary, the engine.
const SCRIPT: &str = r#"
set -u
cd "$1"
as_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
mknod -m 666 fuse c 10 229 && mount --bind fuse /dev/fuse || { echo 'no device'; exit 0; }
test -w /dev/fuse && $as_nobody sh -c ': <>/dev/fuse' || { echo 'no device'; exit 0; }
$as_nobody "$3" mount --engine "$4" "$2" mnt 2>said &
mount=$!
for _ in $(seq 600); do grep -q 'is mounted' said && break; kill -0 $mount || break; sleep 0.1; done
cat said
$as_nobody cat mnt/f/1 | cmp - "$2/f/1" && echo 'open: the bytes are right'
$as_nobody cat mnt/f/0 2>denied | wc -c | sed 's/^/closed: /'
cat denied
kill -TERM $mount
wait $mount; echo "ended: $?"
"#;

fn own_mount() {
    let what = "a closed file in one's own mount";
    if !has_fuse(what) || !has_redis(what) {
        return;
    }
    if Command::new("fusermount3").arg("-V").output().is_err() {
        println!("skipped: {what}: fusermount3 (package fuse3) is not installed");
        return;
    }
    let scratch = Scratch::new();
    let origin = closed(&scratch);
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address");
    warm(engine, &[], &origin);
    let own = scratch.directory().join("own");
    let mnt = own.join("mnt");
    fs::create_dir_all(&mnt).expect("made");
    for path in [&own, &mnt] {
        chown(path, Some(65_534), Some(65_534)).expect("root may");
    }
    let binary = copy_for_everyone(scratch.directory());
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--mount-proc", "--pid", "--fork", "--kill-child"])
        .args(["--", "sh", "-c", SCRIPT, "sh"])
        .args([&own, &origin, &binary])
        .arg(engine);
    let ended = Ended::of(&mut command);
    let out = ended.out();
    if out.is_empty() || out.contains("no device") {
        println!(
            "skipped: {what}: no namespace with a /dev/fuse of its own: {}",
            ended.err()
        );
        return;
    }
    for part in [
        "open: the bytes are right",
        "closed: 0",
        "denied",
        "ended: 0",
    ] {
        assert!(out.contains(part), "{part}: {out}\n{}", ended.err());
    }
}
