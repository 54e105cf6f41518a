//! [`Rounds`]: repeated reads of the beginning of a file or disk, direct or through the page cache.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cachewise_units::Bytes;
use rustix::io::{Errno, pread};

use crate::engine::Buffer;
use crate::target::Target;
use crate::{Engine, Error, Workload};

/// A file or disk whose beginning is read, as in the programs of the case study.
///
/// It stays open between rounds, because a block device loses its cached pages when its last user
/// closes it. Its buffer is allocated in advance, so that the time of a round is that of reading.
#[derive(Debug)]
pub struct Rounds {
    file: File,
    path: PathBuf,
    buffer: Buffer,
}

impl Rounds {
    /// Opens the file, to read this much each round; less if it ends before.
    ///
    /// # Errors
    /// It cannot be opened, has no direct I/O, or is empty; direct I/O reads only whole blocks.
    pub fn open(path: &Path, size: Bytes, is_cached: bool) -> Result<Rounds, Error> {
        let workload = Workload {
            file: path.to_owned(),
            engine: if is_cached {
                Engine::Pread
            } else {
                Engine::Direct
            },
            chunk: Bytes(1),
            ..Workload::default()
        };
        let target = Target::open(&workload)?;
        /// The smallest block size of disks: a size that is not a multiple of it fails with every
        /// disk.
        const BLOCK: u64 = 512;
        if !is_cached && !size.0.is_multiple_of(BLOCK) {
            return Err(Error::Invalid {
                what: "size",
                why: format!(
                    "{} bytes are not whole blocks of {BLOCK}, as direct I/O requires; use a multiple of 4K",
                    size.0
                ),
            });
        }
        let length = usize::try_from(size.0).map_err(|_| Error::Invalid {
            what: "size",
            why: "no buffer can be that large".to_owned(),
        })?;
        // A short file needs no large buffer.
        let end = target
            .size
            .0
            .next_multiple_of(cachewise_sys::page_size().get());
        let length = length.min(usize::try_from(end).unwrap_or(length));
        let buffer = Buffer::new(length).map_err(|error| Error::Invalid {
            what: "size",
            why: format!("not enough memory for it: {error}; read less at a time"),
        })?;
        Ok(Rounds {
            file: target.file,
            path: path.to_owned(),
            buffer,
        })
    }

    /// Whether it is a block device.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|found| found.file_type().is_block_device())
    }

    /// Reads once; returns the time and the number of bytes.
    ///
    /// # Errors
    /// The read failed.
    pub fn round(&mut self) -> Result<(Duration, Bytes), Error> {
        let began = Instant::now();
        let buffer = self.buffer.as_mut();
        let mut got = 0;
        while got < buffer.len() {
            match pread(self.file.as_fd(), &mut buffer[got..], got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                // After the end of a file that is not a multiple of the block, the next direct read
                // would be unaligned.
                Err(Errno::INVAL) if got > 0 => break,
                Err(errno) => return Err(Error::file("read", &self.path, errno)),
            }
        }
        Ok((began.elapsed(), Bytes(got as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ends_at_the_end_of_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 10_000]).unwrap();
        let mut rounds = Rounds::open(file.path(), Bytes(1 << 30), true).unwrap();
        for _ in 0..2 {
            let (_, bytes) = rounds.round().unwrap();
            assert_eq!(bytes, Bytes(10_000), "the whole file, each time");
        }
    }

    #[test]
    fn open_refuses_partial_blocks() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 10_000]).unwrap();
        match Rounds::open(&path, Bytes(1000), false) {
            Err(Error::Invalid { what: "size", why }) => {
                assert!(
                    why.contains("multiple of 4K"),
                    "the valid form is named: {why}"
                );
            }
            Err(error) => println!("skipped: direct I/O: {error}"),
            Ok(_) => panic!("1,000 bytes are no whole blocks"),
        }
    }
}
