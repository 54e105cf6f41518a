//! Files whose residency the kernel hides: as another user, on overlayfs, under seccomp.
//!
//! Each test runs a copy of this program as another user or in another environment, for the one ignored test, which
//! reads the residency of a given file.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::support::*;
use crate::unprivileged::{NOBODY, PublicDirectory, answer, looked_at};
use cachewise_residency::{Walk, WalkItem, map, open, query};

/// Variable with the errno that seccomp returns instead of calling cachestat.
const REFUSE: &str = "CACHEWISE_REFUSE";

#[test]
#[ignore = "only run by the tests below, inside of what they set up"]
fn look() {
    let Some(path) = looked_at() else { return };
    if let Ok(errno) = std::env::var(REFUSE) {
        refuse_cachestat(errno.parse().unwrap());
    }
    if path.is_dir() {
        return walk(&path);
    }
    let file = open(&path).unwrap();
    let ranges = map(&file, WHOLE).map(|map| map.ranges.len());
    match (query(&file, WHOLE), ranges) {
        (Ok(counts), Ok(ranges)) => answer(format_args!(
            "{} of {} in {ranges} ranges by {:?}",
            counts.cached,
            counts.total,
            counts.source()
        )),
        (Err(query), Err(map)) => {
            assert_eq!(query.unknown(), map.unknown(), "both say the same");
            answer(format_args!(
                "{} {:?}",
                query.unknown().unwrap().id(),
                query.kind()
            ));
        }
        (query, ranges) => panic!("only one knows: {query:?}, {ranges:?}"),
    }
}

/// Walks, and prints each file's name with what is known of it, and what was skipped.
fn walk(root: &Path) {
    let mut lines = BTreeSet::new();
    let summary = Walk::new([root]).threads(2).run(|found| {
        let line = match found {
            WalkItem::File(file) => {
                let known = match file.counts {
                    Ok(counts) => format!("{} of {}", counts.cached, counts.total),
                    Err(why) => why.id().to_owned(),
                };
                format!("{}: {known}", file.name.display())
            }
            WalkItem::Skipped(error) => {
                let text = error.to_string();
                let name = ["closed", "secret"]
                    .into_iter()
                    .find(|name| text.contains(name));
                format!("{}: {:?}", name.unwrap_or("?"), error.kind())
            }
        };
        assert!(lines.insert(line.clone()), "only once: {line}");
        ControlFlow::Continue(())
    });
    let lines: Vec<String> = lines.into_iter().collect();
    answer(format_args!(
        "{}; {} links",
        lines.join(", "),
        summary.links
    ));
}

