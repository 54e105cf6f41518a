//! Links and files that another user has planted where output goes: the kernel's protections apply to every output.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use crate::support::*;

/// The unprivileged user `nobody`.
const OTHER: u32 = 65_534;

const SYMLINKS: &str = "/proc/sys/fs/protected_symlinks";
const HARDLINKS: &str = "/proc/sys/fs/protected_hardlinks";
const REGULAR: &str = "/proc/sys/fs/protected_regular";

/// A directory for all, as /tmp is, and a file of root's in another one.
struct SharedDirectory {
    scratch: Scratch,
    shared: PathBuf,
    secret: PathBuf,
    recording: PathBuf,
}

impl SharedDirectory {
    fn new() -> SharedDirectory {
        let scratch = Scratch::new();
        let shared = scratch.path("shared");
        fs::create_dir(&shared).expect("the disk has room");
        fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("it is ours");
        let recording = scratch.path("a.rec");
        Ended::of(cachewise(["record", "-q", "-d", "0.1"]).arg(&recording)).expect(0, "recorded");
        let secret = scratch.path("secret");
        let place = SharedDirectory {
            scratch,
            shared,
            secret,
            recording,
        };
        place.renew();
        place
    }

    /// Makes the file anew.
    fn renew(&self) {
        fs::write(&self.secret, "root's").expect("the disk has room");
        fs::set_permissions(&self.secret, Permissions::from_mode(0o600)).expect("it is ours");
    }

    /// A command for each kind of output, which writes to this file.
    fn outputs(&self, to: &Path) -> Vec<(&'static str, Ended)> {
        let file = self.scratch.path("secret");
        let option = Ended::of(cachewise(["files"]).arg(&file).arg("-o").arg(to));
        let mut outputs = vec![("-o", option)];
        let page = Ended::of(
            cachewise(["report"])
                .arg(&self.recording)
                .arg("--html")
                .arg(to),
        );
        outputs.push(("--html", page));
        let record = Ended::of(cachewise(["record", "-q", "-d", "0.1"]).arg(to));
        outputs.push(("record", record));
        outputs
    }
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).expect("it is there")).into_owned()
}

fn denied(outputs: Vec<(&'static str, Ended)>) {
    for (name, output) in outputs {
        let output = output.expect(2, "it is refused");
        // It reads a file before it appends to it.
        let is_no_recording = name == "record" && output.err().contains("not a recording");
        if !is_no_recording {
            output.says(
                "ermission denied",
                "as the kernel does to any other program",
            );
        }
    }
}

pub fn symbolic_links() {
    let place = SharedDirectory::new();
    let link = place.shared.join("report.csv");
    symlink(&place.secret, &link).expect("the disk has room");
    lchown(&link, Some(OTHER), Some(OTHER)).expect("we are root");
    let Some(protected) = Sysctl::set(SYMLINKS, "1") else {
        println!("skipped: planted symbolic links: fs.protected_symlinks cannot be set");
        return;
    };
    denied(place.outputs(&link));
    assert_eq!(text(&place.secret), "root's", "untouched");
    assert!(link.is_symlink(), "the link stays");
    drop(protected);

    // Where the kernel is to follow links of others, an output does as a shell would.
    let _unprotected = Sysctl::set(SYMLINKS, "0").expect("it could be set before");
    let outputs = place.outputs(&link);
    assert!(link.is_symlink(), "the link stays");
    let found = fs::metadata(&place.secret).expect("it is there");
    assert_eq!(
        (found.mode() & 0o777, found.uid()),
        (0o600, 0),
        "whose it was"
    );
    for (name, output) in outputs {
        match name {
            // The page of the report is there by then, and is no recording.
            "record" => output
                .expect(2, "what is no recording is left")
                .says("recording", "why"),
            _ => output.expect(0, "it is followed"),
        };
    }
    assert!(text(&place.secret).contains("<html"), "the page");
}

pub fn hard_links() {
    let place = SharedDirectory::new();
    let link = place.shared.join("report.csv");
    let plant = || Ended::of(as_nobody().arg("ln").arg(&place.secret).arg(&link));
    fs::set_permissions(place.scratch.directory(), Permissions::from_mode(0o755)).expect("ours");
    let Some(protected) = Sysctl::set(HARDLINKS, "1") else {
        println!("skipped: planted hard links: fs.protected_hardlinks cannot be set");
        return;
    };
    assert_ne!(plant().code(), 0, "no other user links a file of root");
    drop(protected);

    let _unprotected = Sysctl::set(HARDLINKS, "0").expect("it could be set before");
    plant().expect(0, "the kernel lets every user link every file");
    let before = fs::metadata(&place.secret).expect("it is there");
    let outputs = place.outputs(&link);
    for (name, output) in outputs {
        match name {
            "record" => output
                .expect(2, "what is no recording is left")
                .says("recording", "why"),
            _ => output.expect(0, "it is written"),
        };
    }
    // Content that root writes into a file with several names has the rights of that file: others read nothing of it.
    let (secret, linked) = (
        fs::metadata(&place.secret).expect("it is there"),
        fs::metadata(&link).expect("it is there"),
    );
    assert_eq!(secret.ino(), before.ino(), "the same file");
    assert_eq!(linked.ino(), before.ino(), "by both names");
    assert_eq!(
        (linked.mode() & 0o777, linked.uid()),
        (0o600, 0),
        "root's alone"
    );
}

pub fn files() {
    let place = SharedDirectory::new();
    let planted = place.shared.join("report.csv");
    // (fs.protected_regular, mode of the directory, whether a file of another user may be written)
    for (value, mode, is_allowed) in [
        ("0", 0o1777, true),
        ("1", 0o1777, false),
        ("2", 0o1777, false),
        ("0", 0o1775, true),
        ("1", 0o1775, true),
        ("2", 0o1775, false),
    ] {
        fs::set_permissions(&place.shared, Permissions::from_mode(mode)).expect("it is ours");
        let Some(_set) = Sysctl::set(REGULAR, value) else {
            println!("skipped: planted files: fs.protected_regular cannot be set");
            return;
        };
        let line = format!("fs.protected_regular = {value}, directory {mode:o}");
        fs::write(&planted, "planted").expect("the disk has room");
        chown(&planted, Some(OTHER), Some(OTHER)).expect("we are root");
        let outputs = place.outputs(&planted);
        let found = fs::metadata(&planted).expect("it is there");
        assert_eq!(found.uid(), OTHER, "{line}: whose it was");
        if is_allowed {
            for (name, output) in outputs {
                match name {
                    "record" => output.expect(2, &line).says("recording", "why"),
                    _ => output.expect(0, &line),
                };
            }
            assert!(text(&planted).contains("<html"), "{line}: in place");
        } else {
            denied(outputs);
            assert_eq!(text(&planted), "planted", "{line}: untouched");
        }
        fs::remove_file(&planted).expect("it is there");
    }
    // A file of root is replaced as anywhere else.
    let _set = Sysctl::set(REGULAR, "2").expect("it could be set before");
    fs::write(&planted, "ours").expect("the disk has room");
    let output = Ended::of(
        cachewise(["files"])
            .arg(&place.secret)
            .arg("-o")
            .arg(&planted),
    );
    output.expect(0, "ours");
    assert_ne!(text(&planted), "ours", "replaced");
}
