//! Quantities of `cachewise`: bytes, pages, ranges of both, rates, ratios and periods, with
//! parsers for user input and formatters for people.
//!
//! This crate measures nothing: no I/O, no clock, no system call, no dependency. Callers pass the
//! page size as [`PageSize`] (`cachewise-sys` reads the machine's), so that the tests cover 4, 16
//! and 64 KiB pages.
//!
//! Bytes and pages do not mix: there is no arithmetic and no `From` between them. A conversion
//! names the page size, and the rounding if there is any.
//!
//! ```
//! use cachewise_units::{ByteRange, Bytes, PageSize, Pages, Ratio};
//!
//! let page = PageSize::new(16 * 1024).expect("16 KiB is a power of two");
//! let size: Bytes = "1.5M".parse()?;
//! assert_eq!(size.pages_ceil(page), Pages(96));
//! assert_eq!(Pages(96).bytes(page).to_string(), "1.5 MiB");
//!
//! // Two bytes astride a page's border touch two pages.
//! assert_eq!(ByteRange { start: 16_383, len: 2 }.pages(page), Pages(2));
//!
//! // One miss in a million requests is not "100 %".
//! let hits = Ratio::of(999_999, 1_000_000).expect("there were requests");
//! assert_eq!(hits.to_string(), "99.99 %");
//! # Ok::<(), cachewise_units::ParseBytesError>(())
//! ```
//!
//! # Layout
//! - `quantity`: operations that [`Bytes`] and [`Pages`] share.
//! - `bytes`: [`Bytes`], its human forms, [`ParseBytesError`].
//! - `pages`: [`Pages`] and [`PageSize`].
//! - `range`: [`ByteRange`] and [`PageRange`].
//! - `period`: [`Period`], [`ParsePeriodError`].
//! - `rate`: [`Rate`]; `ratio`: [`Ratio`], [`ParseRatioError`].
//! - `text`: [`escaped`], [`shell_quoted`]: foreign names in text for people.
//! - `grouped`: numbers for people.
//! - `decimal`: exact decimal numbers, shared by the parsers.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod bytes;
mod decimal;
mod grouped;
mod pages;
mod period;
mod quantity;
mod range;
mod rate;
mod ratio;
mod text;

pub use bytes::{Bytes, ParseBytesError};
pub use grouped::{counted, grouped};
pub use pages::{PageSize, Pages};
pub use period::{ParsePeriodError, Period};
pub use range::{ByteRange, PageRange};
pub use rate::Rate;
pub use ratio::{ParseRatioError, Ratio};
pub use text::{escaped, shell_quoted};
