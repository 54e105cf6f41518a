//! [`Directory`]: an origin that is a directory, be it of a disk, of NFS or of FUSE.

mod attributes;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use cachewise_sys::may_read;
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp,
};
use twox_hash::XxHash3_64;

use super::file_system::FileSystem;
use super::{Entry, Kind, Meta, Origin, Room, Version, checked, machine};
use crate::Error;
use crate::settings::check_identity;

/// The step of a file system's clock, generously: Linux takes the time of its timer's last tick,
/// at most 10 ms ago.
const STEP: Duration = Duration::from_millis(100);

/// The step of one that has whole seconds, or two of them.
const COARSE_STEP: Duration = Duration::from_millis(2_500);

/// Maximum attempts to open an object when the kernel requests a retry: first without a pause, then
/// for about a second, which lets a lease holder release it.
const OPENS_AT_ONCE: u32 = 8;
const OPENS: u32 = 1_000;

/// Bit of the inode numbers that no file system has given.
const MADE: u64 = 1 << 63;

/// Flags to open a file for reading: they do not wait for a FIFO that replaced it.
const READING: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOATIME);

/// An origin that is a directory. Links that lead out of it are refused. Reads leave the access
/// time unchanged where the kernel permits it, for the owner and root.
///
/// # Kernel
/// `openat2(2)` of Linux 5.6.
///
/// # Cost
/// Each `stat` of an object on a network file system asks its server, even if the kernel has cached
/// attributes. A read does so twice.
#[derive(Debug)]
pub struct Directory {
    inner: Arc<DirectoryInner>,
}

#[derive(Debug)]
struct DirectoryInner {
    root: File,
    identity: String,
    /// The file system of the root.
    device: u64,
    /// Whether only an open shows that a file may be read.
    checks_at_open: bool,
    /// Whether `identity` names the state of the files, so that file systems need not store it.
    is_named: bool,
    /// Whether the root's file system has access control lists, as far as is known.
    has_acls: AtomicBool,
}

/// Identity of a directory in block keys.
#[derive(Clone, Debug, Default)]
pub struct DirectoryOptions {
    /// Name of the directory, independent of its path, its file system and the machine. Machines that use the same name
    /// share blocks. On a file system that does not store the time of last change it also names the state of all files:
    /// a new state needs a new name.
    pub identity: Option<String>,
    /// The identity of this machine if there is no `identity`; by default the machine ID of systemd or D-Bus, else
    /// the boot ID.
    pub machine: Option<String>,
}

impl Directory {
    /// Opens the directory. Its identity is that of this machine, that of its file system (type and UUID) and its absolute
    /// path: no other machine meets its blocks.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Origin`]; [`Error::Unversioned`] on a file system that does not
    /// keep the time of last change.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, &DirectoryOptions::default())
    }

    /// Opens the directory under a name or for a machine.
    ///
    /// # Errors
    /// The errors of [`Self::open`]; [`Error::Unversioned`] never with a name; [`Error::Setting`] for an empty name.
    pub fn open_with(path: &Path, options: &DirectoryOptions) -> Result<Self, Error> {
        check_identity(options.identity.as_deref())?;
        let failed = |error: rustix::io::Errno| Error::of_origin(path, "open", error.into());
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let root = File::from(root);
        let file_system = FileSystem::of_file(&root).map_err(failed)?;
        let identity = match (&options.identity, file_system.forgets_changes) {
            (Some(name), _) => format!("named:{name}"),
            (None, Some(name)) => {
                return Err(Error::Unversioned {
                    path: path.to_owned(),
                    file_system: name,
                });
            }
            (None, None) => {
                let whole = path
                    .canonicalize()
                    .map_err(|error| Error::of_origin(path, "open", error))?;
                let machine = options.machine.clone().unwrap_or_else(machine::id);
                let mut hasher = blake3::Hasher::new();
                let parts = [
                    machine.as_bytes(),
                    file_system.identity.as_bytes(),
                    whole.as_os_str().as_encoded_bytes(),
                ];
                for part in parts {
                    // Lossless: no slice is longer.
                    hasher.update(&(part.len() as u64).to_le_bytes());
                    hasher.update(part);
                }
                format!("dir:{}", hasher.finalize().to_hex())
            }
        };
        let device = statx_of(&root, path)?;
        Ok(Self {
            inner: Arc::new(DirectoryInner {
                root,
                identity,
                device: device_of(&device),
                checks_at_open: file_system.checks_at_open,
                is_named: options.identity.is_some(),
                has_acls: AtomicBool::new(true),
            }),
        })
    }

    /// Runs `work` where it may block.
    fn blocking<'a, T: Send + 'static>(
        &'a self,
        path: &'a Path,
        work: impl FnOnce(&DirectoryInner, &Path) -> Result<T, Error> + Send + 'static,
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
        self.blocking(path, |inner, path| inner.stat(path, OFlags::empty()))
    }

    fn look<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        self.blocking(path, |inner, path| inner.stat(path, OFlags::NOFOLLOW))
    }

    fn room(&self) -> BoxFuture<'_, Result<Option<Room>, Error>> {
        self.blocking(Path::new(""), |inner, _| inner.room().map(Some))
    }

    fn has_attributes(&self) -> bool {
        true
    }

    fn attribute<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
        name: &'a OsStr,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        let (meta, name) = (meta.clone(), name.to_owned());
        self.blocking(path, move |inner, path| inner.attribute(path, &meta, &name))
    }

    fn attributes<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
    ) -> BoxFuture<'a, Result<Vec<OsString>, Error>> {
        let meta = meta.clone();
        self.blocking(path, move |inner, path| inner.attributes(path, &meta))
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

