//! Paths that are not files, vanish, or cannot be read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode};

use super::stand::*;
use crate::support::*;

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0)
        .expect("a FIFO can be made");
}

/// An error of a named path is reported once, and the others are shown.
pub fn paths() {
    let scratch = Scratch::new();
    let good = scratch.file("good", 3 * page_size());
    fifo(&scratch.path("fifo"));
    let _socket = UnixListener::bind(scratch.path("socket")).expect("a socket can be made");
    symlink("loop", scratch.path("loop")).expect("a link can be made");
    symlink("nowhere", scratch.path("dangling")).expect("a link can be made");
    for (name, why) in [
        ("missing", "No such file"),
        ("dangling", "No such file"),
        ("loop", "symbolic links"),
        ("fifo", "a FIFO has no page cache"),
        ("socket", "a socket has no page cache"),
        ("/dev/null", "a character device has no page cache"),
        ("good/below", "Not a directory"),
    ] {
        let path = scratch.path(name);
        for (arguments, shown) in [
            (&[][..], "good"),
            (&["--sort", "size"], "good"),
            (&["--tree"], "good"),
        ] {
            let ended = Ended::of(files([&path, &good]).args(arguments));
            let ended = ended
                .expect(2, "one of two could not be looked at")
                .says(why, "why not");
            let told = ended.err().matches(name).count();
            assert!(
                told >= 1 && ended.err().lines().count() == 1,
                "in one line that names it: {}",
                ended.err()
            );
            assert!(
                ended.out().contains(shown),
                "the other is shown: {}",
                ended.out()
            );
        }
    }
    let ended = Ended::of(files(["/proc/self/status"].map(OsString::from)).arg(&good));
    let ended = ended
        .expect(2, "nothing is known of what the kernel makes up")
        .says("generates this file", "why not");
    assert!(ended.out().contains('?'), "it is not 0: {}", ended.out());
    let link = scratch.path("link");
    symlink("good", &link).expect("a link can be made");
    let ended = Ended::of(&mut files([&link])).expect(0, "a link leads to a file");
    assert!(
        ended.out().contains("link"),
        "under its own name: {}",
        ended.out()
    );
}

/// In a tree, entries without pages are skipped.
pub fn in_a_tree() {
    let scratch = Scratch::new();
    scratch.file("good", page_size());
    fs::write(scratch.path("empty"), "").expect("an empty file can be made");
    fs::create_dir(scratch.path("nothing")).expect("a directory can be made");
    fifo(&scratch.path("fifo"));
    let _socket = UnixListener::bind(scratch.path("socket")).expect("a socket can be made");
    symlink(".", scratch.path("loop")).expect("a link can be made");
    symlink("nowhere", scratch.path("dangling")).expect("a link can be made");
    let ended = Ended::of(&mut files([scratch.directory()])).expect(0, "these are two files");
    assert!(
        ended.out().contains("total of 2 files"),
        "and no more: {}",
        ended.out()
    );
    assert_eq!(ended.err(), "", "there is nothing to say");
    // The kernel's own file systems are no place for files, unless they are meant.
    let ended = Ended::of(files(["/proc/self/", "/"]).args(["-n", "1", "--exclude", "/[!p]*"]));
    ended.says("generates this file", "named, they are looked at");
}

/// Names are bytes: control characters are shown, and nothing is lost.
pub fn names() {
    let scratch = Scratch::new();
    let names: [&[u8]; 4] = [
        b"new\nline",
        b"\xff\xfe",
        b"\x1b[31mred",
        b"\"quoted\", \\too",
    ];
    for name in names {
        let path = scratch.path(OsString::from_vec(name.to_vec()));
        fs::write(path, "x").expect("a file may have any name");
    }
    let run = |format: &str| {
        let ended = Ended::of(files([scratch.directory()]).args(["-o", format]));
        ended.expect(0, "they are files like others")
    };
    let table = run("table").out;
    assert!(
        !table.contains(&0x1b) && !table.windows(4).any(|part| part == b"new\n"),
        "a terminal gets no control characters: {}",
        String::from_utf8_lossy(&table)
    );
    let document = document(&run("json"));
    for name in ["new\nline", "\u{1b}[31mred", "\"quoted\", \\too"] {
        row_of(&document, &scratch.path(name));
    }
    let escaped = document["rows"].as_array().expect("rows").iter();
    let escaped: Vec<&str> = escaped
        .filter(|row| row["escaped"].is_array())
        .filter_map(|row| row["path"].as_str())
        .collect();
    assert!(
        matches!(escaped[..], [path] if path.ends_with("\\xff\\xfe")),
        "what JSON cannot hold is escaped, and says so: {escaped:?}"
    );
    assert_eq!(run("jsonl").out().lines().count(), 4, "a line each");
    let csv = run("csv");
    let mut reader = csv::Reader::from_reader(&csv.out[..]);
    assert_eq!(reader.records().flatten().count(), 4, "a record each");
    for name in names {
        let path = scratch.path(OsString::from_vec(name.to_vec()));
        Ended::of(&mut files([path])).expect(0, "they can be named");
    }
}

