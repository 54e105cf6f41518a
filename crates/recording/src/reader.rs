//! Reads a recording, one sample after the other.

use std::path::{Path, PathBuf};

use crate::codec::Decoder;
use crate::error::{Error, ErrorKind, Problem};
use crate::frame::{FrameKind, HEAD, Head, Start};
use crate::sample::Sample;
use crate::segment::{self, Part};
use crate::session::Session;
use crate::window::{At, Window};

/// More problems than this are counted, not kept.
const MOST_PROBLEMS: usize = 100;

/// Reads samples in their order, and leaves out what cannot be read.
#[derive(Debug)]
pub struct Reader {
    parts: Vec<Part>,
    /// The next of them.
    next_part: usize,
    part: Option<Open>,
    session: Option<Session>,
    decoder: Decoder,
    /// Whether a difference has what it is a difference to.
    is_ready: bool,
    go: Option<u64>,
    begins: bool,
    after_loss: bool,
    /// Whether samples were lost since the last one; half a last one is none.
    loses: bool,
    position: Option<Position>,
    problems: Vec<Problem>,
    more_problems: u64,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    window: Window,
    place: u64,
    session: Option<u64>,
}

/// Where a key frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    part: usize,
    session: u64,
    place: u64,
}

impl Reader {
    /// Opens a recording with all its parts.
    ///
    /// # Errors
    /// If it is not a recording, or cannot be read. [`Reader::problems`] reports damage inside it.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        let wrong = |kind| Error::new("read", path, kind);
        let parts = segment::parts(path).map_err(wrong)?;
        let newest_is_there = parts.iter().any(|part| part.number == 0);
        if !newest_is_there {
            let kind = match segment::open(path) {
                Err(kind) | Ok((_, _, Err(kind))) => kind,
                Ok(_) => ErrorKind::NoRecording,
            };
            let is_gone = matches!(&kind, ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::NotFound);
            if parts.is_empty() || !is_gone {
                return Err(wrong(kind));
            }
        }
        Ok(Reader {
            parts,
            next_part: 0,
            part: None,
            session: None,
            decoder: Decoder::default(),
            is_ready: false,
            go: None,
            begins: false,
            after_loss: false,
            loses: false,
            position: None,
            problems: Vec::new(),
            more_problems: 0,
        })
    }

    /// The session that the last sample was of; before the first, none.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns the problems found so far.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The same in words, and how many there were beside those.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        let mut told: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        if self.more_problems > 0 {
            told.push(format!("and {} more like these", self.more_problems));
        }
        told
    }

    /// Whether samples after the last one could not be read.
    #[must_use]
    pub fn loses_after_last(&self) -> bool {
        self.loses
    }

    /// The next sample; none at the end.
    ///
    /// # Errors
    /// If a file cannot be read on: what is damaged in it is no error.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that goes on after an error would read the same place again"
    )]
    pub fn next(&mut self) -> Result<Option<Sample>, Error> {
        loop {
            let Some(open) = &mut self.part else {
                if !self.open_next() {
                    return Ok(None);
                }
                continue;
            };
            let wrong = |open: &Open, error| Error::new("read", &open.path, ErrorKind::Io(error));
            let place = open.place;
            let at = open.window.at(place).map_err(|error| wrong(open, error))?;
            match at {
                At::End => self.part = None,
                At::Garbage => {
                    let next = open.window.next_frame(place);
                    let next = next.map_err(|error| wrong(open, error))?;
                    let bytes = next.unwrap_or(open.window.length).saturating_sub(place);
                    let is_cut = next.is_none()
                        && is_cut(open, place).map_err(|error| wrong(open, error))?;
                    let path = open.path.clone();
                    match next {
                        Some(next) => open.place = next,
                        None => self.part = None,
                    }
                    self.is_ready = false;
                    self.lose(match is_cut {
                        true => Problem::Cut { path, bytes },
                        false => Problem::Damaged {
                            path,
                            offset: place,
                            bytes,
                            to_end: next.is_none(),
                            samples: 0,
                        },
                    });
                }
                At::Frame(kind, next) => {
                    open.place = next;
                    if let Some(sample) = self.frame(kind, place, next)? {
                        return Ok(Some(sample));
                    }
                }
            }
        }
    }

    /// Takes a frame in; a sample if it is one.
    fn frame(&mut self, kind: FrameKind, place: u64, next: u64) -> Result<Option<Sample>, Error> {
        let Some(open) = &mut self.part else {
            return Ok(None);
        };
        let payload = open
            .window
            .payload(place, next)
            .map_err(|error| Error::new("read", &open.path, ErrorKind::Io(error)))?;
        self.position = None;
        let malformed = match kind {
            FrameKind::Session => match Session::from_bytes(payload) {
                Ok(session) => {
                    open.session = Some(place);
                    self.begins |= self.go != Some(session.go);
                    self.go = Some(session.go);
                    self.decoder.begin(&session);
                    self.session = Some(session);
                    self.is_ready = false;
                    return Ok(None);
                }
                Err(malformed) => {
                    open.session = None;
                    malformed
                }
            },
            FrameKind::Difference if !self.is_ready => {
                let path = open.path.clone();
                self.after_loss = true;
                self.orphan(path);
                return Ok(None);
            }
            FrameKind::Key if open.session.is_none() => {
                let path = open.path.clone();
                self.orphan(path);
                return Ok(None);
            }
            FrameKind::Key | FrameKind::Difference => {
                if kind == FrameKind::Key {
                    self.decoder.clear();
                }
                match self.decoder.take(payload) {
                    Ok(sample) => {
                        self.is_ready = true;
                        if let (FrameKind::Key, Some(session)) = (kind, open.session) {
                            self.position = Some(Position {
                                part: self.next_part - 1,
                                session,
                                place,
                            });
                        }
                        self.loses = false;
                        return Ok(Some(Sample {
                            begins: std::mem::take(&mut self.begins),
                            after_loss: std::mem::take(&mut self.after_loss),
                            ..sample
                        }));
                    }
                    Err(malformed) => malformed,
                }
            }
        };
        // Sound by its check sum and yet nonsense: what follows cannot build on it.
        let path = open.path.clone();
        self.is_ready = false;
        self.lose(Problem::PartUnreadable {
            path,
            why: format!("a frame at byte {place} makes no sense: {}", malformed.0),
        });
        Ok(None)
    }

    /// Opens the next part that can be opened.
    fn open_next(&mut self) -> bool {
        while let Some(part) = self.parts.get(self.next_part).cloned() {
            let before = (self.next_part.checked_sub(1)).and_then(|place| self.parts.get(place));
            let expected = before.map(|before| before.start.sequence + 1);
            self.next_part += 1;
            if let Some(missing) = expected
                .and_then(|expected| part.start.sequence.checked_sub(expected))
                .filter(|missing| *missing > 0)
            {
                self.lose(Problem::PartMissing {
                    path: part.path.clone(),
                    parts: missing,
                });
            }
            self.is_ready = false;
            match segment::open(&part.path) {
                Ok((file, length, Ok(start))) if start == part.start => {
                    self.part = Some(Open {
                        path: part.path,
                        window: Window::new(file, length),
                        place: Start::LENGTH as u64,
                        session: None,
                    });
                    return true;
                }
                Ok((_, _, Err(why))) | Err(why) => self.lose(Problem::PartUnreadable {
                    path: part.path,
                    why: why.to_string(),
                }),
                Ok(_) => self.lose(Problem::PartUnreadable {
                    path: part.path,
                    why: "its name went to another part: somebody records".into(),
                }),
            }
        }
        false
    }

    /// Where the last sample is, if it is a key frame.
    pub(crate) fn position(&self) -> Option<Position> {
        self.position
    }

    /// Goes to a key frame: the next sample is that one.
    pub(crate) fn seek(&mut self, to: Position) -> Result<(), Error> {
        self.part = None;
        self.next_part = to.part;
        if !self.open_next() || self.next_part != to.part + 1 {
            // The place is one of another part: what stands there in this one is another sample.
            self.part = None;
            let path = self.parts.get(to.part).map(|part| part.path.as_path());
            let gone = std::io::Error::other("its part was taken away since, or has another name");
            return Err(Error::new("read", path.unwrap_or(Path::new("")), gone));
        }
        if let Some(open) = &mut self.part {
            let at = open.window.at(to.session);
            let at = at.map_err(|error| Error::new("read", &open.path, ErrorKind::Io(error)))?;
            if let At::Frame(kind, next) = at {
                self.frame(kind, to.session, next)?;
            }
        }
        if let Some(open) = &mut self.part {
            open.place = to.place;
        }
        Ok(())
    }

    fn orphan(&mut self, path: PathBuf) {
        (self.after_loss, self.loses) = (true, true);
        if let Some(
            Problem::Orphans {
                path: last,
                samples,
            }
            | Problem::Damaged {
                path: last,
                samples,
                ..
            },
        ) = self.problems.last_mut()
            && (*last == path || self.more_problems > 0)
        {
            *samples += 1;
            return;
        }
        self.lose(Problem::Orphans { path, samples: 1 });
    }

    fn lose(&mut self, problem: Problem) {
        // Half a last sample is no gap in what was before it, but one to what comes after.
        self.after_loss = true;
        self.loses |= !matches!(problem, Problem::Cut { .. });
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

/// Whether what is no frame is only the beginning of one.
fn is_cut(open: &mut Open, place: u64) -> std::io::Result<bool> {
    let left = open.window.length.saturating_sub(place);
    let head = Head::from_bytes(open.window.slice(place, HEAD)?);
    Ok(left < HEAD as u64 || head.is_some_and(|head| (HEAD + head.length) as u64 > left))
}