impl DirectoryInner {
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
                // A parent directory was renamed meanwhile, or a writer holds a lease: the kernel
                // requests a retry.
                Err(rustix::io::Errno::AGAIN) if tries < OPENS => {
                    tries += 1;
                    if tries > OPENS_AT_ONCE {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                // The file of another user: only its owner may suppress the access time.
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

    /// Looks at an object, and finds out whether this process may read it. Of a link itself with `NOFOLLOW`.
    fn stat(&self, path: &Path, follow: OFlags) -> Result<Meta, Error> {
        // O_PATH: nothing is opened for reading, so that a FIFO or a device is only looked at.
        let file = self.open(path, OFlags::PATH | follow)?;
        let mut meta = self.meta(&statx_of(&file, path)?);
        if meta.kind == Kind::Link {
            let target = rustix::fs::readlinkat(&file, c"", Vec::new());
            let target = target.map_err(|error| Error::of_origin(path, "read", error.into()))?;
            let target = OsString::from_vec(target.into_bytes());
            meta.target = Some(Arc::from(Path::new(&target)));
            return Ok(meta);
        }
        meta.has_acl = self.has_acl(&file);
        if meta.kind != Kind::File {
            return Ok(meta);
        }
        if meta.device == self.device && !self.checks_at_open {
            let may = may_read(file.as_fd());
            meta.is_readable =
                may.map_err(|error| Error::of_origin(path, "look at", error.into()))?;
            return Ok(meta);
        }
        match self.open(path, READING | follow) {
            Ok(opened) => self.meta_of(&opened, path),
            Err(Error::Denied { .. }) => {
                meta.is_readable = false;
                Ok(meta)
            }
            Err(error) => Err(error),
        }
    }

    /// The state of a file that is open for reading. On another file system than the origin's root, that file system is
    /// part of it.
    fn meta_of(&self, file: &File, path: &Path) -> Result<Meta, Error> {
        let mut meta = self.meta(&statx_of(file, path)?);
        meta.has_acl = self.has_acl(file);
        if meta.kind != Kind::File || meta.device == self.device || self.is_named {
            return Ok(meta);
        }
        let found = FileSystem::of_file(file);
        let found = found.map_err(|error| Error::of_origin(path, "look at", error.into()))?;
        if let Some(name) = found.forgets_changes {
            return Err(Error::Unversioned {
                path: path.to_owned(),
                file_system: name,
            });
        }
        meta.version = Version::new(&format!("{} {}", meta.version.as_str(), found.identity));
        Ok(meta)
    }

    /// Returns whether an object has an access control list, or may have one: the query can fail.
    fn has_acl(&self, file: &File) -> bool {
        const ACL: &str = "system.posix_acl_access";
        // Another file system below the origin may have them.
        let is_of_root =
            || statx_of(file, Path::new("")).is_ok_and(|found| device_of(&found) == self.device);
        if !self.has_acls.load(Ordering::Relaxed) && is_of_root() {
            return false;
        }
        // Attributes of a descriptor of O_PATH are read by its name.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        match rustix::fs::getxattr(name, ACL, &mut [0_u8; 0]) {
            Ok(_) => true,
            Err(rustix::io::Errno::NODATA) => false,
            Err(rustix::io::Errno::OPNOTSUPP) => {
                if is_of_root() {
                    self.has_acls.store(false, Ordering::Relaxed);
                }
                false
            }
            Err(_) => true,
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        let failed = |error| Error::of_origin(path, "list", error);
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME)?;
        let device = device_of(&statx_of(&directory, path)?);
        let reader = rustix::fs::Dir::new(directory).map_err(|error| failed(error.into()))?;
        let mut entries = Vec::new();
        for entry in reader {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_vec());
            let kind = match entry.file_type() {
                rustix::fs::FileType::RegularFile => Kind::File,
                rustix::fs::FileType::Directory => Kind::Directory,
                rustix::fs::FileType::Symlink => Kind::Link,
                // Some file systems do not say: it is looked at.
                rustix::fs::FileType::Unknown => self
                    .open(&path.join(&name), OFlags::PATH | OFlags::NOFOLLOW)
                    .and_then(|file| statx_of(&file, path))
                    .map_or(Kind::Other, |found| kind(&found)),
                _ => Kind::Other,
            };
            entries.push(Entry {
                name,
                kind,
                inode: self.inode(device, entry.ino()),
                meta: None,
            });
        }
        Ok(entries)
    }