/// A list of nothing is no good news to a script.
pub fn nothing() {
    let scratch = Scratch::new();
    scratch.file("file", page_size());
    fs::create_dir(scratch.path("empty")).expect("a directory can be made");
    for arguments in [
        &[][..],
        &["--fail-below", "0.5"],
        &["--tree"],
        &["-o", "jsonl"],
        &["--ncdu"],
    ] {
        Ended::of(files([scratch.path("empty")]).args(arguments))
            .expect(2, "an empty directory has no files")
            .says("there is no file under", "it says so")
            .says("empty", "and where");
    }
    Ended::of(files([scratch.directory()]).args(["--include", "*.nothing"]))
        .expect(2, "no file is called so")
        .says("--include", "it says what may be wrong");
    Ended::of(files([scratch.directory()]).args(["--exclude", "f*"])).expect(2, "it is left out");
}

pub fn arguments() {
    for (arguments, said) in [
        (&[][..], "--all"),
        (&["--depth", "1", "/etc"], "--tree"),
        (&["--all", "/etc"], "--all"),
        (&["--all", "-p", "1"], "--pid"),
        (&["-p", "1", "/etc"], "--pid"),
        (&["-p", "0"], "process id"),
        (&["-p", "1", "--tree"], "--tree"),
        (&["--all", "-x"], "-x"),
        (&["--all", "--map"], "--map"),
        (&["--evicted", "--tree"], "--tree"),
        (&["--evicted", "--fail-below", "0.5"], "--fail-below"),
        (&["--ncdu", "--watch", "1", "/etc"], "--watch"),
        (&["--ncdu", "/etc", "/usr"], "one PATH"),
        (&["--ncdu", "/etc/passwd"], "/etc/passwd"),
        (&["--fail-below", "1.1", "/etc"], "1.1"),
        (&["--fail-below", "-1", "/etc"], "-1"),
        (&["--fail-below", "nan", "/etc"], "nan"),
        (&["--watch", "0", "/etc"], "--watch"),
        (&["--sort", "colour", "/etc"], "colour"),
        (&["--columns", "pid", "/etc"], "`cachewise columns`"),
        (&["--columns", "sizze", "/etc"], "did you mean `size`"),
        (&["--include", "[", "/etc"], "\"[\""),
        (&["--threads", "0", "/etc"], "0"),
        (&["--top", "-1", "/etc"], "-1"),
    ] {
        let ended = Ended::of(&mut files(arguments)).expect(2, "that cannot be meant");
        assert_eq!(ended.out(), "", "{arguments:?}: there is nothing to show");
        let err = ended.err();
        assert_eq!(
            err.matches("error parsing glob").count(),
            0,
            "each reason is given once: {err}"
        );
        ended.says(said, "what is wrong");
    }
}

pub fn outputs() {
    let scratch = Scratch::new();
    scratch.file("file", page_size());
    for format in [&[][..], &["--ncdu"]] {
        Ended::of(
            files([scratch.directory()])
                .args(format)
                .args(["-o", "/dev/full"]),
        )
        .expect(2, "a full disk takes nothing")
        .says("/dev/full", "which output it was");
        Ended::of(
            files([scratch.directory()])
                .args(format)
                .args(["-o", "json=/nonexistent/x"]),
        )
        .expect(2, "there is no such directory")
        .says("/nonexistent/x", "which output it was");
    }
}

