//! A mount by a user who owns nothing but an empty directory, through fusermount3.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use crate::mounted::{has_fuse, origin};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![needs_root(
        "ordinary_user::mounts_and_allows_nobody_else",
        mounts,
    )]
}

/// Runs in its own namespaces, with a /dev/fuse open to all, as udev makes it. The machine stays
/// unchanged, and a mount that does not end ends with the script. Arguments: a directory of the
/// unprivileged user, the origin, the binary.
const SCRIPT: &str = r#"
set -u
cd "$1"
as_nobody='setpriv --reuid 65534 --regid 65534 --clear-groups'
$as_nobody sh -c ': <>/dev/fuse' 2>/dev/null || echo "refused: $($as_nobody "$3" mount "$2" mnt 2>&1)"
mknod -m 666 fuse c 10 229 && mount --bind fuse /dev/fuse || { echo 'no device'; exit 0; }
test -w /dev/fuse && $as_nobody sh -c ': <>/dev/fuse' || { echo 'no device'; exit 0; }
echo "others: $(timeout -k 5 20 $as_nobody "$3" mount --allow-other "$2" mnt 2>&1)"
$as_nobody "$3" mount "$2" mnt 2>said &
mount=$!
for _ in $(seq 600); do grep -q 'is mounted' said && break; kill -0 $mount || break; sleep 0.1; done
cat said
$as_nobody cat mnt/f/0 | cmp - "$2/f/0" && echo 'the bytes are right'
$as_nobody "$3" stat mnt | grep -c '^tier' | sed 's/^/tiers: /'
cat mnt/f/0 2>/dev/null | head -c 1 | wc -c | sed 's/^/bytes for root: /'
kill -TERM $mount
wait $mount; echo "ended: $?"
grep -c " $PWD/mnt " /proc/self/mounts | sed 's/^/left: /'
"#;

fn mounts() {
    let what = "a mount by an ordinary user";
    if !has_fuse(what) {
        return;
    }
    if Command::new("fusermount3").arg("-V").output().is_err() {
        println!("skipped: {what}: fusermount3 (package fuse3) is not installed");
        return;
    }
    let configured = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    if configured
        .lines()
        .any(|line| line.trim() == "user_allow_other")
    {
        println!("skipped: {what}: /etc/fuse.conf has user_allow_other, so nothing is refused");
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 300_000);
    let own = scratch.directory().join("own");
    let mnt = own.join("mnt");
    fs::create_dir_all(&mnt).expect("made");
    for path in [&own, &mnt] {
        chown(path, Some(65_534), Some(65_534)).expect("root may");
    }
    readable(&origin);
    let binary = copy_for_everyone(scratch.directory());
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--mount-proc", "--pid", "--fork", "--kill-child"])
        .args(["--", "sh", "-c", SCRIPT, "sh"])
        .args([&own, &origin, &binary]);
    let ended = Ended::of(&mut command);
    let out = ended.out();
    let has = |part: &str| out.contains(part);
    if out.is_empty() || has("no device") {
        println!(
            "skipped: {what}: no namespace with a /dev/fuse of its own: {}",
            ended.err()
        );
        return;
    }
    let device = fs::metadata("/dev/fuse").expect("it was opened");
    if device.permissions().mode() & 0o006 != 0o006 {
        assert!(has("chmod 666 /dev/fuse"), "what to do is said: {out}");
    }
    assert!(
        has("others: ") && has("user_allow_other") && has("mount without --allow-other"),
        "who may not let others in is told why: {out}"
    );
    for part in [
        "is mounted on",
        "the bytes are right",
        "tiers: 2",
        "bytes for root: 0",
        "ended: 0",
        "left: 0",
    ] {
        assert!(has(part), "{part}: {out}\n{}", ended.err());
    }
}

/// Opens a tree to all users for reading.
fn readable(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        readable(&entry.path());
    }
}
