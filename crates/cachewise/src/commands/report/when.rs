//! Times as people type them.

use anyhow::{Context, Result, bail};
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use cachewise_units::Period;

/// From when to when a recording is.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub begin: Timestamp,
    pub end: Timestamp,
}

/// The time that was meant.
///
/// # Errors
/// Says which forms there are.
pub fn parse(text: &str, span: Span, zone: &TimeZone) -> Result<Timestamp> {
    let text = text.trim();
    let beyond = || format!("the time {text:?} is in no calendar");
    if let Some((far, from)) = (text.strip_prefix('+').map(|far| (far, span.begin)))
        .or_else(|| text.strip_prefix('-').map(|far| (far, span.end)))
        && let Ok(far) = far.parse::<Period>()
    {
        let far = SignedDuration::try_from(far.get()).with_context(beyond)?;
        let far = if text.starts_with('-') { -far } else { far };
        return from.checked_add(far).with_context(beyond);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let local = |time: DateTime| {
        let zoned = time.to_zoned(zone.clone());
        zoned.map(|zoned| zoned.timestamp()).with_context(beyond)
    };
    if let Ok(time) = text.parse::<DateTime>() {
        return local(time);
    }
    if let Ok(time) = text.parse::<Time>() {
        let day = span.begin.to_zoned(zone.clone()).date();
        return local(day.to_datetime(time));
    }
    bail!(
        "{text:?} is not a time: write 2026-01-02T03:04:05Z, local \"2026-01-02 03:04\", 03:04 on the day on \
         which the recording begins, +10m from its beginning or -10m from its end"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        let span = Span {
            begin: "2026-01-02T03:00:00Z".parse().unwrap(),
            end: "2026-01-02T05:00:00Z".parse().unwrap(),
        };
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04:05.5+01:00", "2026-01-02T02:04:05.5Z"),
            ("2026-01-02 05:30", "2026-01-02T03:30:00Z"),
            ("2026-01-02", "2026-01-01T22:00:00Z"),
            ("06:15", "2026-01-02T04:15:00Z"),
            ("06:15:30", "2026-01-02T04:15:30Z"),
            ("+10m", "2026-01-02T03:10:00Z"),
            ("-0.5", "2026-01-02T04:59:59.5Z"),
        ] {
            let time = parse(text, span, &zone).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(time, expected.parse().unwrap(), "{text}");
        }
        for text in ["", "noon", "+", "25:00", "-1x"] {
            let error = parse(text, span, &zone).unwrap_err().to_string();
            assert!(error.contains("is not a time"), "{text}: {error}");
        }
    }
}
