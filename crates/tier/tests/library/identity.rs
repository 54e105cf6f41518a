//! The identity of an origin in the keys of blocks: machine, file system, path, or a name instead of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{BLOCK, Files, WHOLE, bytes_of, forgetful, row};
use cachewise_tier::{BlockCache, Directory, DirectoryOptions, Origin, Settings, Tier};
use cachewise_units::Bytes;

fn options(machine: &str, identity: Option<&str>) -> DirectoryOptions {
    DirectoryOptions {
        identity: identity.map(str::to_owned),
        machine: Some(machine.to_owned()),
    }
}

/// Reads all files through a cache on this disk, and returns how many blocks came from the disk.
async fn disk_hits(files: &Files, disk: &Path, options: &DirectoryOptions) -> u64 {
    let settings = Settings {
        disk: Some(disk.to_owned()),
        disk_size: Bytes(64 << 20),
        // Other tests keep the disk busy meanwhile, and a late block would come from the origin.
        disk_deadline: std::time::Duration::from_secs(30),
        ..forgetful(None)
    };
    let origin = Directory::open_with(files.directory.path(), options).expect("it opens");
    let cache = BlockCache::open(settings, Arc::new(origin));
    let cache = cache.await.expect("it opens");
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("it can be read");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    cache.close().await.expect("it closes");
    row(&cache.table(), Tier::Disk).hits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_share_blocks_by_a_name_alone() {
    let files = Files::new(5, BLOCK);
    let disk = tempfile::tempdir().expect("made");
    let disk = disk.path();
    for (machine, name, hits, why) in [
        ("one", None, 0, "the disk is empty"),
        ("one", None, 5, "the same machine meets its own blocks"),
        (
            "two",
            None,
            0,
            "another machine's directory may be another one",
        ),
        ("one", Some("ours"), 0, "a name is another identity"),
        ("two", Some("ours"), 5, "machines share by a name"),
        ("two", Some("other"), 0, "another name"),
    ] {
        let found = disk_hits(&files, disk, &options(machine, name)).await;
        assert_eq!(found, hits, "{machine}, {name:?}: {why}");
    }
}

#[test]
fn identity_without_options_is_that_of_this_machine() {
    let files = Files::new(1, BLOCK);
    let open = |options: &DirectoryOptions| {
        let origin = Directory::open_with(files.directory.path(), options).expect("it opens");
        origin.identity().to_owned()
    };
    let usual = open(&DirectoryOptions::default());
    assert_eq!(usual, files.origin().identity(), "the default");
    assert_eq!(
        usual,
        open(&DirectoryOptions::default()),
        "the same each time"
    );
    assert_ne!(
        usual,
        open(&options("another", None)),
        "the machine is in it"
    );
}

/// A file system on a loop device; unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).expect("made");
        // XFS refuses a second image with the same UUID, and these have others.
        let status = Command::new("mount")
            .args(["-o", "loop"])
            .arg(image)
            .arg(at)
            .status();
        status
            .is_ok_and(|status| status.success())
            .then(|| Self(at.to_owned()))
    }

    fn end(self) {
        drop(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// An image of a file system, if its program is there.
fn image(directory: &Path, name: &str, kind: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    let file = std::fs::File::create(&path).expect("made");
    file.set_len(320 << 20).expect("a sparse file");
    let made = Command::new(format!("mkfs.{kind}"))
        .arg("-q")
        .arg(&path)
        .output();
    made.is_ok_and(|output| output.status.success())
        .then_some(path)
}

#[test]
fn identity_lasts_over_remounts_and_differs_between_images() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: identities of images: mounting needs root");
        return;
    }
    let scratch = tempfile::tempdir().expect("made");
    let at = scratch.path().join("mnt");
    for kind in ["ext4", "xfs"] {
        let made = |name: &str| image(scratch.path(), &format!("{name}.{kind}"), kind);
        let (Some(one), Some(other)) = (made("one"), made("other")) else {
            println!("skipped: identities of images: mkfs.{kind} is not installed");
            continue;
        };
        let identity = |image: &Path| {
            let mounted = Mounted::new(image, &at)?;
            let identity = Directory::open(&at)
                .expect("it opens")
                .identity()
                .to_owned();
            mounted.end();
            Some(identity)
        };
        let (Some(first), Some(second)) = (identity(&one), identity(&other)) else {
            println!("skipped: identities of images: {kind} cannot be mounted");
            continue;
        };
        assert_ne!(first, second, "{kind}: another image at the same path");
        // With this one mounted, the next one gets another device.
        let decoy = Mounted::new(&other, &scratch.path().join("decoy"));
        assert!(decoy.is_some(), "{kind}: it was mounted before");
        assert_eq!(identity(&one), Some(first), "{kind}: the same image again");
    }
}
