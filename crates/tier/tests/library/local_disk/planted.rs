//! Private directories: modes, owners, and links that another user has planted.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use cachewise_tier::{BlockCache, Error};

use super::{on_disk, open};
use crate::support::{BLOCK, Files, read_through};

/// The unprivileged user `nobody` of every distribution.
const OTHER: u32 = 65_534;

const SEGMENT: &str = "blocks/foyer-storage-direct-fs-00000001";

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

/// The files of a cache, directories left out.
fn files_of(cache: &Path) -> Vec<PathBuf> {
    let blocks = fs::read_dir(cache.join("blocks")).expect("it is there");
    let mut files: Vec<_> = blocks.map(|entry| entry.expect("listed").path()).collect();
    files.push(cache.join("cachewise.lock"));
    files
}

fn assert_private(cache: &Path) {
    for directory in [cache, &cache.join("blocks")] {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    let files = files_of(cache);
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A cache with blocks in it, which no process holds.
async fn made(cache: &Path, files: &Files) {
    let first = open(cache, files).await;
    read_through(&first, files).await;
    first.close().await.expect("it closes");
}

async fn refused(cache: &Path, files: &Files, why: &str) {
    let error = BlockCache::open(on_disk(cache), files.origin())
        .await
        .expect_err("it is refused");
    let text = error.to_string();
    assert!(matches!(error, Error::Directory { .. }), "{text}");
    assert!(text.contains(why), "{why}: {text}");
    assert!(text.contains("name a directory of your own"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_can_read_the_cache() {
    let files = Files::new(2, BLOCK);
    let scratch = tempfile::tempdir().expect("made");
    let cache = scratch.path().join("made/with/parents");
    made(&cache, &files).await;
    assert_private(&cache);
    assert_eq!(mode(&scratch.path().join("made")), 0o700, "parents as well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_of_an_older_version_is_tightened_and_keeps_its_blocks() {
    let files = Files::new(2, BLOCK);
    let scratch = tempfile::tempdir().expect("made");
    let cache = scratch.path().join("cache");
    made(&cache, &files).await;
    for directory in [&cache, &cache.join("blocks")] {
        set_mode(directory, 0o775);
    }
    for file in files_of(&cache) {
        set_mode(&file, 0o664);
    }
    let second = open(&cache, &files).await;
    read_through(&second, &files).await;
    let table = second.table();
    assert_eq!(
        super::row(&table, cachewise_tier::Tier::Origin).calls,
        0,
        "{table:?}"
    );
    assert_private(&cache);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_other_files_keeps_its_mode() {
    let files = Files::new(2, BLOCK);
    let scratch = tempfile::tempdir().expect("made");
    fs::write(scratch.path().join("other"), "other").expect("written");
    set_mode(scratch.path(), 0o755);
    made(scratch.path(), &files).await;
    assert_eq!(mode(scratch.path()), 0o755, "others may need it");
    assert_eq!(mode(&scratch.path().join("blocks")), 0o700, "ours alone");
    set_mode(scratch.path(), 0o777);
    refused(scratch.path(), &files, "other users can write to it").await;
    assert_eq!(mode(scratch.path()), 0o777, "left as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_links_are_refused_and_their_targets_stay_as_they_were() {
    let files = Files::new(2, BLOCK);
    let scratch = tempfile::tempdir().expect("made");
    let precious = scratch.path().join("precious");
    fs::write(&precious, "precious").expect("written");
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let cache = scratch.path().join("cache");
    for (name, why) in [
        (SEGMENT, "symbolic link"),
        ("cachewise.lock", "symbolic link"),
        (SEGMENT, "2 names (hard links)"),
        ("cachewise.lock", "2 names (hard links)"),
        (SEGMENT, "a FIFO"),
        ("cachewise.lock", "a directory"),
        ("blocks", "symbolic link"),
        ("blocks", "not a directory"),
    ] {
        made(&cache, &files).await;
        let planted = cache.join(name);
        if planted.is_dir() {
            fs::remove_dir_all(&planted).expect("ours");
        } else {
            fs::remove_file(&planted).expect("ours");
        }
        match (why, name) {
            ("symbolic link", "blocks") => symlink(&elsewhere, &planted).expect("linked"),
            ("symbolic link", _) => symlink(&precious, &planted).expect("linked"),
            ("a FIFO", _) => {
                let mode = rustix::fs::Mode::RWXU;
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &planted,
                    rustix::fs::FileType::Fifo,
                    mode,
                    0,
                )
                .expect("made");
            }
            ("a directory", _) => fs::create_dir(&planted).expect("made"),
            ("not a directory", _) => fs::write(&planted, "file").expect("written"),
            _ => fs::hard_link(&precious, &planted).expect("linked"),
        }
        refused(&cache, &files, why).await;
        let text = fs::read_to_string(&precious).expect("it is there");
        assert_eq!(text, "precious", "{name}: {why}");
        let inside = fs::read_dir(&elsewhere).expect("it is there").count();
        assert_eq!(inside, 0, "{name}: {why}");
        fs::remove_dir_all(&cache).expect("ours");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_and_files_of_another_user_are_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: --disk of another user: it takes root to give files away");
        return;
    }
    let files = Files::new(2, BLOCK);
    let scratch = tempfile::tempdir().expect("made");
    let cache = scratch.path().join("cache");
    for name in ["", "blocks", "cachewise.lock", SEGMENT] {
        made(&cache, &files).await;
        let given = cache.join(name);
        chown(&given, Some(OTHER), None).expect("we are root");
        refused(&cache, &files, "belongs to user 65534").await;
        let owner = fs::metadata(&given).expect("it is there").uid();
        assert_eq!(owner, OTHER, "left as it was");
        fs::remove_dir_all(&cache).expect("ours");
    }
    // A link in front of a directory of ours, which another user made.
    let target = scratch.path().join("target");
    fs::create_dir(&target).expect("made");
    symlink(&target, &cache).expect("linked");
    made(&cache, &files).await;
    rustix::fs::chownat(
        rustix::fs::CWD,
        &cache,
        Some(rustix::process::Uid::from_raw(OTHER)),
        None,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )
    .expect("we are root");
    refused(&cache, &files, "symbolic link").await;
}