    /// The number of an object: its own on the device of the root, else one made of both.
    fn inode(&self, device: u64, number: u64) -> u64 {
        if device == self.device {
            return number;
        }
        let mut both = [0; 16];
        both[..8].copy_from_slice(&device.to_le_bytes());
        both[8..].copy_from_slice(&number.to_le_bytes());
        MADE | XxHash3_64::oneshot(&both)
    }

    /// The state of an object, without its access control list.
    fn meta(&self, found: &Statx) -> Meta {
        let device = device_of(found);
        Meta {
            inode: self.inode(device, found.stx_ino),
            ..meta(found)
        }
    }

    fn room(&self) -> Result<Room, Error> {
        let found = rustix::fs::fstatvfs(&self.root);
        let found =
            found.map_err(|error| Error::of_origin(Path::new(""), "look at", error.into()))?;
        Ok(Room {
            unit: found.f_frsize,
            units: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail,
            files: found.f_files,
            files_free: found.f_ffree,
            longest_name: u32::try_from(found.f_namemax).unwrap_or(255),
        })
    }

    fn read(&self, path: &Path, expected: &Meta, range: ByteRange) -> Result<Bytes, Error> {
        let failed = |error| Error::of_origin(path, "read", error);
        let changed = |what| Error::Changed {
            path: path.to_owned(),
            what,
        };
        let file = self.open(path, READING)?;
        same(&self.meta_of(&file, path)?, expected).map_err(changed)?;
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
        same(&self.meta_of(&file, path)?, expected).map_err(changed)?;
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

/// Returns the attributes of an open object, from the server on a network file system. Cached
/// attributes may be a second old: both checks around a read would show the old state, and the new
/// bytes would pass for it.
fn statx_of(file: &File, path: &Path) -> Result<Statx, Error> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(file, c"", flags, StatxFlags::BASIC_STATS)
        .map_err(|error| Error::of_origin(path, "stat", error.into()))
}

fn kind(found: &Statx) -> Kind {
    match FileType::from_raw_mode(u32::from(found.stx_mode)) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

fn device_of(found: &Statx) -> u64 {
    rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor)
}

/// The state of an object, without its permissions.
fn meta(found: &Statx) -> Meta {
    let modified = time(&found.stx_mtime);
    // The version includes the change time, which no program can set. The modification time can be
    // set, as by `cp -p`, `rsync -t` and `touch -r`.
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
    Meta {
        kind: kind(found),
        size: found.stx_size,
        version,
        device: device_of(found),
        inode: found.stx_ino,
        links: found.stx_nlink,
        blocks: Some(found.stx_blocks),
        target: None,
        modified,
        changed: time(&found.stx_ctime),
        mode: u32::from(found.stx_mode) & 0o7777,
        owner: Some((found.stx_uid, found.stx_gid)),
        has_acl: false,
        is_readable: true,
        content: None,
        // A time of the last change that lies ahead is of another clock, and waited for.
        keep_from: written
            .max(time(&found.stx_ctime))
            .and_then(|last| last.checked_add(step)),
    }
}

fn time(at: &StatxTimestamp) -> Option<SystemTime> {
    let seconds = Duration::from_secs(at.tv_sec.unsigned_abs());
    let second = match at.tv_sec {
        0.. => SystemTime::UNIX_EPOCH.checked_add(seconds),
        _ => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    second?.checked_add(Duration::from_nanos(u64::from(at.tv_nsec)))
}
