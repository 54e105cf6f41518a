//! [`Rounds`]: the beginning of a file or disk, read again and again, around the page cache or through it.

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

/// A file or disk of which the beginning is read, as the programs of the case study do.
///
/// It stays open from round to round, for a block device that nobody holds loses its cached pages; and its buffer is
/// memory that is there already, so that a round's time is that of reading.
#[derive(Debug)]
pub struct Rounds {
    file: File,
    path: PathBuf,
    buffer: Buffer,
}

impl Rounds {
    /// Opens it, to read so much each round; less where it ends before.
    ///
    /// # Errors
    /// It cannot be opened, has no direct I/O, or is empty; direct I/O reads whole blocks only.
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
        /// The smallest block that a disk has: what is no multiple of it fails with every one.
        const BLOCK: u64 = 512;
        if !is_cached && !size.0.is_multiple_of(BLOCK) {
            return Err(Error::Invalid {
                what: "size",
                why: format!(
                    "{} bytes are not whole blocks of {BLOCK}, by which direct I/O goes; take a multiple of 4K",
                    size.0
                ),
            });
        }
        let length = usize::try_from(size.0).map_err(|_| Error::Invalid {
            what: "size",
            why: "no buffer can have so much".to_owned(),
        })?;
        // A short file is no reason for a large buffer.
        let end = target
            .size
            .0
            .next_multiple_of(cachewise_sys::page_size().get());
        let length = length.min(usize::try_from(end).unwrap_or(length));
        let buffer = Buffer::new(length).map_err(|error| Error::Invalid {
            what: "size",
            why: format!("there is no memory for it: {error}; read less at a time"),
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

    /// Reads once: how long it took, and how much there was.
    ///
    /// # Errors
    /// The kernel would not read.
    pub fn round(&mut self) -> Result<(Duration, Bytes), Error> {
        let began = Instant::now();
        let buffer = self.buffer.as_mut();
        let mut got = 0;
        while got < buffer.len() {
            match pread(self.file.as_fd(), &mut buffer[got..], got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                // After the end of a file that is not of whole blocks, direct I/O would go on beside them.
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
    fn the_end_of_the_file_ends_a_round() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 10_000]).unwrap();
        let mut rounds = Rounds::open(file.path(), Bytes(1 << 30), true).unwrap();
        for _ in 0..2 {
            let (_, bytes) = rounds.round().unwrap();
            assert_eq!(bytes, Bytes(10_000), "what there is, each time");
        }
    }

    #[test]
    fn parts_of_blocks_are_refused_before_reading() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 10_000]).unwrap();
        match Rounds::open(&path, Bytes(1000), false) {
            Err(Error::Invalid { what: "size", why }) => {
                assert!(
                    why.contains("multiple of 4K"),
                    "what to write is said: {why}"
                );
            }
            Err(error) => println!("skipped: direct I/O: {error}"),
            Ok(_) => panic!("1,000 bytes are no whole blocks"),
        }
    }
}
