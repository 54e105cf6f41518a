//! Recordings: what a machine did over time, on a disk.
//!
//! It is *not* a recorder: it measures nothing and knows no clock. Somebody hands in [`Sample`]s, one
//! after the other, and reads them back, also when whoever wrote them was killed in between.
//!
//! A recording is a file, and older parts beside it (`FILE.1` the newest of them, `FILE.2`, ...): the
//! oldest goes when a new one is begun, so that the whole stays below a size. Each part can be read alone.
//! It is a row of frames, each with its length and check sum and each written by one call: what a killed
//! writer leaves is whole but for the last frame. Numbers are differences to the sample before, names
//! stand once; with every key frame that begins anew, so that a damaged place costs what lies between it
//! and the next one and no more.
//!
//! ```
//! use cachewise_model::{Backend, Stretch};
//! use cachewise_recording::{Limits, Reader, Sample, Session, Writer};
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("night.rec");
//! # let stretch = cachewise_recording::example();
//! let session = Session::new("box", "6.18", 4096, Backend::default());
//! let mut writer = Writer::create(&file, session, Limits::default())?;
//! writer.write(&Sample::of(stretch))?;
//! drop(writer);
//!
//! let mut reader = Reader::open(&file)?;
//! let sample = reader.next()?.expect("one was written");
//! assert_eq!(sample.stretch.time, "2026-01-02T03:04:05.000Z");
//! assert!(reader.problems().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - `sample`, `session`: what is recorded; `reduce`: the most active rows, and one for all others.
//! - `writer`, `segment`: files, their order and their size; `reader`, `history`: one after the other, or
//!   by number.
//! - `gap`: time that a recording does not have, or has in one piece.
//! - `spreads`: minimum, maximum, percentiles; `summary`: a whole recording in one.
//! - `frame`, `window`: frames in a file; `varint`; `names`: texts that stand once.
//! - `table`: rows as differences; `columns`, `cells`: which numbers there are, by name, and rows as cells.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod cells;
mod columns;
mod error;
mod frame;
mod gap;
mod history;
mod names;
mod reader;
mod reduce;
mod sample;
mod segment;
mod session;
mod spreads;
mod summary;
mod table;
mod varint;
mod window;
mod writer;

pub use error::{Error, ErrorKind, Problem};
pub use gap::Gaps;
pub use history::History;
pub use reader::Reader;
pub use reduce::reduce;
pub use sample::{Sample, example};
pub use segment::{Found, Limits, look};
pub use session::Session;
pub use spreads::Spreads;
pub use summary::{Range, summarize};
pub use writer::Writer;
