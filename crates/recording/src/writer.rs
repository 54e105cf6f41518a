//! Writes a recording.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, flock};

use crate::codec::Encoder;
use crate::error::{Error, ErrorKind};
use crate::frame::{FrameKind, HEAD, LONGEST, Start, seal};
use crate::sample::Sample;
use crate::segment::{self, Limits, Part, directory, numbered};
use crate::session::Session;
use crate::window::{At, Window};

/// Room for a sample from the start: memory may be short when one is due.
const ROOM: usize = 1 << 20;

/// Writes samples, each with one call.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    start: Start,
    session: Session,
    limits: Limits,
    encoder: Encoder,
    frame: Vec<u8>,
    /// Where the next frame goes.
    end: u64,
    /// How many differences may still come before a key frame.
    until_key: u32,
    /// How long the last key frame was, and all differences since.
    key_length: u64,
    since_key: u64,
    /// The number of key frames until the session is written again.
    until_session: u32,
    /// Bytes cut off from the end of an existing part.
    cut: u64,
    samples: u64,
    written: u64,
}

impl Writer {
    /// Begins a recording. The file has its name only when its beginning is in it.
    ///
    /// # Errors
    /// Also if there is something of that name already.
    pub fn create(path: &Path, session: Session, limits: Limits) -> Result<Writer, Error> {
        let wrong = |kind: ErrorKind| Error::new("create the recording", path, kind);
        // A file without anything in it, as mktemp makes them, is taken over.
        let is_empty = matches!(segment::open(path), Ok((_, 0, _)));
        foreign_part(path, &limits, None).map_err(wrong)?;
        let start = Start {
            recording: RandomState::new().hash_one(std::process::id()),
            sequence: 0,
        };
        let (temporary, end) = begin(path, start, &session).map_err(wrong)?;
        let persisted = match is_empty {
            true => temporary.persist(path),
            false => temporary.persist_noclobber(path),
        };
        let file = persisted.map_err(|error| wrong(error.error.into()))?;
        Ok(Writer::new(path, file, start, session, limits, end))
    }

    /// Continues a recording. Existing samples stay; an incomplete frame at the end is cut off.
    ///
    /// # Errors
    /// Also if it is not a recording, or another process records into it.
    pub fn append(path: &Path, mut session: Session, limits: Limits) -> Result<Writer, Error> {
        let wrong = |kind: ErrorKind| Error::new("append to", path, kind);
        let parts = segment::parts(path).map_err(wrong)?;
        let Some(newest) = parts.last() else {
            // It says why there is none.
            return Err(wrong(match segment::open(path) {
                Err(kind) | Ok((_, _, Err(kind))) => kind,
                Ok(_) => ErrorKind::NoRecording,
            }));
        };
        foreign_part(path, &limits, Some(&parts)).map_err(wrong)?;
        // Locked before its end is looked for: another recorder would go on meanwhile.
        let file = (newest.number == 0).then(|| locked(path));
        let file = file.transpose().map_err(wrong)?;
        let now = segment::parts(path).map_err(wrong)?;
        if now.last().is_none_or(|now| now.start != newest.start) {
            return Err(wrong(ErrorKind::Busy));
        }
        let tail = Tail::of_file(&newest.path).map_err(wrong)?;
        session.go = tail.go.map_or(0, |go| go + 1);
        let Some(file) = file else {
            // The recorder was killed between two names: the next part begins here.
            let start = Start {
                sequence: newest.start.sequence + 1,
                ..newest.start
            };
            let (temporary, end) = begin(path, start, &session).map_err(wrong)?;
            let file = temporary
                .persist_noclobber(path)
                .map_err(|error| wrong(error.error.into()))?;
            return Ok(Writer::new(path, file, start, session, limits, end));
        };
        file.set_len(tail.end)
            .map_err(|error| wrong(error.into()))?;
        let mut writer = Writer::new(path, file, newest.start, session, limits, tail.end);
        writer.cut = tail.cut;
        writer.put_session()?;
        Ok(writer)
    }

    fn new(
        path: &Path,
        file: File,
        start: Start,
        session: Session,
        limits: Limits,
        end: u64,
    ) -> Writer {
        Writer {
            path: path.to_owned(),
            file,
            start,
            session,
            limits,
            encoder: Encoder::default(),
            frame: Vec::with_capacity(ROOM),
            end,
            until_key: 0,
            key_length: 0,
            since_key: 0,
            until_session: SESSION_EVERY,
            cut: 0,
            samples: 0,
            written: 0,
        }
    }

