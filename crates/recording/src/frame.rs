//! Frames: what is written with one call and read back whole or not at all.
//!
//! | bytes | |
//! |---|---|
//! | 3 | [`MARK`] |
//! | 1 | the kind |
//! | 4 | length of the payload, little-endian as all of these |
//! | 4 | CRC-32 of the payload |
//! | 4 | CRC-32 of the twelve bytes before: a length is believed only with it |
//!
//! A part of a recording begins with [`Start`], then come frames.

use crate::error::ErrorKind;

pub(crate) const MARK: [u8; 3] = [0xca, 0xc4, 0xe5];
pub(crate) const HEAD: usize = 16;
/// A writer stays far below it.
pub(crate) const LONGEST: usize = 32 << 20;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// The session: the recorder, the machine and the columns. It precedes its samples.
    Session = 1,
    /// A sample that needs nothing before it but its session.
    Key = 2,
    /// A sample as what is different from the one before.
    Difference = 3,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        [FrameKind::Session, FrameKind::Key, FrameKind::Difference]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Puts a frame's head before the payload that follows from [`HEAD`] on in `frame`.
pub(crate) fn seal(kind: FrameKind, frame: &mut [u8]) {
    let (head, payload) = frame.split_at_mut(HEAD);
    head[..3].copy_from_slice(&MARK);
    head[3] = kind as u8;
    head[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    let check = crc32fast::hash(&head[..12]);
    head[12..].copy_from_slice(&check.to_le_bytes());
}

/// A frame's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: FrameKind,
    pub length: usize,
    check: u32,
}

impl Head {
    /// The head that these bytes are, if they are one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Head> {
        let bytes: &[u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
        let word = |from: usize| {
            u32::from_le_bytes([
                bytes[from],
                bytes[from + 1],
                bytes[from + 2],
                bytes[from + 3],
            ])
        };
        let length = word(4) as usize;
        let sound =
            bytes[..3] == MARK && length <= LONGEST && word(12) == crc32fast::hash(&bytes[..12]);
        Some(Head {
            kind: FrameKind::from_byte(bytes[3])?,
            length,
            check: word(8),
        })
        .filter(|_| sound)
    }

    /// Whether this is the payload that was written with it.
    pub(crate) fn is_of(&self, payload: &[u8]) -> bool {
        payload.len() == self.length && crc32fast::hash(payload) == self.check
    }
}

/// The version of the format that this program writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"CWRECORD";

/// How a part of a recording begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The same in all parts of a recording.
    pub recording: u64,
    /// Parts in their order: 0, 1, 2, ...
    pub sequence: u64,
}

/// The kind of a file that begins with other bytes.
fn other(bytes: &[u8]) -> ErrorKind {
    match bytes {
        [b'{', ..] => ErrorKind::Json,
        _ => ErrorKind::NoRecording,
    }
}

impl Start {
    pub(crate) const LENGTH: usize = 32;

    pub(crate) fn bytes(self) -> [u8; Start::LENGTH] {
        let mut bytes = [0; Start::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.recording.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.sequence.to_le_bytes());
        let check = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// # Errors
    /// Why these are not the first bytes of a recording that can be read.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Start, ErrorKind> {
        let Some(start) = bytes.first_chunk::<{ Start::LENGTH }>() else {
            return Err(match bytes {
                [] => ErrorKind::Empty,
                _ => other(bytes),
            });
        };
        if start[..8] != MAGIC {
            return Err(other(bytes));
        }
        let version = u16::from_le_bytes([start[8], start[9]]);
        if version > VERSION {
            // Whatever stands behind the version is the newer program's business.
            return Err(ErrorKind::Newer {
                version,
                known: VERSION,
            });
        }
        let check = [start[28], start[29], start[30], start[31]];
        if version == 0 || u32::from_le_bytes(check) != crc32fast::hash(&start[..28]) {
            return Err(ErrorKind::Damaged);
        }
        let number = |from: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&start[from..from + 8]);
            u64::from_le_bytes(eight)
        };
        Ok(Start {
            recording: number(12),
            sequence: number(20),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_or_it_is_none() {
        let mut frame = vec![0; HEAD];
        frame.extend_from_slice(b"payload");
        seal(FrameKind::Key, &mut frame);
        let head = Head::from_bytes(&frame).expect("it was sealed");
        assert_eq!((head.kind, head.length), (FrameKind::Key, 7), "as written");
        assert!(head.is_of(&frame[HEAD..]), "the payload is its own");
        for place in 0..frame.len() {
            let mut broken = frame.clone();
            broken[place] ^= 1;
            let sound = Head::from_bytes(&broken).is_some_and(|head| head.is_of(&broken[HEAD..]));
            assert!(!sound, "one bit at {place} is noticed");
        }
        assert_eq!(
            Head::from_bytes(&frame[..HEAD - 1]),
            None,
            "half a head is none"
        );
    }

    #[test]
    fn a_start_says_what_it_is() {
        let start = Start {
            recording: 7,
            sequence: 3,
        };
        assert_eq!(
            Start::from_bytes(&start.bytes()),
            Ok(start),
            "there and back"
        );
        assert_eq!(
            Start::from_bytes(b""),
            Err(ErrorKind::Empty),
            "nothing at all"
        );
        assert_eq!(
            Start::from_bytes(b"time,pages\n1,2\n1,2\n1,2\n1,2\n1,2\n1,2"),
            Err(ErrorKind::NoRecording),
            "something else"
        );
        assert_eq!(Start::from_bytes(b"{}"), Err(ErrorKind::Json), "a report");
        let mut newer = start.bytes();
        newer[8] = 9;
        assert_eq!(
            Start::from_bytes(&newer),
            Err(ErrorKind::Newer {
                version: 9,
                known: VERSION
            }),
            "a version that is not known yet"
        );
        let mut damaged = start.bytes();
        damaged[13] ^= 1;
        assert_eq!(
            Start::from_bytes(&damaged),
            Err(ErrorKind::Damaged),
            "a bit off"
        );
    }
}
