//! A walk finds each file once, says what of it is resident, and trips over nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use cachewise_residency::{Counts, Summary, Tree, Unknown, Walk, WalkItem};
use cachewise_sys::{ErrorKind, FileKind};
use cachewise_units::{Bytes, Pages};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Result of a walk.
#[derive(Debug, Default)]
struct Result {
    files: BTreeMap<PathBuf, std::result::Result<Counts, Unknown>>,
    sizes: BTreeMap<PathBuf, Bytes>,
    skipped: Vec<(ErrorKind, Option<Unknown>, String)>,
    summary: Summary,
}

impl Result {
    fn of(walk: Walk) -> Self {
        let mut result = Self::default();
        result.summary = walk.run(|found| {
            match found {
                WalkItem::File(file) => {
                    let before = result.files.insert(file.path(), file.counts);
                    assert!(before.is_none(), "{} is met once", file.path().display());
                    result.sizes.insert(file.path(), file.size);
                }
                WalkItem::Skipped(error) => {
                    let text = error.to_string();
                    result.skipped.push((error.kind(), error.unknown(), text));
                }
            }
            ControlFlow::Continue(())
        });
        assert_eq!(
            result.summary.files,
            result.files.len() as u64,
            "as many as were handed over"
        );
        assert_eq!(
            result.summary.vanished + result.summary.failed,
            result.skipped.len() as u64,
            "and so it is with what was skipped"
        );
        result
    }

    fn names(&self) -> Vec<&str> {
        self.files
            .keys()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect()
    }
}

