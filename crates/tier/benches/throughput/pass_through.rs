//! A FUSE file system that does nothing but pass reads on to a directory: what FUSE itself costs.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEntry, ReplyOpen, Request, Session,
};

const HOUR: Duration = Duration::from_secs(3600);

struct PassThrough {
    files: Vec<(File, u64)>,
    names: HashMap<OsString, usize>,
}

/// Mounts one, with as many threads as the mount that it is compared with has.
pub fn mount(origin: &Path, directory: &Path, threads: usize) -> BackgroundSession {
    let (mut files, mut names) = (Vec::new(), HashMap::new());
    for entry in std::fs::read_dir(origin).expect("it was just made") {
        let entry = entry.expect("an entry");
        let file = File::open(entry.path()).expect("it can be opened");
        let size = file.metadata().expect("open").size();
        names.insert(entry.file_name(), files.len());
        files.push((file, size));
    }
    let mut config = Config::default();
    config.mount_options = vec![MountOption::RO, MountOption::FSName("pass-through".into())];
    config.n_threads = Some(threads);
    config.clone_fd = true;
    let session = Session::new(PassThrough { files, names }, directory, &config);
    session.and_then(Session::spawn).expect("FUSE works here")
}

impl PassThrough {
    fn attributes(&self, number: u64) -> Option<FileAttr> {
        let (size, kind, perm) = match number {
            1 => (0, FileType::Directory, 0o555),
            number => {
                let place = usize::try_from(number).ok()?.checked_sub(2)?;
                (self.files.get(place)?.1, FileType::RegularFile, 0o444)
            }
        };
        let time = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 128 << 10,
            flags: 0,
        })
    }
}

impl Filesystem for PassThrough {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = self.names.get(name).map(|place| *place as u64 + 2);
        match number.and_then(|number| self.attributes(number)) {
            Some(attributes) => reply.entry(&HOUR, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(number.0) {
            Some(attributes) => reply.attr(&HOUR, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let place = usize::try_from(number.0).unwrap_or(0).wrapping_sub(2);
        let Some((file, _)) = self.files.get(place) else {
            reply.error(Errno::ESTALE);
            return;
        };
        let mut bytes = vec![0; size as usize];
        match file.read_at(&mut bytes, offset) {
            Ok(read) => reply.data(&bytes[..read]),
            Err(error) => reply.error(error.into()),
        }
    }
}
