//! [`Directory`]: an origin that is a directory, be it of a disk, of NFS or of FUSE.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, StatxTimestamp};

use super::{Entry, Kind, Meta, Origin, Version, checked};
use crate::Error;

/// The step of a file system's clock, generously: Linux takes the time of its timer's last tick,
/// at most 10 ms ago.
const STEP: Duration = Duration::from_millis(100);

/// The step of one that has whole seconds, or two of them.
const COARSE_STEP: Duration = Duration::from_millis(2_500);

/// How often something is opened that the kernel asks to open again: at once, and then for about a
/// second, which is time enough for who has it leased to give it back.
const OPENS_AT_ONCE: u32 = 8;
const OPENS: u32 = 1_000;

/// An origin that is a directory. What links lead out of it is refused. Reading leaves the time of
/// last access as it is where the kernel lets this user do so: the owner, and root.
///
/// # Kernel
/// `openat2(2)` of Linux 5.6.
///
/// # Cost
/// A look at an object asks the server of a network file system each time, whatever the kernel
/// remembers of it; a read looks twice.
#[derive(Debug)]
pub struct Directory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: File,
    identity: String,
}

impl Directory {
    /// Opens the directory. Its identity is its absolute path: machines that mount the same
    /// file system at the same place share blocks.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Origin`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let whole = path
            .canonicalize()
            .map_err(|error| Error::of_origin(path, "open", error))?;
        let identity = format!("dir:{}", whole.to_string_lossy());
        Self::open_as(path, &identity)
    }

    /// Opens the directory under a name of its own: for machines that see it at different places.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_as(path: &Path, identity: &str) -> Result<Self, Error> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| Error::of_origin(path, "open", error.into()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                root: File::from(root),
                identity: identity.to_owned(),
            }),
        })
    }

    /// Runs `work` where it may block.
    fn blocking<'a, T: Send + 'static>(
        &'a self,
        path: &'a Path,
        work: impl FnOnce(&Inner, &Path) -> Result<T, Error> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, Error>> {
        let inner = Arc::clone(&self.inner);
        let owned = path.to_owned();
        Box::pin(async move {
            let task = tokio::task::spawn_blocking(move || work(&inner, &owned));
            task.await.unwrap_or_else(|_| {
                Err(Error::Worker {
                    path: path.to_owned(),
                })
            })
        })
    }
}

impl Origin for Directory {
    fn identity(&self) -> &str {
        &self.inner.identity
    }

    fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        self.blocking(path, |inner, path| {
            // O_PATH: nothing is opened for reading, so that a FIFO or a device is only looked at.
            let file = inner.open(path, OFlags::PATH)?;
            meta(&file, path)
        })
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        self.blocking(path, |inner, path| inner.list(path))
    }

    fn read<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        let expected = meta.clone();
        self.blocking(path, move |inner, path| inner.read(path, &expected, range))
    }
}

