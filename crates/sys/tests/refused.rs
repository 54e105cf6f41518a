//! Requests that the kernel refuses or answers wrongly: as another user, and on an overlay.
//!
//! Both need root, to become another user or to mount. Each test runs this program again inside
//! `setpriv` or `unshare`, for the one ignored test that looks at the file named in `LOOK_AT`.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use cachewise_sys::{open_quietly, resident};

const LOOK_AT: &str = "CACHEWISE_LOOK_AT";
const ANSWER: &str = "answer: ";

/// Runs `look` below by way of `wrapper`: what it answered, or `None` where it could not run.
fn look_through(wrapper: &[&str], path: &Path) -> Option<String> {
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "look", "--ignored", "--nocapture"])
        .env(LOOK_AT, path)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer = text
        .lines()
        .find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
    if answer.is_none() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
    }
    answer
}

#[test]
#[ignore = "only run by the tests below, inside of what they set up"]
fn look() {
    let Some(path) = std::env::var_os(LOOK_AT) else {
        return;
    };
    let path = Path::new(&path);
    let mut file = open_quietly(path).unwrap();
    file.read_to_end(&mut Vec::new()).unwrap();
    match resident(path) {
        Ok(found) => println!("{ANSWER}{} pages", found.cached),
        Err(error) => println!("{ANSWER}{:?}, {error}", error.kind()),
    }
}

#[test]
fn another_users_file_can_be_read_but_not_counted() {
    let mut file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    file.write_all(b"content").unwrap();
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))
        .unwrap();
    let nobody = [
        "setpriv",
        "--reuid",
        "65534",
        "--clear-groups",
        "--inh-caps=-all",
    ];
    let Some(answer) = look_through(&nobody, file.path()) else {
        return;
    };
    assert!(
        // Kernels before the permission check tell everyone.
        answer == "1 pages" || (answer.starts_with("Denied") && answer.contains("own the file")),
        "opened in spite of O_NOATIME, and refused with the reason: {answer}"
    );
}

#[test]
fn an_overlay_is_not_said_to_be_cold() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    File::create(dir.path().join("lower/file"))
        .unwrap()
        .write_all(b"content")
        .unwrap();
    let script = "cd \"$0\" && mount -t overlay overlay \
                  -o lowerdir=lower,upperdir=upper,workdir=work merged && exec \"$@\"";
    let root = dir.path().to_str().unwrap();
    let wrapper = ["unshare", "-m", "sh", "-c", script, root];
    let Some(answer) = look_through(&wrapper, &dir.path().join("merged/file")) else {
        return;
    };
    assert!(
        answer == "1 pages" || (answer.starts_with("Unsupported") && answer.contains("overlayfs")),
        "the file was read just now, so 0 pages would be a lie: {answer}"
    );
}
