//! Data model of cachewise: counters, rows, fields, intervals and findings. Pure data, no I/O.
//!
//! The crate neither reads nor prints: numbers come from the program that measured them, and go out
//! through [`FIELDS`], the table that defines columns, JSON names, CSV headers, metric names and
//! help texts.
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
//! - `counter`, `ledger`, `derived`: requests to the page cache, and derived numbers.
//! - `times`: what tasks waited for, and what a run would take with a warm cache.
//! - `measured`, `value`, `unit`: a number with its quality and unit.
//! - `row`, `field`, `kind`, `fields`, `lookup`: a line of a table, the table of fields, and look-up.
//! - `condition`: a field compared with a value.
//! - `sparse`: groups of numbers that most rows do not have.
//! - `shown`: columns of tables, and the order of their rows.
//! - `measure`: numbers of a measurement.
//! - `sizing`: numbers of a simulated memory size.
//! - `system`: numbers of the machine or a control group.
//! - `interval`, `parts`, `lost`: what was counted in one interval, of a run too, and what was lost; `interval_sum`: sums of them.
//! - `group_memory`: limits of control groups, and their room for page cache. `group_names`: their unit, container and pod; `names_of_groups`: of their processes' rows.
//! - `source`: the machine, and how it was counted. `run`, `exit`: a command or process that was watched.
//! - `statistics`: statistics of a recording.
//! - `law`, `laws`, `row_laws`: independent counts that must agree, of the sums and of rows.
//! - `eviction`, `eviction_cause`: evicted pages by process and cause.
//! - `exactness`: quality of a set of numbers, for every output.
//! - `finding`, `findings`: findings with their next steps; one file per rule.
//! - `verdict`, `time_verdict`: the answer of a run in one line, in pages and in seconds.
//! - `checkup`: capabilities and findings of a machine.
//! - [`escaped`], [`shell_quoted`], of `units`: foreign names, safe on a terminal and quoted for a
//!   shell.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod checkup;
mod condition;
mod copies;
mod counter;
mod derived;
mod eviction;
mod eviction_cause;
mod exactness;
mod exit;
mod field;
mod fields;
mod finding;
mod findings;
mod group_memory;
mod group_names;
mod interval;
mod interval_sum;
mod kind;
mod law;
mod laws;
mod ledger;
mod lookup;
mod lost;
mod measure;
mod measured;
mod names_of_groups;
mod parts;
mod reason;
mod redact;
mod residency;
mod row;
mod row_laws;
mod run;
mod shown;
mod sizing;
mod source;
mod sparse;
mod stack_sum;
mod stacks;
mod statistics;
mod system;
mod time_verdict;
mod times;
mod unit;
mod value;
mod verdict;

pub use cachewise_units::{escaped, shell_quoted};
pub use checkup::{Check, Checkup, State};
pub use condition::Condition;
pub use copies::Copies;
pub use counter::Counter;
pub use eviction::{Culprit, Eviction};
pub use eviction_cause::EvictionCause;
pub use exactness::Exactness;
pub use exit::Exit;
pub use field::Field;
pub use fields::FIELDS;
pub use finding::{Finding, Folded, Severity, SubjectKind};
pub use findings::{Blind, Diagnosis, RULES, Rule, blind, diagnose};
pub use group_memory::Room;
pub use group_names::GroupNames;
pub use interval::{Interval, ProcessFileUse};
pub use interval_sum::Sum;
pub use kind::Kind;
pub use law::{Law, LawScope, Relation, Side, Verdict};
pub use laws::{contradicts_itself, laws, mark_contradiction};
pub use ledger::Ledger;
pub use lookup::{columns, did_you_mean, field, nearest_names, suggest};
pub use lost::Lost;
pub use measure::{INTERVAL_COLUMNS, LATENCY_COLUMNS, Latencies, Measurement, TOTAL_COLUMNS};
pub use measured::{Count, Measured, Missing, NOT_APPLICABLE};
pub use names_of_groups::NamesOfGroups;
pub use parts::{ALL_OTHERS, CgroupRow, DeviceRow, FileNumber, FileRow, ProcessRow};
pub use reason::Reason;
pub use redact::redact_arguments;
pub use residency::Residency;
pub use row::{Labels, Row, Subject};
pub use row_laws::{
    DeviceUse, FileUse, device_laws, group_residency_law, mark_device, mark_residency,
    residency_law,
};
pub use run::{Run, Surroundings, Verification};
pub use shown::{ORDER, Part, STAT_COLUMNS, Shown, TablePlace};
pub use sizing::{SIZE_COLUMNS, Sizing};
pub use source::{Backend, Source};
pub use sparse::{FieldGroup, SparseFields};
pub use stacks::{CodePlace, Frame, Stack, StackKind, Stacks, Weight};
pub use statistics::{Figures, Gap, GapKind, Spread, Stall, Statistics};
pub use system::System;
pub use times::{TimeUse, Warm};
pub use unit::Unit;
pub use value::{Datum, Value};

/// The version of the JSON documents; goes up when a name or a meaning changes.
pub const SCHEMA_VERSION: u32 = 1;
