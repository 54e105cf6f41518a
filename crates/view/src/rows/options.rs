//! [`RowOptions`]: head and layout of a stream of rows.

use cachewise_units::PageSize;

use crate::style::Style;

/// Options of a stream of rows.
#[derive(Debug, Clone)]
pub struct RowOptions {
    /// Start of the stream, RFC 3339.
    pub timestamp: String,
    /// The machine's name.
    pub hostname: String,
    /// The page size for conversion to bytes.
    pub page_size: PageSize,
    /// For tables: colour.
    pub style: Style,
    /// For tables: the maximum width of a line. Columns that do not fit are omitted, the least
    /// important first, and a note lists them; `None` shows all.
    pub room: Option<usize>,
    /// For tables: rows between headers; `None` unless on a terminal.
    pub header_every: Option<usize>,
}
