//! The work of a thread, and what its failure means.

use std::io;
use std::sync::Mutex;

use quanta::Clock;

use crate::engine::{Copy, Map, Nowait, Pread, Touch, Uring, Write};
use crate::tally::Tally;
use crate::target::Target;
use crate::work::{Pace, Shared, drive, drive_ring};
use crate::{Engine, Error, Places, Workload};

/// The work of one thread.
pub(super) fn thread_work(
    workload: &Workload,
    target: &Target,
    map: Option<&Map>,
    thread: usize,
    slot: &Mutex<Tally>,
    shared: &Shared,
    clock: Option<&Clock>,
) -> io::Result<()> {
    let (chunk, size, fd) = (workload.chunk.0, target.size.0, target.fd());
    let places = Places::new(
        workload.access,
        size,
        chunk,
        !workload.unaligned,
        workload.seed,
        (thread, workload.threads),
    );
    let mut pace = Pace::new(shared, slot, places, chunk);
    let length = usize::try_from(chunk).map_err(|_| io::ErrorKind::InvalidInput)?;
    match (workload.engine, map) {
        (Engine::Pread, _) => drive(&mut Pread::<false>::new(fd, length)?, &mut pace, clock),
        (Engine::Direct, _) => drive(&mut Pread::<true>::new(fd, length)?, &mut pace, clock),
        (Engine::Nowait, _) => drive(&mut Nowait::new(target, length)?, &mut pace, clock),
        (Engine::Write, _) => drive(
            &mut Write::new(fd, length, size, workload.seed)?,
            &mut pace,
            clock,
        ),
        (Engine::IoUring, _) => drive_ring(
            &mut Uring::new(target, length, workload.depth)?,
            &mut pace,
            clock,
        ),
        (Engine::MmapCopy, Some(map)) => drive(&mut Copy::new(map, length)?, &mut pace, clock),
        (Engine::MmapTouch, Some(map)) => drive(&mut Touch::new(map, length), &mut pace, clock),
        (Engine::MmapCopy | Engine::MmapTouch, None) => {
            Err(io::Error::other("the mapping is gone"))
        }
    }
}

/// The error for a thread's failure.
pub(super) fn failed(workload: &Workload, source: io::Error) -> Error {
    let path = &workload.file;
    if source.kind() == io::ErrorKind::UnexpectedEof {
        return Error::Truncated { path: path.clone() };
    }
    let advised =
        |operation, advice| Error::advised(operation, path, io::Error::from(source.kind()), advice);
    match (workload.engine, source.raw_os_error()) {
        (Engine::Nowait, Some(libc::EOPNOTSUPP)) => advised(
            "preadv2 with RWF_NOWAIT",
            "; its file system does not support RWF_NOWAIT: use engine pread",
        ),
        (Engine::IoUring, Some(libc::ENOSYS | libc::EPERM)) => advised(
            "io_uring_setup",
            "; this kernel, or a container's seccomp profile, has no io_uring (sysctl kernel.io_uring_disabled): take \
             another engine",
        ),
        (Engine::Direct, Some(libc::EINVAL)) => advised(
            "pread with O_DIRECT",
            "; direct I/O needs whole blocks of the device: use an aligned chunk of a multiple of 4K",
        ),
        (Engine::Write, _) => Error::file("write", path, source),
        (Engine::MmapCopy | Engine::MmapTouch, _) => Error::file("mmap", path, source),
        _ => Error::file("read", path, source),
    }
}