/// A walk counts what it may not open, and goes on.
pub fn no_permission() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("open")).expect("a directory can be made");
    fs::create_dir(scratch.path("open/closed")).expect("a directory can be made");
    scratch.file("open/closed/inside", page_size());
    fs::set_permissions(
        scratch.path("open/closed"),
        fs::Permissions::from_mode(0o700),
    )
    .expect("it is ours");
    let secret = scratch.file("open/secret", page_size());
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("it is ours");
    fs::write(scratch.path("open/empty"), "").expect("an empty file can be made");
    let mut command = files_as_nobody(&scratch);
    let ended = Ended::of(command.arg(scratch.path("open")))
        .expect(2, "two could not be looked at")
        .says("open/closed", "the directory")
        .says("open/secret", "and the file")
        .says("Permission denied", "and why");
    assert!(
        ended.out().contains("total of 1 file\n"),
        "the empty file can be: {}",
        ended.out()
    );
    assert_eq!(
        ended.err().lines().count(),
        2,
        "each in one line: {}",
        ended.err()
    );
    let many: Vec<_> = (0..30)
        .map(|number| scratch.path(format!("missing{number}")))
        .collect();
    let ended = Ended::of(&mut files(many)).expect(2, "none of them is there");
    assert!(
        ended.err().lines().count() <= 11,
        "thirty failures do not fill the screen: {}",
        ended.err()
    );
    ended.says("and 20 more", "how many there are");
}

pub fn read_only() {
    let scratch = Scratch::new();
    let script =
        "mount -t tmpfs none \"$0\"; echo content >\"$0/file\"; mount -o remount,ro \"$0\"";
    let elsewhere = Elsewhere::with(&scratch, "read-only", script);
    let path = elsewhere.reached().join("file");
    let ended = Ended::of(files([&path]).arg("--json")).expect(0, "to ask is to read");
    assert_eq!(
        row_of(&document(&ended), &path)["resident_pages"],
        1,
        "what was written before"
    );
}

/// Runs `asked` as long as another thread does something again and again.
fn meanwhile(disturb: impl Fn() + Sync, asked: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                disturb();
            }
        });
        // Also where an assertion fails: the thread is waited for.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&ended);
        asked();
    });
}

pub fn truncated_meanwhile() {
    let scratch = Scratch::new();
    let path = scratch.file("file", 64 * page_size());
    let disturb = || {
        let file = File::options().write(true).open(&path).expect("it is ours");
        for pages in [0, 64, 1, 1 << 20] {
            file.set_len(pages * page_size()).expect("it is sparse");
        }
    };
    meanwhile(disturb, || {
        for arguments in [
            &[][..],
            &["--map"],
            &["--histogram"],
            &["--tree"],
            &["--fail-below", "0"],
        ] {
            for _ in 0..10 {
                Ended::of(files([&path]).args(arguments))
                    .expect(0, "it has one size or another, and none is wrong");
            }
        }
    });
}

pub fn made_and_deleted_meanwhile() {
    let scratch = Scratch::new();
    let stable: Vec<_> = (0..50)
        .map(|number| scratch.file(format!("stable{number}"), 1))
        .collect();
    let disturb = || {
        let directory = scratch.path("churn");
        fs::create_dir(&directory).expect("a directory can be made");
        for number in 0..100 {
            fs::write(directory.join(number.to_string()), "x").expect("a file can be made");
        }
        fs::remove_dir_all(&directory).expect("it is ours");
    };
    meanwhile(disturb, || {
        for _ in 0..20 {
            let ended = Ended::of(files([scratch.directory()]).arg("--json"));
            let document = document(&ended.expect(0, "what vanishes is no failure"));
            for path in &stable {
                row_of(&document, path);
            }
        }
    });
}

