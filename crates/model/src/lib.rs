//! What cachewise knows: counters, rows, fields, reports and findings. Pure data, no I/O.
//!
//! The crate is not a reader of anything and not a printer of anything: numbers come in from whoever
//! measured them, and go out through [`FIELDS`], the one table from which columns, JSON names, CSV
//! headers, metric names and help texts are made.
//!
//! ```
//! use cachewise_model::{Counter, Ledger, Measured};
//!
//! let mut cold = Ledger::default();
//! cold.set(Counter::ReadRequestedPages, 131_072);
//! cold.set(Counter::ReadHitPages, 130_560);
//! cold.set(Counter::ReadMissedPages, 512);
//! cold.set(Counter::ReadaheadHitPages, 130_560);
//! assert_eq!(cold.hits(), Measured::Exact(130_560));
//! assert_eq!(cold.read_cached_pages(), Measured::Exact(0));
//! ```
//!
//! # Layout
//! - `counter`, `ledger`, `derived`: what was asked of the page cache, and what follows from it.
//! - `measured`, `value`, `unit`: a number with its quality and unit.
//! - `row`, `field`, `fields`, `lookup`: one line of a table, the table of fields, and finding one.
//! - `seldom`: the groups of numbers that most rows do not have.
//! - `shown`: which columns tables show, and what their rows are sorted by.
//! - `measure`: what a measurement of reading or writing counts.
//! - `system`: numbers of the machine or a control group.
//! - `stretch`: what everybody did in a stretch of time; the way of live views and recordings.
//! - `summary`: a recording, or a part of one, in numbers.
//! - `report`, `parts`, `exit`, `law`: what a run gave, and whether its numbers add up.
//! - `exactness`: how far to trust a set of numbers, for every output.
//! - `finding`, `findings`: what is wrong with a run, and the next step; one file per rule.
//! - `checkup`: what a machine offers, and what is wrong on it.
//! - [`escaped`], [`shell_quoted`], of `units`: names from outside, safe on a terminal and quoted for a shell.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod checkup;
mod counter;
mod derived;
mod exactness;
mod exit;
mod field;
mod fields;
mod finding;
mod findings;
mod law;
mod ledger;
mod lookup;
mod measure;
mod measured;
mod parts;
mod redact;
mod report;
mod residency;
mod row;
mod seldom;
mod shown;
mod stretch;
mod summary;
mod system;
mod unit;
mod value;

pub use cachewise_units::{escaped, shell_quoted};
pub use checkup::{Check, Checkup, State};
pub use counter::Counter;
pub use exactness::Exactness;
pub use exit::Exit;
pub use field::{FIELDS, Field, Kind};
pub use finding::{Finding, Severity};
pub use findings::{Blind, RULES, Rule, blind, diagnose};
pub use law::{CONTRADICTION, Law, Verdict, contradicts_itself, laws, mark_contradiction};
pub use ledger::Ledger;
pub use lookup::{columns, field, suggest};
pub use measure::{INTERVAL_COLUMNS, LATENCY_COLUMNS, Latencies, Measurement, TOTAL_COLUMNS};
pub use measured::{Count, Measured, Missing};
pub use parts::{ALL_OTHERS, CgroupRow, DeviceRow, FileRow, ProcessRow};
pub use redact::redact_arguments;
pub use report::{Backend, Lost, Report, SCHEMA_VERSION, Surroundings};
pub use residency::Residency;
pub use row::{Labels, NOT_HERE, Row, Subject};
pub use seldom::{Group, Seldom};
pub use shown::{ORDER, Part, Place, STAT_COLUMNS, Shown};
pub use stretch::{Stretch, Sum, Use};
pub use summary::{Figures, Gap, GapKind, Spread, Stall, Summary};
pub use system::System;
pub use unit::Unit;
pub use value::{Datum, Value};
