//! Metrics for Prometheus, OpenMetrics and OpenTelemetry.
//!
//! # Layout
//! - `table`: the table of metrics. `family`: metrics with one name. `collector`: groups of families.
//! - `markdown`: the table as documentation.
//! - `sums`: the counters that a scrape takes from the watching thread. `scrape`: the exposition built from them.
//! - `exposition`: the text formats. `groups`: the busiest control groups.
//! - `culprits`: the control groups that evict most. `devices`: a bounded number of devices.
//! - `otlp`: the exposition as an OTLP message.

mod collector;
mod culprits;
mod devices;
mod exposition;
mod family;
mod groups;
mod markdown;
#[cfg(feature = "otlp")]
mod otlp;
mod scrape;
mod sums;
mod table;

pub use collector::{Collector, UnknownCollector};
pub(crate) use culprits::Culprits;
pub(crate) use devices::Devices;
pub(crate) use exposition::Format;
pub use family::{Family, Series};
pub(crate) use groups::Groups;
pub use markdown::markdown;
#[cfg(feature = "otlp")]
pub(crate) use otlp::message;
pub(crate) use scrape::scrape;
pub use table::FAMILIES;
