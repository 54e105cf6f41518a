//! A file seen through a buffer: frames are looked at in place, and nothing is read twice.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::frame::{FrameKind, HEAD, Head, MARK};

const AT_ONCE: usize = 1 << 18;

#[derive(Debug)]
pub(crate) struct Window {
    file: File,
    /// The length at the opening; later writes are ignored.
    pub length: u64,
    from: u64,
    bytes: Vec<u8>,
}

/// The content at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A frame, and where the next one is.
    Frame(FrameKind, u64),
    /// The end of the file.
    End,
    /// Something that is no whole frame.
    Garbage,
}

impl Window {
    pub(crate) fn new(file: File, length: u64) -> Window {
        Window {
            file,
            length,
            from: 0,
            bytes: Vec::new(),
        }
    }

    /// Returns up to `length` bytes from an offset; fewer at the end of the file.
    pub(crate) fn slice(&mut self, from: u64, length: usize) -> io::Result<&[u8]> {
        let length = self.length.saturating_sub(from).min(length as u64) as usize;
        let has = from >= self.from && from + length as u64 <= self.from + self.bytes.len() as u64;
        if !has {
            let wanted = self
                .length
                .saturating_sub(from)
                .min(length.max(AT_ONCE) as u64);
            self.bytes.resize(wanted as usize, 0);
            self.from = from;
            let mut read = 0;
            while read < self.bytes.len() {
                match self
                    .file
                    .read_at(&mut self.bytes[read..], from + read as u64)
                {
                    // It was cut meanwhile.
                    Ok(0) => {
                        self.length = from + read as u64;
                        break;
                    }
                    Ok(more) => read += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        self.bytes.clear();
                        return Err(error);
                    }
                }
            }
            self.bytes.truncate(read);
        }
        let begin = (from - self.from) as usize;
        let end = (begin + length).min(self.bytes.len());
        Ok(&self.bytes[begin.min(end)..end])
    }

    pub(crate) fn at(&mut self, place: u64) -> io::Result<At> {
        if place >= self.length {
            return Ok(At::End);
        }
        let Some(head) = Head::from_bytes(self.slice(place, HEAD)?) else {
            return Ok(At::Garbage);
        };
        let payload = self.slice(place + HEAD as u64, head.length)?;
        Ok(if head.is_of(payload) {
            At::Frame(head.kind, place + (HEAD + head.length) as u64)
        } else {
            At::Garbage
        })
    }

    pub(crate) fn payload(&mut self, place: u64, next: u64) -> io::Result<&[u8]> {
        let begin = place + HEAD as u64;
        self.slice(begin, next.saturating_sub(begin) as usize)
    }

    /// The first place after this one where a frame stands.
    pub(crate) fn next_frame(&mut self, after: u64) -> io::Result<Option<u64>> {
        let mut place = after + 1;
        while place < self.length {
            let chunk = self.slice(place, AT_ONCE)?;
            let read = chunk.len();
            if read < HEAD {
                return Ok(None);
            }
            let found = chunk
                .windows(MARK.len())
                .position(|bytes| bytes == MARK)
                .map(|found| place + found as u64);
            let Some(found) = found else {
                // A mark may lie across the border.
                place += (read - (MARK.len() - 1)) as u64;
                continue;
            };
            if let At::Frame(..) = self.at(found)? {
                return Ok(Some(found));
            }
            place = found + 1;
        }
        Ok(None)
    }
}
