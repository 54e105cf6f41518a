//! The server behind `cachewise serve`: metrics, a web page and JSON over HTTP.
//!
//! The crate reads nothing from the machine. The caller supplies the counters ([`Watching`]) and the survey of files
//! ([`Surveying`]), and calls [`Gatherer::run`] on a thread that has the privileges to read them. A second thread
//! serves HTTP and sends requests to the first.
//!
//! # Layout
//! - `options`: endpoints, access and limits. `names`: the policy on file names.
//! - `source`: the traits that the caller implements.
//! - `gather`: the thread that watches. `gathered`: sums since the start, ticks for live views, a window for findings.
//!   `history`: the past of the charts. `subject`: one process, file, group or device: its files, readers and past.
//!   `findings`: the findings of the last minute.
//! - `survey`: the census and sets of files, on a thread of their own.
//! - `cache`: the contents of the page cache as a tree of directories.
//! - `columns`: the columns and the order of tables. `folded`: processes that have ended, by command. `events`: ticks as events for live views.
//! - `metrics/`: the table of metrics, the exposition in two formats, the ranking of control groups.
//! - `http/`: connections and their limits, access control, JSON, the stream of events, the page.
//! - `push`: metrics sent to an OpenTelemetry collector.
//! - `page`: the page as HTML, of a server or of a recording. `documents`: documents that both make.
//! - `report`: a recording as one self-contained page.
//! - `schema`: the OpenAPI description of the JSON.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod cache;
mod columns;
mod documents;
mod events;
mod folded;
mod gather;
mod gathered;
mod history;
mod html;
mod http;
mod metrics;
mod names;
mod options;
mod page;
#[cfg(feature = "otlp")]
mod push;
mod report;
#[cfg(test)]
mod sample;
mod schema;
mod source;
mod subject;
mod subject_id;
mod survey;

pub use cache::CacheTree;
pub use gather::{Asking, Gatherer};
pub use http::Server;
pub use metrics::{Collector, FAMILIES, Family, Series, UnknownCollector, markdown};
pub use names::Names;
pub use options::{Endpoint, Limits, Options, Token, WeakToken};
#[cfg(feature = "otlp")]
pub use push::{NotOtlp, Otlp, OtlpAddress};
pub use report::{ReportSamples, report_page};
pub use schema::openapi;
pub use source::{Cost, FileSet, Machine, Surveying, Watching};
pub use survey::Survey;
