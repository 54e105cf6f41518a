//! The identity of files: file systems that have the same device number one after the other, that are unmounted before the
//! report, and files that get their names later.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use rustix::fs::{Advice, AtFlags, CWD, Mode, OFlags, linkat, open};

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{FileId, FileInfo, Snapshot};

use crate::image::{FileSystem, Loop, Mounted, NotMounted, make_ext4, make_squashfs};
use crate::oracle::page_size;
use crate::problem::{Context, Problem, Result};
use crate::stand::{Room, trial};

const PAGES: u64 = 16;
/// Addresses in the kernel's memory come again by chance.
const TIMES: usize = 12;

/// The trials. None of this depends on the file system of the room.
pub fn trials() -> Vec<Trial> {
    vec![
        trial(
            FileSystem::Ext4,
            "two_squashfs_images_on_one_loop_number_are_two_files",
            |room| images(room, Image::Squashfs),
        ),
        trial(
            FileSystem::Ext4,
            "two_copies_of_an_ext4_image_on_one_loop_number_are_two_files",
            |room| images(room, Image::Ext4),
        ),
        trial(
            FileSystem::Ext4,
            "a_file_system_mounted_twice_has_one_row_a_file_and_no_refaults",
            mounted_twice,
        ),
        trial(
            FileSystem::Ext4,
            "a_copied_up_file_has_its_final_name",
            copy_up,
        ),
        trial(
            FileSystem::Ext4,
            "a_linked_temporary_file_has_its_name",
            temporary_file,
        ),
    ]
}

/// The content of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    Squashfs,
    Ext4,
}

impl Image {
    fn make(self, source: &Path, image: &Path) -> std::result::Result<(), NotMounted> {
        match self {
            Image::Squashfs => make_squashfs(source, image),
            Image::Ext4 => make_ext4(source, image),
        }
    }
}

/// Two images of one file each, and where they are to be mounted.
fn two_images(room: &Room, kind: Image) -> Result<Option<[(PathBuf, PathBuf); 2]>> {
    let mut images = Vec::new();
    for name in ["a", "b"] {
        let [source, image, directory] =
            [".source", ".image", ""].map(|end| room.path(&format!("{name}{end}")));
        for directory in [&source, &directory] {
            fs::create_dir(directory).context("make a directory")?;
        }
        let data: Vec<u8> = (0..PAGES * page_size())
            .map(|at| (at / 7 + at) as u8)
            .collect();
        fs::write(source.join("data"), data).context("write the data")?;
        match (images.first(), kind) {
            // Down to its UUID.
            (Some((first, _)), Image::Ext4) => {
                fs::copy(first, &image).context("copy the image")?;
            }
            _ => match kind.make(&source, &image) {
                Ok(()) => {}
                Err(NotMounted::Missing(reason)) => {
                    println!("\nskipped: two images on one loop device: {reason}");
                    return Ok(None);
                }
                Err(NotMounted::Failed(problem)) => return Err(problem),
            },
        }
        images.push((image, directory));
    }
    Ok(images.try_into().ok())
}

/// The rows of a file by its number, those of all processes together.
fn rows_of(
    snapshot: &Snapshot,
    (major, minor, inode): (u32, u32, u64),
) -> BTreeMap<FileId, Ledger> {
    let mut rows: BTreeMap<FileId, Ledger> = BTreeMap::new();
    for row in &snapshot.rows {
        if let Some(file) = row.file
            && (file.major, file.minor, file.inode) == (major, minor, inode)
        {
            *rows.entry(file).or_default() += &row.ledger;
        }
    }
    rows
}

fn number_of(path: &Path) -> Result<(u32, u32, u64)> {
    let stat = fs::metadata(path).context("stat")?;
    let device = stat.dev();
    Ok((
        rustix::fs::major(device),
        rustix::fs::minor(device),
        stat.ino(),
    ))
}

fn images(room: &mut Room, kind: Image) -> Result<()> {
    let Some(images) = two_images(room, kind)? else {
        return Ok(());
    };
    // Where another process takes the device in between it is begun again.
    for _ in 0..5 {
        if one_after_the_other(room, &images)? {
            return Ok(());
        }
    }
    Err(Problem::new("other processes took the device each time"))
}

fn one_after_the_other(room: &mut Room, images: &[(PathBuf, PathBuf); 2]) -> Result<bool> {
    let known = room.stand.snapshot()?.files;
    let mut number = None;
    let mut device: Option<Loop> = None;
    for time in 0..TIMES {
        let (image, directory) = &images[time % 2];
        match &mut device {
            Some(device) => {
                if !device.change(image)? {
                    return Ok(false);
                }
            }
            None => device = Some(Loop::attach(image)?),
        }
        let Some(device) = &device else {
            return Err(Problem::new("there is no device"));
        };
        let mounted = Mounted::read_only(device.path(), directory)?;
        let path = mounted.directory().join("data");
        let found = number_of(&path)?;
        assert_eq!(
            *number.get_or_insert(found),
            found,
            "both are the same by stat(2)"
        );
        fs::read(&path).context("read the file")?;
        if time % 4 >= 2 {
            // Then nothing of it is in the cache when it is unmounted.
            let file = File::open(&path).context("open the file")?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).context("fadvise")?;
        }
    }
    drop(device);
    let snapshot = room.stand.snapshot()?;
    let mut rows = rows_of(&snapshot, number.unwrap_or_default());
    rows.retain(|id, _| !known.contains_key(id));
    let bytes_seen: Vec<u64> = rows
        .values()
        .map(|row| row[Counter::ReadRequestedPages])
        .collect();
    assert_eq!(
        bytes_seen,
        vec![PAGES; TIMES],
        "each time it is another file, read once"
    );
    let names: HashSet<(PathBuf, usize)> = images
        .iter()
        .map(|(_, directory)| (directory.join("data"), TIMES / 2))
        .collect();
    let mut counted: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (id, row) in &rows {
        assert_eq!(row[Counter::RefaultPages], 0, "nothing has come back");
        let info = &snapshot.files[id];
        let path = info.path.clone().unwrap_or_default();
        *counted.entry(path).or_default() += 1;
        assert!(info.file_system.is_some(), "and what it was on is known");
    }
    assert_eq!(
        counted.into_iter().collect::<HashSet<_>>(),
        names,
        "each has the name that it had, though nothing is mounted any more"
    );
    Ok(true)
}

