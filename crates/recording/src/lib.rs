//! Recordings: what a machine did over time, on a disk.
//!
//! It is *not* a recorder: it measures nothing and has no clock. The caller writes [`Sample`]s in order
//! and reads them back, even after the writer was killed.
//!
//! A recording is a file with older parts beside it (`FILE.1` is the newest of them, then `FILE.2`, ...).
//! When a new part begins, the oldest is removed, so that the total size stays bounded. Each part can be
//! read alone. A part is a sequence of frames, each with its length and checksum and each written by one
//! call, so that a killed writer leaves at most one incomplete frame, the last. Frames store numbers as
//! differences to the previous sample and each name once. A key frame starts anew, so that damage loses
//! only the samples up to the next key frame.
//!
//! ```
//! use cachewise_recording::{Limits, Reader, Sample, Session, Writer};
//! # let directory = tempfile::tempdir()?;
//! # let file = directory.path().join("night.rec");
//! # let interval = cachewise_recording::example();
//! let session = Session::new(&interval.source);
//! let mut writer = Writer::create(&file, session, Limits::default())?;
//! writer.write(&Sample::from_interval(interval))?;
//! drop(writer);
//!
//! let mut reader = Reader::open(&file)?;
//! let sample = reader.next()?.expect("one was written");
//! assert_eq!(sample.interval.time, "2026-01-02T03:04:05.000Z");
//! assert!(reader.problems().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - `sample`, `session`: the recorded data; `reduce`: the most active rows, and one for all others.
//! - `writer`, `segment`: files, their order and size; `reader`, `history`: sequential access, access by number.
//! - `gap`: time that is missing, or covered by one long interval.
//! - `spreads`: minimum, maximum, percentiles; `summary`: a whole recording as one interval, with statistics.
//! - `frame`, `window`: frames in a file; `varint`; `names`: texts stored once.
//! - `codec`: samples as differences; `table`: rows as differences; `columns`: the columns by name; `cells`:
//!   rows as cells; `calls`: the calls of a stack as a text.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod calls;
mod cells;
mod codec;
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
pub use segment::{Limits, TargetFile, check_target};
pub use session::Session;
pub use spreads::Spreads;
pub use summary::{Range, summarize};
pub use writer::Writer;
