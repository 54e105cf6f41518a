//! Units of numbers: rates, sizes and shares.

use std::ffi::OsStr;

use cachewise_model::{Datum, Field, Kind, Measured, Row, Unit, escaped};
use cachewise_units::{PageSize, Rate, Ratio};
use cachewise_view::narrow::{self, bytes, percent, plain, ratio};

/// Unit of page counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Bytes.
    #[default]
    Bytes,
    /// Pages.
    Pages,
    /// Share of the machine's total.
    Percent,
}

impl Scale {
    /// The next unit.
    #[must_use]
    pub const fn next(self) -> Scale {
        match self {
            Scale::Bytes => Scale::Pages,
            Scale::Pages => Scale::Percent,
            Scale::Percent => Scale::Bytes,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scale::Bytes => "bytes/s",
            Scale::Pages => "pages/s",
            Scale::Percent => "% of all",
        }
    }
}

/// Format of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// The unit.
    pub scale: Scale,
    /// The page size.
    pub page: PageSize,
}

impl Numbers {
    /// A field of a row: the rate per second of a counter, or its share of `whole`.
    #[must_use]
    pub fn cell(&self, field: &Field, row: &Row, whole: &Row) -> String {
        let value = field.of(row);
        let datum = match &value {
            Measured::Missing(missing) => return missing.mark().to_owned(),
            Measured::Exact(datum) | Measured::Estimated(datum, _) => datum,
        };
        let text = match (field.kind, self.scale) {
            (Kind::Counter, Scale::Percent) if field.unit != Unit::Seconds => {
                let of_all = field.of(whole);
                match (number(datum), of_all.as_ref().known().and_then(number)) {
                    (Some(part), Some(all)) => {
                        Ratio::of(part, all).map_or_else(|| "-".into(), ratio)
                    }
                    _ => "?".into(),
                }
            }
            (Kind::Counter, _) => self.rate(datum, row),
            _ => self.state(datum),
        };
        match value.estimate() {
            Some(_) if text != "-" => format!("~{text}"),
            _ => text,
        }
    }

    fn rate(&self, datum: &Datum, row: &Row) -> String {
        let per_second = |amount| Rate::of(amount, row.elapsed).map(Rate::per_second);
        let rate = match datum {
            Datum::Pages(pages) if self.scale == Scale::Bytes => {
                per_second(pages.bytes(self.page).0).map(bytes)
            }
            Datum::Pages(pages) => per_second(pages.0).map(plain),
            Datum::Bytes(amount) => per_second(amount.0).map(bytes),
            Datum::Count(count) => per_second(*count).map(plain),
            // Time per time is a share: of one processor, where several can work.
            Datum::Seconds(seconds) => match row.elapsed.as_secs_f64() {
                0.0 => None,
                elapsed => Some(percent(seconds / elapsed * 100.0)),
            },
            other => Some(self.state(other)),
        };
        rate.unwrap_or_else(|| "-".into())
    }

    /// A number that is not a rate.
    pub(crate) fn state(&self, datum: &Datum) -> String {
        match datum {
            Datum::Pages(pages) if self.scale != Scale::Pages => {
                narrow::datum(&Datum::Bytes(pages.bytes(self.page)))
            }
            other => narrow::datum(other),
        }
    }
}

/// A text with escaped control characters.
#[must_use]
pub(crate) fn visible(text: &str) -> std::borrow::Cow<'_, str> {
    escaped(OsStr::new(text))
}

fn number(datum: &Datum) -> Option<u64> {
    match datum {
        Datum::Count(number) => Some(*number),
        Datum::Pages(pages) => Some(pages.0),
        Datum::Bytes(bytes) => Some(bytes.0),
        _ => None,
    }
}