/// The device has the same data all the time: it is one file. But that it was unmounted is no lack of memory.
fn mounted_twice(room: &mut Room) -> Result<()> {
    let Some([(image, directory), _]) = two_images(room, Image::Ext4)? else {
        return Ok(());
    };
    let device = Loop::attach(&image)?;
    let known = room.stand.snapshot()?.files;
    let mut number = (0, 0, 0);
    for _ in 0..2 {
        let mounted = Mounted::read_only(device.path(), &directory)?;
        let path = mounted.directory().join("data");
        number = number_of(&path)?;
        fs::read(&path).context("read the file")?;
    }
    drop(device);
    let snapshot = room.stand.snapshot()?;
    // Other images have been in the device before.
    let mut rows = rows_of(&snapshot, number);
    rows.retain(|id, _| !known.contains_key(id));
    let rows: Vec<Ledger> = rows.into_values().collect();
    assert_eq!(rows.len(), 1, "one file");
    assert_eq!(rows[0][Counter::ReadRequestedPages], 2 * PAGES);
    assert_eq!(rows[0][Counter::EvictedOtherPages], 2 * PAGES);
    assert_eq!(rows[0][Counter::RefaultPages], 0);
    Ok(())
}

fn info_of<'s>(snapshot: &'s Snapshot, path: &Path) -> Result<&'s FileInfo> {
    let (_, _, inode) = number_of(path)?;
    let mut files = snapshot.files.iter();
    let named = path.file_name();
    files
        .find(|(id, info)| {
            let path = info.path_in_file_system.as_deref();
            id.inode == inode && path.and_then(Path::file_name) == named
        })
        .map(|(_, info)| info)
        .ok_or_else(|| {
            let same = snapshot.files.iter().filter(|(id, _)| id.inode == inode);
            let known: Vec<_> = same.map(|(_, info)| info).collect();
            Problem::new(format!("no file is called {}: {known:?}", path.display()))
        })
}

/// Overlayfs copies to a file without a name, or with one in its work directory, before the first change of a file.
fn copy_up(room: &mut Room) -> Result<()> {
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|name| room.path(name));
    for directory in [&lower, &upper, &work, &merged, &lower.join("d")] {
        fs::create_dir(directory).context("make a layer")?;
    }
    for name in ["one", "d/two"] {
        fs::write(lower.join(name), vec![7; 3 * page_size() as usize]).context("write a file")?;
    }
    let mounted = match Mounted::overlay(&lower, &upper, &work, &merged) {
        Ok(mounted) => mounted,
        Err(NotMounted::Missing(reason)) => {
            println!("\nskipped: copy-up of an overlay: {reason}");
            return Ok(());
        }
        Err(NotMounted::Failed(problem)) => return Err(problem),
    };
    for name in ["one", "d/two"] {
        let mut file = File::options()
            .append(true)
            .open(mounted.directory().join(name))
            .context("open a file of the overlay")?;
        file.write_all(b"more").context("change it")?;
    }
    let snapshot = room.stand.snapshot()?;
    for name in ["one", "d/two"] {
        let info = info_of(&snapshot, &upper.join(name))?;
        assert_eq!(info.path.as_deref(), Some(upper.join(name).as_path()));
        assert!(!info.deleted, "it has a name");
    }
    let left: Vec<_> = snapshot
        .files
        .values()
        .filter(|info| {
            info.path
                .as_ref()
                .is_some_and(|path| path.starts_with(&work))
        })
        .collect();
    assert!(
        left.is_empty(),
        "nothing is called after the work directory: {left:?}"
    );
    Ok(())
}

/// A file made without a name and linked to one when it is complete.
fn temporary_file(room: &mut Room) -> Result<()> {
    let directory = room.path("");
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file: File = open(&directory, flags, Mode::RUSR)
        .context("make a file without a name")?
        .into();
    (&file).write_all(b"data").context("write to it")?;
    let before = room.stand.snapshot()?;
    let inode = file.metadata().context("stat")?.ino();
    let mut infos = before.files.iter().filter(|(id, _)| id.inode == inode);
    assert!(infos.any(|(_, info)| info.deleted), "it has no name so far");
    let path = room.path("named");
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    linkat(CWD, &own, CWD, &path, AtFlags::SYMLINK_FOLLOW).context("link it")?;
    let snapshot = room.stand.snapshot()?;
    let info = info_of(&snapshot, &path)?;
    assert_eq!(info.path, Some(path));
    assert!(!info.deleted);
    Ok(())
}
