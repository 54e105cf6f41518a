//! [`Condition`]: a field compared with a value, as in `fetched_bytes > 100M`.

use std::cmp::Ordering;

use cachewise_units::{Bytes, PageSize, Period, Ratio};

use crate::field::Field;
use crate::kind::Kind;
use crate::lookup::{columns, field};
use crate::measured::Measured;
use crate::row::Row;
use crate::unit::Unit;
use crate::value::{Datum, Value};

/// A field compared with a value.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The condition as it was written.
    pub text: String,
    /// The compared field.
    pub field: &'static Field,
    /// Its id; where bytes of a field in pages are compared, its name as it was written.
    pub name: String,
    comparison: Comparison,
    operand: Operand,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Signs of comparisons; longer ones first, since `<` begins `<=`.
const SIGNS: [(&str, Comparison); 6] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

#[derive(Debug, Clone, Copy)]
enum Operand {
    /// In the field's own unit.
    Whole(u64),
    /// In bytes, of a field in pages.
    BytesOfPages(Bytes),
    Seconds(f64),
    Factor(f64),
    Ratio(Ratio),
}

impl Comparison {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
        }
    }
}

impl Condition {
    /// Parses `FIELD OPERATOR VALUE` for rows like `row`: an id, heading or alias; `<`, `<=`, `>`, `>=`, `==`, `!=`; and a
    /// value in the field's unit. Of a field in pages a size with a unit is in bytes, and its name may end in `_bytes`.
    ///
    /// # Errors
    /// Names the part that is not understood, and for an unknown field the nearest ones.
    pub fn parse(text: &str, row: &Row) -> Result<Condition, String> {
        let at = text.find(['<', '>', '=', '!']);
        let (name, rest) = text.split_at(at.unwrap_or(text.len()));
        let sign = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, comparison) = sign.ok_or_else(|| {
            let signs: Vec<&str> = SIGNS.iter().map(|(sign, _)| *sign).collect();
            format!(
                "no comparison: write FIELD OPERATOR VALUE with one of {}, as in 'fetched_bytes > 100M'",
                signs.join(" ")
            )
        })?;
        let value = rest[sign.len()..].trim();
        let (field, is_in_bytes) = named(name.trim(), row)?;
        if field.kind == Kind::Label {
            return Err(format!("`{}` is a name, not a number", field.id));
        }
        let operand = operand(field.unit, is_in_bytes, value)?;
        let name = match operand {
            Operand::BytesOfPages(_) => name.trim(),
            _ => field.id,
        };
        Ok(Condition {
            text: text.trim().to_owned(),
            field,
            name: name.to_owned(),
            comparison: *comparison,
            operand,
        })
    }

    /// Returns the value that is compared: bytes of a field in pages that is compared with a size.
    #[must_use]
    pub fn value(&self, row: &Row) -> Value {
        let value = self.field.of(row);
        match self.operand {
            Operand::BytesOfPages(_) => value.map(|datum| in_bytes(datum, row.page_size)),
            _ => value,
        }
    }

    /// Returns whether the condition is true of a row; missing if the field is.
    #[must_use]
    pub fn holds(&self, row: &Row) -> Measured<bool> {
        self.value(row)
            .map(|datum| self.comparison.accepts(self.order(&datum)))
    }

    fn order(&self, datum: &Datum) -> Ordering {
        let real = |value: f64, other: f64| value.partial_cmp(&other).unwrap_or(Ordering::Equal);
        match (datum, self.operand) {
            (Datum::Count(value), Operand::Whole(other)) => value.cmp(&other),
            (Datum::Pages(value), Operand::Whole(other)) => value.0.cmp(&other),
            (Datum::Bytes(value), Operand::Whole(other)) => value.0.cmp(&other),
            (Datum::Bytes(value), Operand::BytesOfPages(other)) => value.cmp(&other),
            (Datum::Seconds(value) | Datum::Latency(value), Operand::Seconds(other))
            | (Datum::Factor(value), Operand::Factor(other)) => real(*value, other),
            (Datum::Ratio(value), Operand::Ratio(other)) => value.cmp(&other),
            // `values_have_the_unit_of_their_field` excludes all others.
            _ => Ordering::Equal,
        }
    }
}

fn in_bytes(datum: Datum, page: Option<PageSize>) -> Datum {
    match datum {
        Datum::Pages(pages) => Datum::Bytes(pages.bytes(page.unwrap_or(PageSize::SMALLEST))),
        other => other,
    }
}

/// Finds a field, and whether its name asks for bytes of a field in pages: `missed_bytes` of `missed`.
fn named(name: &str, row: &Row) -> Result<(&'static Field, bool), String> {
    if let Some(field) = field(name).filter(|field| field.is_of(row)) {
        return Ok((field, false));
    }
    let stem = name.strip_suffix("_bytes").unwrap_or_default();
    let of_pages = [stem.to_owned(), format!("{stem}_pages")]
        .iter()
        .filter_map(|name| field(name))
        .find(|field| field.unit == Unit::Pages && field.is_of(row));
    if let Some(field) = of_pages {
        return Ok((field, true));
    }
    // Its error names the nearest ones.
    let found = columns(name, row)?;
    let field = found.first().copied();
    field
        .map(|field| (field, false))
        .ok_or_else(|| "no field before the comparison".to_owned())
}