    /// Writes a sample. If it fails, what was written before is as it was.
    ///
    /// # Errors
    /// What the file system says; [`Error::is_full`] tells whether there is no room.
    pub fn write(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.encoder.is_full() || self.since_key >= KEY_PART * self.key_length {
            self.until_key = 0;
        }
        let mut length = self.encode(sample)?;
        let is_full = self.end + self.frame.len() as u64 > self.limits.part_size();
        if is_full && self.has_samples() {
            self.rotate()?;
            self.until_key = 0;
            length = self.encode(sample)?;
        }
        self.put()?;
        match self.until_key {
            0 => (self.key_length, self.since_key) = (length, 0),
            _ => self.since_key += length,
        }
        self.until_key = match self.until_key {
            0 => self.limits.key_every.saturating_sub(1),
            left => left - 1,
        };
        self.samples += 1;
        Ok(())
    }

    /// How many samples were written.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// How many bytes were written, to whichever part.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the bytes cut off from the end of the existing recording: an incomplete sample.
    #[must_use]
    pub fn cut(&self) -> u64 {
        self.cut
    }

    fn has_samples(&self) -> bool {
        // The beginning alone is far shorter than a sample with its session.
        self.samples > 0 || self.end > Start::LENGTH as u64 + LONGEST_SESSION
    }

    /// Makes the frame of a sample; returns its length without a session frame before it.
    fn encode(&mut self, sample: &Sample) -> Result<u64, Error> {
        let kind = match self.until_key {
            0 => FrameKind::Key,
            _ => FrameKind::Difference,
        };
        self.frame.clear();
        if kind == FrameKind::Key {
            self.encoder.clear();
            self.until_session = match self.until_session {
                0 => {
                    // With the key frame in one write: a session alone is of no use.
                    session_frame(&self.session, &mut self.frame)
                        .map_err(|kind| Error::new("write to", &self.path, kind))?;
                    SESSION_EVERY
                }
                left => left - 1,
            };
        }
        let begin = self.frame.len();
        self.frame.resize(begin + HEAD, 0);
        let encoded = self.encoder.put(sample, &mut self.frame);
        let kept = encoded.and_then(|()| match self.frame.len() - begin - HEAD {
            0..=LONGEST => Ok(()),
            length => Err(ErrorKind::Sample(format!(
                "a sample of {length} bytes is too long: record fewer processes and files"
            ))),
        });
        if let Err(kind) = kept {
            self.until_key = 0;
            return Err(Error::new("write a sample to", &self.path, kind));
        }
        seal(kind, &mut self.frame[begin..]);
        Ok((self.frame.len() - begin) as u64)
    }

    fn put_session(&mut self) -> Result<(), Error> {
        self.frame.clear();
        session_frame(&self.session, &mut self.frame)
            .map_err(|kind| Error::new("append to", &self.path, kind))?;
        self.put()
    }

    /// Writes the prepared frame completely or not at all.
    fn put(&mut self) -> Result<(), Error> {
        if let Err(error) = self.file.write_all_at(&self.frame, self.end) {
            // A reader leaves half a frame out, but why have it.
            let _ = self.file.set_len(self.end);
            self.until_key = 0;
            return Err(Error::new("write a sample to", &self.path, error));
        }
        self.end += self.frame.len() as u64;
        self.written += self.frame.len() as u64;
        Ok(())
    }

    /// Begins the next part. The new file is whole before any other gets another name.
    fn rotate(&mut self) -> Result<(), Error> {
        let path = self.path.clone();
        let wrong = |kind: ErrorKind| Error::new("begin the next part of", &path, kind);
        let parts = segment::parts(&path).map_err(wrong)?;
        foreign_part(&path, &self.limits, Some(&parts)).map_err(wrong)?;
        let start = Start {
            sequence: self.start.sequence + 1,
            ..self.start
        };
        let keep = self.limits.keep.max(1);
        let mut older: Vec<&Part> = parts.iter().collect();
        older.sort_by_key(|part| part.number);
        // The oldest goes first, so that the new one finds room.
        older.retain(|part| {
            let stays = part.number + 1 < keep;
            if !stays && part.number > 0 {
                let _ = fs::remove_file(&part.path);
            }
            stays
        });
        let (temporary, end) = begin(&path, start, &self.session).map_err(wrong)?;
        for part in older.iter().rev() {
            fs::rename(&part.path, numbered(&path, part.number + 1))
                .map_err(|error| wrong(error.into()))?;
        }
        let persisted = match keep {
            // Nothing older is kept: it takes the place of what was there.
            1 => temporary.persist(&path),
            _ => temporary.persist_noclobber(&path),
        };
        self.file = persisted.map_err(|error| wrong(error.error.into()))?;
        (self.start, self.end) = (start, end);
        self.until_session = SESSION_EVERY;
        Ok(())
    }
}

