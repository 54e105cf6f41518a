//! An origin on a network file system, of which the kernel remembers for a while what a file was.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::support::bytes_of;
use cachewise_tier::{Directory, DirectoryOptions, ErrorKind, Origin};
use cachewise_units::ByteRange;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    Request, Session,
};

/// For how long the kernel may take it that nothing has changed: longer than the test.
const REMEMBERED: Duration = Duration::from_secs(3_600);

const SIZE: u64 = 100_000;

/// A server with one file, which is rewritten there: the kernel here is not told.
#[derive(Clone, Debug)]
struct Server(Arc<Mutex<usize>>);

impl Server {
    fn rewrite(&self, state: usize) {
        *self.0.lock().expect("unpoisoned") = state;
    }

    fn state(&self) -> usize {
        *self.0.lock().expect("unpoisoned")
    }

    fn attributes(&self, number: INodeNo) -> FileAttr {
        let is_root = number == INodeNo::ROOT;
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + self.state() as u64);
        FileAttr {
            ino: number,
            size: if is_root { 0 } else { SIZE },
            blocks: SIZE.div_ceil(512),
            atime: written,
            mtime: written,
            ctime: written,
            crtime: written,
            kind: match is_root {
                true => FileType::Directory,
                false => FileType::RegularFile,
            },
            perm: 0o755,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // As network file systems have it; what a kernel does not offer, it does without.
        let _ = config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("file") => reply.entry(&REMEMBERED, &self.attributes(INodeNo(2)), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBERED, &self.attributes(number));
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = bytes_of(self.state(), SIZE);
        let from = usize::try_from(offset.min(SIZE)).expect("small");
        let to = usize::try_from((offset + u64::from(size)).min(SIZE)).expect("small");
        reply.data(&bytes[from..to]);
    }
}

/// Unmounted when this is dropped.
struct Mounted {
    session: Option<BackgroundSession>,
    directory: tempfile::TempDir,
}

impl Mounted {
    fn new(server: Server) -> Option<Self> {
        let directory = tempfile::tempdir().expect("made");
        let session = Session::new(server, directory.path(), &Config::default());
        let session = session.and_then(Session::spawn).ok();
        session.is_some().then_some(Self { session, directory })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        if ended.is_none_or(|ended| ended.is_err()) {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(self.directory.path())
                .status();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rewritten_at_the_server_is_another_state_at_once() {
    let server = Server(Arc::new(Mutex::new(0)));
    let Some(mounted) = Mounted::new(server.clone()) else {
        println!("skipped: an origin on FUSE: nothing can be mounted here (not root?)");
        return;
    };
    let named = DirectoryOptions {
        identity: Some("a server".to_owned()),
        ..DirectoryOptions::default()
    };
    let unnamed = Directory::open(mounted.directory.path()).expect_err("times of FUSE may lie");
    assert_eq!(unnamed.kind(), ErrorKind::Invalid, "{unnamed}");
    let origin = Directory::open_with(mounted.directory.path(), &named).expect("it is mounted");
    let path = Path::new("file");
    let whole = ByteRange {
        start: 0,
        len: SIZE,
    };
    let old = origin.stat(path).await.expect("it is there");
    server.rewrite(1);
    let by_the_kernel = std::fs::metadata(mounted.directory.path().join("file")).expect("there");
    assert_eq!(
        by_the_kernel.modified().ok(),
        old.modified,
        "the kernel remembers what was"
    );
    let error = origin
        .read(path, &old, whole)
        .await
        .expect_err("its bytes would pass for the old ones");
    assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
    server.rewrite(2);
    let new = origin.stat(path).await.expect("it is there");
    assert_ne!(new.version, old.version, "and the origin is asked");
    let bytes = origin.read(path, &new, whole).await.expect("it is there");
    assert_eq!(bytes, bytes_of(2, SIZE));
}
