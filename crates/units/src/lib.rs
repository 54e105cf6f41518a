//! Quantities of `cachewise`: bytes, pages, ranges of both, rates, ratios and intervals, parsed
//! from what people type and printed as they read it.
//!
//! It is *not* a place where anything is measured: no I/O, no clock, no system call, no
//! dependency. The size of a page is handed in as [`PageSize`] (`cachewise-sys` reads the
//! machine's), so that every rule here is tested with 4, 16 and 64 KiB pages alike.
//!
//! Bytes and pages do not mix: there is no arithmetic and no `From` between them. The one road
//! from one to the other names the page size, and the rounding where there is any.
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
//! - `quantity`: what [`Bytes`] and [`Pages`] have in common.
//! - `bytes`: [`Bytes`], its human forms, [`ParseBytesError`].
//! - `pages`: [`Pages`] and [`PageSize`].
//! - `range`: [`ByteRange`] and [`PageRange`].
//! - `interval`: [`Interval`], [`ParseIntervalError`].
//! - `rate`: [`Rate`]; `ratio`: [`Ratio`].
//! - `text`: [`escaped`], [`shell_quoted`]: names from outside in what people read.
//! - `decimal`: exact decimal numbers, shared by the parsers.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod bytes;
mod decimal;
mod interval;
mod pages;
mod quantity;
mod range;
mod rate;
mod ratio;
mod text;

pub use bytes::{Bytes, ParseBytesError};
pub use interval::{Interval, ParseIntervalError};
pub use pages::{PageSize, Pages};
pub use range::{ByteRange, PageRange};
pub use rate::Rate;
pub use ratio::Ratio;
pub use text::{escaped, shell_quoted};