fn refuse_cachestat(errno: u32) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    const CACHESTAT: i64 = 451;
    let filter = SeccompFilter::new(
        [(CACHESTAT, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter(&program).unwrap();
}

/// A file of ten pages, of which four are resident, that every user may read.
fn four_of_ten(place: &PublicDirectory) -> PathBuf {
    let path = file(place.path(), "file", 10);
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    evict(&path);
    load(&path, &[1, 2, 3, 7].into());
    path
}

/// The answer about a file or a tree; `None`, with a `skipped` line, if the environment is not available.
fn ask(
    place: &PublicDirectory,
    what: &str,
    wrapper: &[&str],
    path: &Path,
    refuse: Option<i32>,
) -> Option<String> {
    let mut command = place.command(wrapper, "refused::look", path);
    if let Some(errno) = refuse {
        command.env(REFUSE, errno.to_string());
    }
    crate::unprivileged::told(what, &mut command)
}

/// The four pages, unless a reclaimer came first.
fn is_right(answer: &str, by: &str) -> bool {
    let right = format!("4 of 10 in 2 ranges by {by}");
    answer == right
}

/// Asks again where the answer is a number that a reclaimer may have changed.
fn settle(what: &str, by: &str, mut ask: impl FnMut() -> Option<String>) {
    undisturbed(|| match ask() {
        None => Ok(()),
        Some(answer) if is_right(&answer, by) => Ok(()),
        Some(answer) => Err(format!("{what}: {answer}")),
    });
}

#[test]
fn another_users_file_is_unknown_and_never_full() {
    let place = PublicDirectory::new();
    let path = four_of_ten(&place);
    if let Some(answer) = ask(&place, "root's file for nobody", &NOBODY, &path, None) {
        assert_eq!(answer, "no_permission Denied", "mincore would say 10 of 10");
    }
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    settle("who may write the file may know", "Cachestat", || {
        load(&path, &[1, 2, 3, 7].into());
        ask(&place, "a file that nobody may write", &NOBODY, &path, None)
    });
}

#[test]
fn without_cachestat_the_owner_is_told_by_mincore() {
    let place = PublicDirectory::new();
    let path = four_of_ten(&place);
    for (what, errno) in [("an old kernel", 38), ("a seccomp profile", 1)] {
        settle(what, "Mincore", || {
            evict(&path);
            load(&path, &[1, 2, 3, 7].into());
            ask(&place, what, &["env"], &path, Some(errno))
        });
    }
}

#[test]
fn without_cachestat_nobody_is_told_why() {
    let place = PublicDirectory::new();
    let path = four_of_ten(&place);
    for (what, errno, answer) in [
        ("an old kernel", 38, "no_syscall Unsupported"),
        ("a seccomp profile", 1, "seccomp Unsupported"),
    ] {
        if let Some(found) = ask(&place, what, &NOBODY, &path, Some(errno)) {
            assert_eq!(found, answer, "{what}: mincore would say 10 of 10");
        }
    }
}

#[test]
fn overlayfs_is_seen_through_by_its_owner_only() {
    let place = PublicDirectory::new();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(place.path().join(name)).unwrap();
    }
    let lower = file(&place.path().join("lower"), "file", 10);
    std::fs::set_permissions(&lower, Permissions::from_mode(0o644)).unwrap();
    let script = "cd \"$0\" && mount -t overlay overlay \
                  -o lowerdir=lower,upperdir=upper,workdir=work merged && exec \"$@\"";
    let root = place.path().to_str().unwrap();
    let mounted = ["unshare", "-m", "sh", "-c", script, root];
    let merged = place.path().join("merged/file");
    settle("the lower file's pages", "Mincore", || {
        evict(&lower);
        load(&lower, &[1, 2, 3, 7].into());
        ask(&place, "overlayfs for root", &mounted, &merged, None)
    });
    let nobody: Vec<&str> = mounted.into_iter().chain(NOBODY).collect();
    if let Some(answer) = ask(&place, "overlayfs for nobody", &nobody, &merged, None) {
        assert_eq!(answer, "no_permission Denied", "neither 0 nor 10 of 10");
    }
}

#[test]
fn a_walk_goes_on_where_it_is_refused() {
    let place = PublicDirectory::new();
    let tree = place.path().join("tree");
    let make = |name: &str, mode| {
        let path = tree.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let path = file(&tree, name, 2);
        load(&path, &[0, 1].into());
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    make("open", 0o666);
    make("readable", 0o644);
    make("secret", 0o600);
    make("closed/hidden", 0o666);
    std::fs::set_permissions(tree.join("closed"), Permissions::from_mode(0o700)).unwrap();
    undisturbed(|| {
        load(&tree.join("open"), &[0, 1].into());
        let Some(answer) = ask(&place, "a walk as nobody", &NOBODY, &tree, None) else {
            return Ok(());
        };
        match answer
            == "closed: Denied, open: 2 of 2, readable: no_permission, secret: Denied; 0 links"
        {
            true => Ok(()),
            false => Err(answer),
        }
    });
}

#[test]
fn a_walk_on_overlayfs_sees_through_and_knows_links() {
    let place = PublicDirectory::new();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(place.path().join(name)).unwrap();
    }
    let lower = place.path().join("lower");
    let one = file(&lower, "one", 10);
    file(&place.path().join("upper"), "two", 3);
    std::fs::hard_link(&one, lower.join("one again")).unwrap();
    let script = "cd \"$0\" && mount -t overlay overlay \
                  -o lowerdir=lower,upperdir=upper,workdir=work merged && exec \"$@\"";
    let root = place.path().to_str().unwrap();
    let mounted = ["unshare", "-m", "sh", "-c", script, root];
    let merged = place.path().join("merged");
    undisturbed(|| {
        evict(&one);
        load(&one, &[1, 2, 3, 7].into());
        load(&place.path().join("upper/two"), &[0, 1, 2].into());
        let Some(answer) = ask(&place, "a walk on overlayfs", &mounted, &merged, None) else {
            return Ok(());
        };
        let is_right = [
            "one: 4 of 10, two: 3 of 3; 1 links",
            "one again: 4 of 10, two: 3 of 3; 1 links",
        ]
        .contains(&answer.as_str());
        match is_right {
            true => Ok(()),
            false => Err(answer),
        }
    });
}

#[test]
fn a_walk_makes_do_with_few_descriptors() {
    let place = PublicDirectory::new();
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for number in 0..200 {
        File::create(tree.join(format!("{number}"))).unwrap();
    }
    let few = ["prlimit", "--nofile=24"];
    if let Some(answer) = ask(&place, "a walk with 24 descriptors", &few, &tree, None) {
        assert!(
            answer.matches(": 0 of 0").count() == 200 && !answer.contains("Other"),
            "every file: {answer}"
        );
    }
}

#[test]
fn a_descriptor_from_the_owner_tells_only_if_it_may_write() {
    // The program inherits its standard input; what counts is how that was opened.
    let place = PublicDirectory::new();
    let path = four_of_ten(&place);
    let ask = |file: File| {
        let mut command = place.command(&NOBODY, "refused::look_at_stdin", Path::new("stdin"));
        crate::unprivileged::told("an inherited descriptor", command.stdin(file))
    };
    let Some(answer) = ask(File::open(&path).unwrap()) else {
        return;
    };
    assert_eq!(answer, "no_permission", "for reading");
    undisturbed(|| {
        evict(&path);
        load(&path, &[1, 2, 3, 7].into());
        let writable = File::options().read(true).write(true).open(&path).unwrap();
        let answer = ask(writable).unwrap();
        // mincore has its own rule and calls all of them resident: the map must not believe it.
        match answer == "4 in 2 ranges" {
            true => Ok(()),
            false => Err(answer),
        }
    });
    let mut byte = [0];
    File::open(&path)
        .unwrap()
        .read_exact_at(&mut byte, 0)
        .unwrap();
}

#[test]
#[ignore = "only run by the test above"]
fn look_at_stdin() {
    if looked_at().is_none() {
        return;
    }
    let stdin = std::io::stdin();
    match query(&stdin, WHOLE) {
        Ok(counts) => {
            let ranges = map(&stdin, WHOLE).unwrap().ranges.len();
            answer(format_args!("{} in {ranges} ranges", counts.cached));
        }
        Err(error) => answer(format_args!("{}", error.unknown().unwrap().id())),
    }
}
