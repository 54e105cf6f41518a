//! Metrics, a web page and JSON over HTTP: what `cachewise serve` is made of.
//!
//! The crate reads nothing from the machine: whoever uses it hands in what watches ([`Watching`]) and what
//! looks at files ([`Surveying`]), and calls [`Gatherer::run`] on the thread that may do so. Requests are
//! answered by another thread, which asks that one.
//!
//! # Layout
//! - `options`: what is served to whom, and the bounds. `names`: which file names may be told.
//! - `source`: what must be handed in.
//! - `gather`: stretches become sums since the start, ticks for live views, and a window for findings.
//!   `survey`: the census and sets of files, on a thread of their own.
//! - `cache`: what fills the page cache, as a tree of directories.
//! - `metrics/`: the table of metrics, the exposition in two formats, the rank of control groups.
//! - `http/`: connections and their bounds, who may ask, the JSON, the stream of events, the page.
//! - `push`: the metrics, to a collector of OpenTelemetry.
//! - `report`: a recording as one page that needs no server.
//! - `schema`: what the JSON looks like, as OpenAPI.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod cache;
mod gather;
mod html;
mod http;
mod metrics;
mod names;
mod options;
#[cfg(feature = "otlp")]
mod push;
mod report;
mod schema;
mod source;
mod survey;

pub use cache::CacheTree;
pub use gather::{Asking, Gatherer};
pub use http::Server;
pub use metrics::{Collector, FAMILIES, Family, Series, UnknownCollector, markdown};
pub use names::Names;
pub use options::{Endpoint, Limits, Options, Token, WeakToken};
#[cfg(feature = "otlp")]
pub use push::{NotOtlp, Otlp, OtlpAddress};
pub use report::{ReportPage, report_page};
pub use schema::openapi;
pub use source::{Cost, FileSet, Machine, Surveying, Watching};
pub use survey::Survey;