/// So that damage at the beginning of a part does not cost the whole part.
const SESSION_EVERY: u32 = 32;

/// A new key frame begins when the differences since the last are this many times its length.
/// Damage loses the samples up to the next key frame, so short key frames repeat often. Key frames
/// add a quarter to the size at most, and less after compression, as they repeat earlier data.
const KEY_PART: u64 = 4;

/// A session's frame has the names of all columns, and a command line.
const LONGEST_SESSION: u64 = 256 << 10;

fn session_frame(session: &Session, out: &mut Vec<u8>) -> Result<(), ErrorKind> {
    let begin = out.len();
    out.resize(begin + HEAD, 0);
    session.put(out).map_err(ErrorKind::Sample)?;
    seal(FrameKind::Session, &mut out[begin..]);
    Ok(())
}

/// A new part without its name yet, locked, with what stands before the samples.
fn begin(
    path: &Path,
    start: Start,
    session: &Session,
) -> Result<(tempfile::NamedTempFile, u64), ErrorKind> {
    let temporary = tempfile::Builder::new()
        .prefix(".cachewise-record-")
        .tempfile_in(directory(path))
        .map_err(|error| why_not(directory(path), &error))?;
    let mut bytes = start.bytes().to_vec();
    session_frame(session, &mut bytes)?;
    lock(temporary.as_file())?;
    temporary.as_file().write_all_at(&bytes, 0)?;
    Ok((temporary, bytes.len() as u64))
}

/// Returns why no file can be made in a directory, without the name of the temporary file, which the caller does not know.
/// `tempfile` gives the kind of an error and not its number.
fn why_not(directory: &Path, error: &io::Error) -> io::Error {
    match rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Err(errno) => errno.into(),
        Ok(()) => error.kind().into(),
    }
}

fn locked(path: &Path) -> Result<File, ErrorKind> {
    // With O_CREAT the kernel refuses files that other users have put into a directory for all (fs.protected_regular).
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    lock(&file)?;
    Ok(file)
}

fn lock(file: &File) -> Result<(), ErrorKind> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ErrorKind::Busy),
        // Some network file systems have no locks: the check is skipped there.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOLCK) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Refuses where a file that is not of this recording has the name of a part.
fn foreign_part(path: &Path, limits: &Limits, ours: Option<&[Part]>) -> Result<(), ErrorKind> {
    for number in 1..limits.keep {
        let part = numbered(path, number);
        let is_ours = ours.is_some_and(|ours| ours.iter().any(|ours| ours.path == part));
        if !is_ours && part.symlink_metadata().is_ok() {
            return Err(ErrorKind::Sample(format!(
                "{} is in the way: an older part would get this name; move it, or record elsewhere",
                part.display()
            )));
        }
    }
    Ok(())
}

/// The end of a part.
struct Tail {
    /// Where to go on writing.
    end: u64,
    /// Bytes of an incomplete frame after it.
    cut: u64,
    /// The number of the last session.
    go: Option<u64>,
}

impl Tail {
    fn of_file(path: &Path) -> Result<Tail, ErrorKind> {
        let (file, length, start) = segment::open(path)?;
        start?;
        let mut window = Window::new(file, length);
        let mut place = Start::LENGTH as u64;
        let mut go = None;
        loop {
            match window.at(place)? {
                At::Frame(FrameKind::Session, next) => {
                    let session = Session::from_bytes(window.payload(place, next)?);
                    go = session.map_or(go, |session| Some(session.go));
                    place = next;
                }
                At::Frame(_, next) => place = next,
                At::Garbage => match window.next_frame(place)? {
                    Some(next) => place = next,
                    None => break,
                },
                At::End => break,
            }
        }
        Ok(Tail {
            end: place,
            cut: length.saturating_sub(place),
            go,
        })
    }
}
