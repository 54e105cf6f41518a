//! Output formats of cachewise's numbers: tables, JSON, CSV and OpenMetrics.
//!
//! The crate depends only on the model: it draws a live machine, a recording and a test's numbers
//! alike. It queries neither terminal nor environment; callers pass colour and width.
//!
//! ```
//! use cachewise_model::{Counter, Row, field};
//! use cachewise_units::PageSize;
//! use cachewise_view::{Format, RowOptions, RowWriter, Style};
//!
//! let mut row = Row::default();
//! row.ledger.set(Counter::ReadRequestedPages, 131_072);
//! row.ledger.set(Counter::ReadMissedPages, 512);
//! row.ledger.set(Counter::ReadHitPages, 130_560);
//!
//! let columns = ["total", "misses", "hits"].map(|name| field(name).expect("it exists"));
//! let options = RowOptions {
//!     timestamp: "2026-01-02T03:04:05Z".into(),
//!     hostname: "box".into(),
//!     page_size: PageSize::new(4 << 10).expect("a power of two"),
//!     style: Style::plain(80),
//!     room: None,
//!     header_every: None,
//! };
//! let mut writer = RowWriter::new(Vec::new(), Format::Csv, &columns, options);
//! writer.write(&row)?;
//! let text = String::from_utf8(writer.finish(None)?).expect("CSV of numbers is text");
//! assert_eq!(text, "read_requested_pages,read_missed_pages,read_hit_pages,reasons,reason_codes\n131072,512,130560,,\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Layout
//! - `format`, `style`: choices of the caller.
//! - `rows`: a stream of rows, the output of `stat`.
//! - `report`: a report of a run, the output of `run`.
//! - `checkup`: capabilities and findings of a machine, the output of `doctor`.
//! - `summary`: statistics of a recording, the output of `report`.
//! - `sheet`: a table with columns of its own, the output of `cpu`.
//! - `markdown`: text for people as Markdown.
//! - `plot`: curves of latency, as SVG and as text; `miss_plot`: of miss ratios.
//! - `read_parts`: the picture of reads: its parts, their order and colours.
//! - `flame`: stacks as folded lines and as a flame graph.
//! - `number`, `json`, `csv_text`, `metrics`: one value, in each format; `cell`: text in columns. `layout`: columns and lines of
//!   tables. `labelled`: metrics of
//!   several objects.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod cell;
mod checkup;
mod csv_text;
mod flame;
mod format;
mod json;
mod labelled;
mod layout;
mod markdown;
mod metrics;
mod miss_plot;
mod number;
mod plot;
mod read_parts;
mod report;
mod rows;
mod sheet;
mod style;
mod summary;

pub use checkup::{CHECK_COLUMNS, write_checkup};
pub use flame::{FlameWeight, flame_svg, folded_stacks};
pub use format::{Format, ParseFormatError};
pub use json::{columns_json, row_json};
pub use labelled::labelled_metrics;
pub use markdown::{Markdown, markdown_text};
pub use metrics::{Exposition, Labels, Metric, MetricNumber};
pub use miss_plot::{miss_svg, miss_text};
pub use number::{
    clock, figure, latency, length, marked, narrow, per_second, seconds, share, value_text,
};
pub use plot::{PlotLine, PlotMark, latency_svg, latency_text};
pub use read_parts::{ReadPart, bar_cells, read_bar};
pub use report::{
    ReportOptions, StackTable, backend_json, culprit_text, evicted_by, evictions_json,
    finding_figure, findings_json, folded_text, headline_text, lost_json, lost_text, write_report,
};
pub use rows::{RowOptions, RowWriter, RowWriters};
pub use sheet::{Sheet, SheetCell, SheetColumn, SheetColumns};
pub use style::{Style, Tables};
pub use summary::{SummaryOptions, gap_text, write_summary};