pub fn reports_take_their_place_when_complete() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let report = scratch.path("rep.csv");
    let names = || {
        let mut names: Vec<_> = fs::read_dir(scratch.directory())
            .expect("it is ours")
            .map(|entry| entry.expect("it is there").file_name())
            .collect();
        names.sort();
        names
    };
    let of = |path: &Path, report: &Path| Ended::of(files([path]).arg("-o").arg(report));
    of(&file, &report).expect(0, "it can be written");
    let old = fs::read(&report).expect("it is there");
    assert!(
        old.starts_with(b"file_size_bytes,") && old.ends_with(b"\n"),
        "the report"
    );
    fs::set_permissions(&report, fs::Permissions::from_mode(0o640)).expect("it is ours");
    of(&scratch.path("none"), &report).expect(2, "there is no such file");
    fs::create_dir(scratch.path("empty")).expect("a directory can be made");
    of(&scratch.path("empty"), &report).expect(2, "there is no file");
    let now = fs::read(&report).expect("it is there");
    assert_eq!(now, old, "the old one stays");

    let link = scratch.path("link.csv");
    std::os::unix::fs::symlink("rep.csv", &link).expect("a link can be made");
    let other = scratch.file("other", 3 * page_size());
    of(&other, &link).expect(0, "it can be written");
    assert!(link.is_symlink(), "a link stays one");
    let now = fs::read_to_string(&report).expect("it is there");
    assert!(now.contains("/other,"), "the new one is there: {now}");
    let mode = report.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "with its mode");
    assert_eq!(
        names(),
        ["empty", "file", "link.csv", "other", "rep.csv"],
        "and nothing beside it"
    );
    let made = scratch.path("new.json");
    of(&file, &made).expect(0, "it can be written");
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    let mode = made.metadata().expect("it is there").permissions().mode();
    assert_eq!(
        mode & 0o777,
        0o666 & !umask.bits(),
        "a new one is as any new file"
    );
}

/// A link that another user planted in a directory for all leads root nowhere where the kernel forbids it, and
/// the file that it points at keeps its name, its owner and its content.
pub fn planted_links_are_not_followed() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let secret = scratch.path("secret");
    fs::write(&secret, "root's").expect("the secret");
    let everyones = scratch.path("everyones");
    fs::create_dir(&everyones).expect("a directory");
    fs::set_permissions(&everyones, fs::Permissions::from_mode(0o1777)).expect("its mode");
    let link = everyones.join("report.csv");
    symlink(&secret, &link).expect("a link");
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).expect("its owner");
    let Some(_protected) = Sysctl::set("/proc/sys/fs/protected_symlinks", "1") else {
        println!("skipped: planted links: fs.protected_symlinks cannot be set");
        return;
    };
    let reports = [
        Ended::of(files([&file]).arg("-o").arg(&link)),
        Ended::of(cachewise(["doctor", "--seconds", "0", "-o"]).arg(&link)),
        Ended::of(cachewise(["snapshot", "save"]).arg(&link).arg(&file)),
        Ended::of(cachewise(["record", "--duration", "0.1"]).arg(&link)),
    ];
    for report in reports {
        let report = report.expect(2, "the kernel refuses to follow the link");
        report.says("ermission denied", "as for any other program");
        assert_eq!(fs::read_to_string(&secret).expect("the secret"), "root's");
        assert!(link.is_symlink(), "the link stays");
    }
}

pub fn a_full_disk_leaves_the_old_report() {
    let scratch = Scratch::new();
    let script = "mount -t tmpfs -o size=64k none \"$0\"; echo old >\"$0/rep.json\"; \
                  dd if=/dev/zero of=\"$0/fill\" bs=4k 2>/dev/null || true";
    let elsewhere = Elsewhere::with(&scratch, "full", script);
    let report = elsewhere.reached().join("rep.json");
    for number in 0..200 {
        scratch.file(format!("{number:0200}"), 1);
    }
    let mut command = files([scratch.directory()]);
    Ended::of(command.arg("-o").arg(&report))
        .expect(2, "there is no room")
        .says("No space left", "which is said");
    let now = fs::read_to_string(&report).expect("it is there");
    assert_eq!(now, "old\n", "the old one stays");
}

/// A name must not look like a message of ours.
pub fn names_begin_no_lines() {
    let scratch = Scratch::new();
    let evil = scratch.path("x\ncachewise: all is well\x1b[1m");
    for arguments in [
        &["files"][..],
        &["files", "--ncdu"],
        &["warm"],
        &["evict"],
        &["lock"],
    ] {
        let ended = Ended::of(cachewise(arguments).arg(&evil)).expect(2, "there is no such file");
        let err = ended.err();
        assert!(
            err.contains(r"x\ncachewise: all is well\x1b[1m") && err.lines().count() <= 2,
            "{arguments:?}: it is one word of one line: {err:?}"
        );
        assert!(
            !err.lines().any(|line| line.starts_with("cachewise: all")),
            "{arguments:?}: {err:?}"
        );
    }
}