fn operand(unit: Unit, is_in_bytes: bool, text: &str) -> Result<Operand, String> {
    let size = || text.parse::<Bytes>().map_err(|error| error.to_string());
    match unit {
        Unit::Bytes => size().map(|bytes| Operand::Whole(bytes.0)),
        Unit::Pages if is_in_bytes => size().map(Operand::BytesOfPages),
        Unit::Pages | Unit::Count => match text.replace(',', "").parse() {
            Ok(number) => Ok(Operand::Whole(number)),
            Err(_) if unit == Unit::Pages => size().map(Operand::BytesOfPages),
            Err(_) => Err(format!("{text:?} is not a whole number")),
        },
        Unit::Seconds if text == "0" => Ok(Operand::Seconds(0.0)),
        Unit::Seconds => match text.parse::<Period>() {
            Ok(period) => Ok(Operand::Seconds(period.get().as_secs_f64())),
            Err(error) => Err(error.to_string()),
        },
        Unit::Ratio => match text.parse::<Ratio>() {
            // Usually a percentage without its sign: nearly every ratio is below it.
            Ok(ratio) if ratio.part() > ratio.whole() && !text.ends_with('%') => Err(format!(
                "{text} is ambiguous, as the field is a ratio: write {text}%, or {ratio} for {text} times the whole"
            )),
            Ok(ratio) => Ok(Operand::Ratio(ratio)),
            Err(error) => Err(format!("{error}")),
        },
        Unit::Factor => match text.parse::<f64>() {
            Ok(factor) if factor.is_finite() => Ok(Operand::Factor(factor)),
            _ => Err(format!("{text:?} is not a number")),
        },
        Unit::Id | Unit::Text | Unit::Time => Err(format!("{text:?} compares with no number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Counter;
    use crate::measured::Missing;
    use crate::reason::Reason;

    fn row() -> Row {
        let mut row = Row {
            page_size: PageSize::new(4 << 10),
            ..Row::of_system()
        };
        row.ledger.set(Counter::ReadRequestedPages, 1_000);
        row.ledger.set(Counter::ReadHitPages, 996);
        row.ledger.set(Counter::ReadMissedPages, 4);
        row.subject.device_read_bytes = Measured::Exact(100 << 20);
        row.subject.cpu_seconds = Measured::Exact(1.5);
        row
    }

    fn holds(text: &str) -> Measured<bool> {
        let row = row();
        Condition::parse(text, &row)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .holds(&row)
    }

    #[test]
    fn name_is_that_of_the_compared_unit() {
        let row = row();
        let name = |text: &str| {
            let condition = Condition::parse(text, &row).expect("it is understood");
            condition.name
        };
        assert_eq!(name("missed_bytes > 1K"), "missed_bytes");
        assert_eq!(name("missed > 3"), "read_missed_pages");
    }

    #[test]
    fn comparison_follows_its_sign_in_each_unit() {
        for (text, expected) in [
            ("device_read_bytes > 100M", false),
            ("device_read_bytes>=100M", true),
            ("device_read_bytes < 104857601", true),
            ("device_read_bytes <= 99.9 MiB", false),
            ("device_read_bytes == 0.1G", false),
            ("DEV-READ != 100M", false),
            ("read_missed_pages == 4", true),
            ("read_requested_pages > 999", true),
            ("read_requested_pages == 1,000", true),
            ("read_missed_pages >= 16K", true),
            ("read_missed_pages > 16K", false),
            ("missed_bytes == 16384", true),
            ("read_missed_bytes < 16K", false),
            ("read_hit_ratio == 99.6%", true),
            ("read_hit_ratio < 0.9961", true),
            ("HIT% > 99.6 %", false),
            ("HIT% <= 1", true),
            ("HIT% <= 100%", true),
            ("cpu_seconds > 1s", true),
            ("cpu_seconds >= 1600ms", false),
            ("cpu_seconds > 0", true),
        ] {
            assert_eq!(holds(text), Measured::Exact(expected), "{text}");
        }
    }

    #[test]
    fn missing_field_has_no_answer() {
        let mut row = row();
        let lost = Missing::Unknown(Reason::LostEvents);
        row.ledger.set_missing(Counter::ReadMissedPages, lost);
        let condition = Condition::parse("missed_bytes > 0", &row).unwrap();
        assert_eq!(condition.holds(&row), Measured::Missing(lost));
        assert_eq!(condition.value(&row).missing(), Some(lost));
    }

    #[test]
    fn value_has_the_unit_of_the_comparison() {
        let row = row();
        let value = |text| Condition::parse(text, &row).unwrap().value(&row);
        assert_eq!(value("missed > 1"), Measured::Exact(4).pages());
        assert_eq!(value("missed > 1K"), Measured::Exact(16 << 10).bytes());
        assert_eq!(value("missed_bytes > 1"), Measured::Exact(16 << 10).bytes());
    }

    #[test]
    fn error_names_the_part_that_is_not_understood() {
        for (text, part) in [
            ("", "no comparison"),
            ("missed", "no comparison"),
            ("missed = 4", "no comparison"),
            ("hitz > 1", "did you mean `hits`"),
            ("nonsense_bytes > 1", "no column `nonsense_bytes`"),
            ("> 1", "no column ``"),
            ("time > 1", "is a name"),
            ("missed > many", "\"many\" is not a size"),
            ("missed > -1", "it is negative"),
            ("device_read_bytes > 1MB", "\"MB\" is not a unit"),
            ("hit% > 1x", "\"1x\" is not a ratio"),
            ("hit% < 90", "write 90%"),
            ("hit% < 1.5", "write 1.5%"),
            ("lost_events > 1K", "\"1K\" is not a whole number"),
            ("cpu_seconds > soon", "is not an interval"),
        ] {
            let error = Condition::parse(text, &row()).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