impl Inner {
    fn open(&self, path: &Path, flags: OFlags) -> Result<File, Error> {
        let path = checked(path)?;
        let named = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let mut flags = flags | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 0;
        loop {
            match rustix::fs::openat2(&self.root, named, flags, Mode::empty(), beneath) {
                Ok(file) => return Ok(File::from(file)),
                Err(rustix::io::Errno::INTR) => {}
                // A directory above was renamed meanwhile, or somebody writes under a lease: the
                // kernel asks to try again.
                Err(rustix::io::Errno::AGAIN) if tries < OPENS => {
                    tries += 1;
                    if tries > OPENS_AT_ONCE {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                // Somebody else's file: its time of access is not ours to keep.
                Err(rustix::io::Errno::PERM) if flags.contains(OFlags::NOATIME) => {
                    flags.remove(OFlags::NOATIME);
                }
                Err(rustix::io::Errno::XDEV) => {
                    return Err(Error::Path {
                        path: path.to_owned(),
                        why: "a link leads out of the origin, and is not followed",
                    });
                }
                Err(rustix::io::Errno::NOTDIR) => {
                    return Err(Error::NotFound {
                        path: path.to_owned(),
                    });
                }
                Err(error) => return Err(Error::of_origin(path, "open", error.into())),
            }
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        let failed = |error| Error::of_origin(path, "list", error);
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME)?;
        let reader = rustix::fs::Dir::new(directory).map_err(|error| failed(error.into()))?;
        let mut entries = Vec::new();
        for entry in reader {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                rustix::fs::FileType::RegularFile => Kind::File,
                rustix::fs::FileType::Directory => Kind::Directory,
                // A link is what it leads to, and some file systems do not say: both are looked at.
                rustix::fs::FileType::Symlink | rustix::fs::FileType::Unknown => self
                    .open(&path.join(&name), OFlags::PATH)
                    .and_then(|file| meta(&file, path))
                    .map_or(Kind::Other, |meta| meta.kind),
                _ => Kind::Other,
            };
            entries.push(Entry { name, kind });
        }
        Ok(entries)
    }

    fn read(&self, path: &Path, expected: &Meta, range: ByteRange) -> Result<Bytes, Error> {
        let failed = |error| Error::of_origin(path, "read", error);
        let changed = |what| Error::Changed {
            path: path.to_owned(),
            what,
        };
        // A FIFO that took the file's place is not waited for.
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME)?;
        same(&meta(&file, path)?, expected).map_err(changed)?;
        let len = usize::try_from(range.len).map_err(|_| Error::Range {
            path: path.to_owned(),
            range,
            why: "longer than memory",
        })?;
        let mut bytes = BytesMut::zeroed(len);
        file.read_exact_at(&mut bytes, range.start)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => changed("it shrank"),
                _ => failed(error),
            })?;
        // Bytes of two states are not mixed: what was read is of the state before and after.
        same(&meta(&file, path)?, expected).map_err(changed)?;
        Ok(bytes.freeze())
    }
}

/// Says what of an object is not as it was.
fn same(now: &Meta, then: &Meta) -> Result<(), &'static str> {
    if now.kind != then.kind {
        return Err("it is not the same kind of object");
    }
    if now.size != then.size {
        return Err("its size is another");
    }
    if now.version != then.version {
        return Err("it was written or replaced");
    }
    Ok(())
}

/// Looks at an object that is open. What a network file system remembers of it may be a second
/// old: both looks around a read would show the old state, and the new bytes pass for it.
fn meta(file: &File, path: &Path) -> Result<Meta, Error> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let found = rustix::fs::statx(file, c"", flags, StatxFlags::BASIC_STATS)
        .map_err(|error| Error::of_origin(path, "stat", error.into()))?;
    let mode = u32::from(found.stx_mode);
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        _ => Kind::Other,
    };
    let modified = time(&found.stx_mtime);
    // The time of the last change of any kind is in it too: it is the one that nobody can set
    // back, as `cp -p`, `rsync -t` and `touch -r` do with the other.
    let version = Version::new(&format!(
        "{}.{:09} {}.{:09} {}",
        found.stx_mtime.tv_sec,
        found.stx_mtime.tv_nsec,
        found.stx_ctime.tv_sec,
        found.stx_ctime.tv_nsec,
        found.stx_ino,
    ));
    let step = if found.stx_ctime.tv_nsec == 0 {
        COARSE_STEP
    } else {
        STEP
    };
    // The time of the last write can be set to any, also to one that lies ahead, which would be
    // waited for and is of no write.
    let written = modified.filter(|at| *at <= SystemTime::now());
    Ok(Meta {
        kind,
        size: found.stx_size,
        version,
        device: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        modified,
        mode: mode & 0o7777,
        // A time of the last change that lies ahead is of another clock, and waited for.
        keep_from: written
            .max(time(&found.stx_ctime))
            .and_then(|last| last.checked_add(step)),
    })
}

fn time(at: &StatxTimestamp) -> Option<SystemTime> {
    let seconds = Duration::from_secs(at.tv_sec.unsigned_abs());
    let second = match at.tv_sec {
        0.. => SystemTime::UNIX_EPOCH.checked_add(seconds),
        _ => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    second?.checked_add(Duration::from_nanos(u64::from(at.tv_nsec)))
}
