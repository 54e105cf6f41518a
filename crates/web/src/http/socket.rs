//! A Unix socket in the file system. Processes with write permission may connect.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, chmod, chownat, fchmod, flock, fstat, lstat, open,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::geteuid;

/// Connections that wait to be accepted.
const WAITING: i32 = 1024;

/// The name of a socket, removed when dropped.
#[derive(Debug)]
pub(super) struct Name {
    path: PathBuf,
    file: OwnedFd,
}

/// Listens on a socket of this name with mode 0660. A socket that a server left behind gives way.
///
/// # Errors
/// `AddrInUse` if a server listens there, `AlreadyExists` if the name belongs to something else; those of the kernel.
pub(super) fn take(path: &Path, group: Option<u32>) -> io::Result<(UnixListener, Name)> {
    let _alone = alone_at(path)?;
    remove_stale(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the socket's mode, so that at no time it is open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let name = Name {
        file: open(
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?,
        path: path.to_owned(),
    };
    // By its descriptor: others may be able to put another file under the name.
    let made = fstat(&name.file)?;
    let is_socket = rustix::fs::FileType::from_raw_mode(made.st_mode).is_socket();
    if !is_socket || made.st_uid != geteuid().as_raw() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    if let Some(group) = group {
        chownat(
            &name.file,
            "",
            None,
            Some(Gid::from_raw(group)),
            AtFlags::EMPTY_PATH,
        )?;
    }
    let by_descriptor = format!("/proc/self/fd/{}", name.file.as_raw_fd());
    chmod(
        by_descriptor,
        Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP,
    )?;
    listen(&socket, WAITING)?;
    Ok((socket.into(), name))
}

/// Attempts to lock the directory, and the pause between two: another server takes its socket within milliseconds.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the directory of the socket, until the result is dropped: a socket that another server has bound and does not
/// listen on so far looks like one that was left behind. Nothing is locked where the directory cannot be read, or
/// where its file system has no locks.
///
/// # Errors
/// `AddrInUse` if the lock is held by another process all the time.
fn alone_at(path: &Path) -> io::Result<Option<OwnedFd>> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = match open(directory, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::ACCESS) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    for _ in 0..ATTEMPTS {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(directory)),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let is_ours = |made: &rustix::fs::Stat| {
            lstat(&self.path)
                .is_ok_and(|now| (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino))
        };
        if fstat(&self.file).is_ok_and(|made| is_ours(&made)) {
            // A name that cannot be removed is stale, and gives way to the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        let found = path.symlink_metadata().expect("the socket is there");
        found.mode() & 0o7777
    }

    #[test]
    fn the_socket_is_for_owner_and_group_and_goes_with_its_server() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("socket");
        let (listener, name) = take(&path, None).expect("it can be made");
        assert_eq!(mode(&path), 0o660, "others may not connect");
        UnixStream::connect(&path).expect("it listens");
        let taken = take(&path, None).expect_err("two cannot listen there");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop((listener, name));
        assert!(!path.exists(), "the name is gone");
    }

    #[test]
    fn one_of_two_servers_that_start_at_once_has_the_socket() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("socket");
        for round in 0..200 {
            // As after kill -9: both find it, and may remove it.
            drop(UnixListener::bind(&path).expect("it can be made"));
            let start = std::sync::Barrier::new(2);
            let taken: Vec<_> = std::thread::scope(|scope| {
                let servers = [(); 2].map(|()| {
                    scope.spawn(|| {
                        start.wait();
                        take(&path, None)
                    })
                });
                let ended = servers.map(|server| server.join().expect("it does not panic"));
                ended.into_iter().collect()
            });
            let kinds: Vec<_> = taken
                .iter()
                .filter_map(|taken| taken.as_ref().err())
                .collect();
            assert_eq!(kinds.len(), 1, "round {round}: {kinds:?}");
            assert_eq!(kinds[0].kind(), ErrorKind::AddrInUse, "round {round}");
            UnixStream::connect(&path).expect("the other one listens");
        }
    }

    #[test]
    fn a_stale_socket_gives_way_and_other_files_stay() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("socket");
        drop(UnixListener::bind(&path).expect("it can be made"));
        assert!(path.exists(), "as after kill -9");
        let (_listener, name) = take(&path, None).expect("nothing listens there");
        // Another file under the name outlives the server.
        std::fs::remove_file(&path).expect("it is ours");
        std::fs::write(&path, "data").expect("there is room");
        drop(name);
        assert_eq!(
            std::fs::read_to_string(&path).expect("it is there"),
            "data",
            "only the socket is removed"
        );
        let refused = take(&path, None).expect_err("it is a file");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(
            std::fs::read_to_string(&path).expect("it is there"),
            "data",
            "and stays"
        );
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(scratch.path().join("nothing"), &link).expect("a link");
        let refused = take(&link, None).expect_err("links are not followed");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    }
}