fn make(directory: &Path, names: &[&str]) {
    for name in names {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

#[test]
fn each_file_is_told_to_the_page() {
    let root = directory();
    let mut expected = BTreeMap::new();
    for number in 0..60_u64 {
        let below = root.path().join(format!("{}/{}", number % 3, number % 7));
        fs::create_dir_all(&below).unwrap();
        let path = file(&below, &format!("file-{number}"), 1 + number);
        let loaded: BTreeSet<u64> = random(number, 1 + number).take(5).collect();
        expected.insert(path, (1 + number, loaded));
    }
    for threads in [1, 2, 5] {
        undisturbed(|| {
            for (path, (_, loaded)) in &expected {
                evict(path);
                load(path, loaded);
            }
            let result = Result::of(Walk::new([root.path()]).threads(threads));
            assert_eq!(result.files.len(), expected.len(), "every file");
            for (path, (pages, loaded)) in &expected {
                let counts = result.files[path].unwrap();
                assert_eq!(counts.total, Pages(*pages), "{}", path.display());
                assert_eq!(
                    result.sizes[path],
                    Bytes(bytes(*pages) - 1),
                    "{}",
                    path.display()
                );
                if counts.cached.0 != loaded.len() as u64 {
                    return Err(format!("{}: {loaded:?}, {counts:?}", path.display()));
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_large_directory_is_shared_and_told_once() {
    const FILES: usize = 5000;
    let root = directory();
    for number in 0..FILES {
        File::create(
            root.path()
                .join(format!("a file with a longer name {number}")),
        )
        .unwrap();
    }
    for threads in [1, 4] {
        let result = Result::of(Walk::new([root.path()]).threads(threads));
        assert_eq!(result.files.len(), FILES, "by {threads} threads");
        assert_eq!(result.summary.directories, 1, "in one directory");
    }
}

#[test]
fn names_of_one_file_are_one_file() {
    let root = directory();
    make(root.path(), &["a/one", "b/other"]);
    fs::hard_link(root.path().join("a/one"), root.path().join("a/two")).unwrap();
    fs::hard_link(root.path().join("a/one"), root.path().join("b/three")).unwrap();
    let result = Result::of(Walk::new([root.path()]));
    assert_eq!(result.files.len(), 2, "two files: {:?}", result.files);
    assert_eq!(result.summary.links, 2, "and two names more");
}

#[test]
fn file_below_several_roots_is_listed_once() {
    let root = directory();
    make(root.path(), &["a/b/x", "a/y", "z"]);
    let at = |name| root.path().join(name);
    let roots = [
        at("a/b/x"),
        at("a/b"),
        root.path().to_owned(),
        at("a"),
        at("z"),
        at("z"),
        at("./a/../z"),
    ];
    let result = Result::of(Walk::new(roots).threads(2));
    let names: BTreeSet<&str> = result.names().into_iter().collect();
    assert_eq!(names, ["x", "y", "z"].into(), "each of the files");
    assert_eq!(result.files.len(), 3, "by one path");
}

#[test]
fn links_are_not_followed_but_for_roots() {
    let root = directory();
    make(root.path(), &["real/file", "elsewhere/hidden"]);
    let at = |name: &str| root.path().join(name);
    symlink(at("real"), at("real/loop")).unwrap();
    symlink("self", at("real/self")).unwrap();
    symlink(at("elsewhere"), at("real/away")).unwrap();
    symlink(at("elsewhere/hidden"), at("real/hidden")).unwrap();
    symlink(at("real"), at("link")).unwrap();
    symlink(at("real/file"), at("file link")).unwrap();
    let result = Result::of(Walk::new([at("link")]));
    assert_eq!(
        result.files.keys().collect::<Vec<_>>(),
        [&at("link/file")],
        "what the root leads to, under the root's name"
    );
    assert_eq!(result.summary.special, 4, "the links in it");
    let result = Result::of(Walk::new([at("file link")]));
    assert_eq!(result.names(), ["file link"], "a root that links to a file");
    let result = Result::of(Walk::new([at("real/self")]));
    assert_eq!(result.summary.failed, 1, "a loop leads nowhere: {result:?}");
}

#[test]
fn names_are_bytes() {
    let root = directory();
    let names: [&[u8]; 4] = [b"new\nline", b"\xff\xfe", b" ", b"-rf"];
    let directory = root.path().join(OsStr::from_bytes(b"sub\xf0\n"));
    fs::create_dir(&directory).unwrap();
    let expected: BTreeSet<PathBuf> = names
        .iter()
        .map(|name| directory.join(OsStr::from_bytes(name)))
        .collect();
    for path in &expected {
        fs::write(path, "content").unwrap();
    }
    let result = Result::of(Walk::new([root.path()]));
    let found: BTreeSet<PathBuf> = result.files.keys().cloned().collect();
    assert_eq!(found, expected, "and come back as they are");
}

#[test]
fn file_without_pages_is_counted_and_not_opened() {
    let root = directory();
    make(root.path(), &["file"]);
    let fifo = root.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    let socket = root.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let result = Result::of(Walk::new([root.path()]));
    assert_eq!(result.names(), ["file"], "the regular file alone");
    assert_eq!(result.summary.special, 2, "a FIFO and a socket");

    let missing = root.path().join("missing");
    let null = PathBuf::from("/dev/null");
    let result = Result::of(Walk::new([&fifo, &socket, &null, &missing]).threads(1));
    assert_eq!(result.files.len(), 0, "no file: {result:?}");
    let kinds: Vec<Option<Unknown>> = result.skipped.iter().map(|skip| skip.1).collect();
    assert_eq!(
        kinds,
        [
            Some(Unknown::NotAFile(FileKind::Fifo)),
            Some(Unknown::NotAFile(FileKind::Socket)),
            Some(Unknown::NotAFile(FileKind::CharacterDevice)),
            None
        ],
        "as roots they are refused by kind, in order"
    );
    assert_eq!(result.skipped[3].0, ErrorKind::NotFound, "or not there");
    for (path, (_, _, text)) in [&fifo, &socket, &null, &missing]
        .iter()
        .zip(&result.skipped)
    {
        assert!(text.contains(path.to_str().unwrap()), "named: {text}");
    }
}

#[test]
fn files_that_the_kernel_makes_up_are_unknown() {
    let result = Result::of(Walk::new(["/proc/self/status", "/proc/sys/kernel"]));
    assert!(result.files.len() > 10, "they are files: {result:?}");
    for (path, counts) in &result.files {
        assert!(
            matches!(counts, Err(Unknown::MadeUp | Unknown::NoPermission)),
            "{}: {counts:?}",
            path.display()
        );
    }
    let unknown: u64 = result.summary.unknown.values().sum();
    assert_eq!(unknown, result.summary.files, "each has its reason");
}

#[test]
fn walk_of_empty_directory_finds_nothing() {
    let root = directory();
    let result = Result::of(Walk::new([root.path()]));
    assert_eq!(
        (result.summary.files, result.summary.directories),
        (0, 1),
        "an empty directory"
    );
    let result = Result::of(Walk::new(Vec::<PathBuf>::new()).threads(3));
    assert_eq!(result.summary, Summary::default(), "no roots at all");
}

#[test]
fn patterns_choose() {
    let root = directory();
    make(
        root.path(),
        &["a.so", "b.txt", "lib/c.so", "lib/old/d.so", "cache/e.so"],
    );
    let walk = || Walk::new([root.path()]);
    let chosen = Result::of(
        walk()
            .include("*.so")
            .unwrap()
            .exclude("lib/old")
            .unwrap()
            .exclude("cache")
            .unwrap(),
    );
    assert_eq!(
        chosen.names(),
        ["a.so", "c.so"],
        "the names, less the directories"
    );
    assert_eq!(
        (chosen.summary.excluded, chosen.summary.directories),
        (3, 2),
        "a file and two directories are left out, which are not looked into"
    );
    let chosen = Result::of(walk().include("lib/**").unwrap());
    assert_eq!(chosen.names(), ["c.so", "d.so"], "by path");
    let file = root.path().join("b.txt");
    let chosen = Result::of(Walk::new([&file]).include("*.so").unwrap());
    assert_eq!(chosen.files.len(), 0, "also of roots");
    assert!(walk().exclude("a[").is_err(), "a pattern that is none");
}

#[test]
fn one_file_system_stays_there() {
    let shm = Path::new("/dev/shm");
    let is_mounted = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        device(path) != device(path.parent().unwrap())
    };
    if !shm.is_dir() || !is_mounted(shm) {
        println!("skipped: staying on one file system: /dev/shm is not mounted");
        return;
    }
    let file = tempfile::NamedTempFile::new_in(shm).unwrap();
    let finds = |walk: Walk| Result::of(walk).files.contains_key(file.path());
    assert!(finds(Walk::new(["/dev"])), "another one is walked into");
    let stay = Walk::new(["/dev"]).one_file_system(true);
    assert!(!finds(stay.clone()), "unless told to stay");
    assert!(Result::of(stay).summary.elsewhere > 0, "which is counted");
    let stay = Walk::new(["/dev", "/dev/shm"]).one_file_system(true);
    assert!(finds(stay), "a root of its own stays on its own");
}

#[test]
fn stable_files_are_found_while_others_come_and_go() {
    let root = directory();
    let stable: Vec<String> = (0..200)
        .map(|number| format!("{}/{number}", number % 9))
        .collect();
    make(
        root.path(),
        &stable.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (root, stop) = (root.path(), &stop);
            scope.spawn(move || {
                for number in (0..500).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let path = root.join(format!("{}/churn-{thread}-{number}", number % 9));
                    fs::write(&path, "content").unwrap();
                    let moved = root.join(format!("{}/moved-{thread}", number % 7));
                    fs::rename(&path, &moved).unwrap();
                    let below = root.join(format!("dir-{thread}-{}", number % 5));
                    let _ = fs::create_dir(&below);
                    let _ = fs::write(below.join("x"), "");
                    fs::remove_dir_all(below).unwrap();
                    fs::remove_file(moved).unwrap();
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut vanished = 0;
        for walks in 0.. {
            if walks >= 40 && vanished > 0 || walks >= 2000 {
                break;
            }
            let mut found = BTreeSet::new();
            let summary = Walk::new([root.path()]).threads(2).run(|item| {
                match item {
                    WalkItem::File(file) => drop(found.insert(file.path())),
                    WalkItem::Skipped(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound, "only gone: {error}");
                    }
                }
                ControlFlow::Continue(())
            });
            vanished += summary.vanished;
            for name in &stable {
                assert!(found.contains(&root.path().join(name)), "{name} was there");
            }
        }
        assert!(vanished > 0, "some went between name and file");
    });
}

#[test]
fn paths_may_be_longer_than_the_kernel_takes() {
    use rustix::fs::{OFlags, mkdirat, openat};
    let root = directory();
    let name = "a directory with a long name ".repeat(7);
    let mut below = rustix::fs::open(root.path(), OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..30 {
        mkdirat(&below, &name, Mode::RWXU).unwrap();
        // One beside it, that waits.
        mkdirat(&below, "beside", Mode::RWXU).unwrap();
        below = openat(&below, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    openat(&below, "file", OFlags::CREATE | OFlags::RDWR, Mode::RUSR).unwrap();
    for threads in [1, 2] {
        let result = Result::of(Walk::new([root.path()]).threads(threads));
        assert_eq!(result.names(), ["file"], "reached step by step");
        assert_eq!(result.summary.directories, 61, "through all of them");
    }
}

#[test]
fn a_walk_can_be_broken_off() {
    let root = directory();
    let names: Vec<String> = (0..3000)
        .map(|number| format!("{}/{number}", number % 50))
        .collect();
    make(
        root.path(),
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut calls = 0;
    Walk::new([root.path()]).threads(3).run(|_| {
        calls += 1;
        match calls {
            10 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(calls, 10, "and is not heard of any more");
    let panicked = std::panic::catch_unwind(|| {
        Walk::new([root.path()])
            .threads(3)
            .run(|_| std::panic::resume_unwind(Box::new("the caller fails")));
    });
    assert!(panicked.is_err(), "nor does it hang when the caller fails");
}

#[test]
fn a_tree_sums_up_what_is_below() {
    let root = directory();
    make(root.path(), &["a/b/one", "a/b/two", "a/three", "four"]);
    let mut tree = Tree::new(1);
    Walk::new([root.path()]).run(|found| {
        if let WalkItem::File(file) = found {
            tree.add(&file);
        }
        ControlFlow::Continue(())
    });
    let sums: Vec<(PathBuf, u64, Pages)> = tree
        .into_directories()
        .into_iter()
        .map(|directory| {
            (
                directory.path,
                directory.sum.files,
                directory.sum.counts.total,
            )
        })
        .collect();
    assert_eq!(
        sums,
        [
            (root.path().to_owned(), 4, Pages(4)),
            (root.path().join("a"), 3, Pages(3)),
        ],
        "each file has a page"
    );
}

#[test]
fn looking_into_a_directory_leaves_its_access_time_alone() {
    use std::os::unix::fs::MetadataExt;
    let root = directory();
    make(root.path(), &["file"]);
    let old = fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
    File::open(root.path()).unwrap().set_times(old).unwrap();
    Result::of(Walk::new([root.path()]));
    let atime = fs::metadata(root.path()).unwrap().atime();
    assert_eq!(atime, 0, "reading it is an access, too, but not this time");
}
