//! [`Moment`]: a time of a recording, as the user types it.

/// A time of the day, and perhaps the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Year, month and day.
    date: Option<(u16, u8, u8)>,
    /// Hour, minute and second.
    time: (u8, u8, u8),
}

/// Characters of a day in RFC 3339.
const DAY: usize = 10;

impl Moment {
    /// Parses `14:05`, `14:05:22`, and `2026-01-02T14:05:22` with a T or a space.
    #[must_use]
    pub fn parse(text: &str) -> Option<Moment> {
        let text = text.trim().trim_end_matches(['Z', 'z']);
        let (date, time) = match text.split_once(['T', ' ']) {
            Some((date, time)) => (Some(date), time.trim()),
            None => (None, text),
        };
        let date = match date {
            None => None,
            Some(date) => {
                let mut parts = date.split('-');
                let (year, month, day) = (number(parts.next()?, 4)?, parts.next()?, parts.next()?);
                let (month, day) = (number(month, 2)?, number(day, 2)?);
                let is_day = (1..=12).contains(&month) && (1..=31).contains(&day);
                if parts.next().is_some() || !is_day {
                    return None;
                }
                Some((year, u8::try_from(month).ok()?, u8::try_from(day).ok()?))
            }
        };
        let mut parts = time.split(':');
        let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
        let second = match parts.next() {
            // A fraction, as the screen never shows it.
            Some(second) => number(second.split('.').next()?, 2)?,
            None => 0,
        };
        if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let small = |number: u16| u8::try_from(number).ok();
        Some(Moment {
            date,
            time: (small(hour)?, small(minute)?, small(second)?),
        })
    }

    /// Whether it has a day.
    #[must_use]
    pub(crate) fn has_date(&self) -> bool {
        self.date.is_some()
    }

    /// The beginning of this moment's RFC 3339 time, on the day of another time if it has none.
    #[must_use]
    pub(crate) fn on_the_day_of(&self, other: &str) -> String {
        let (hour, minute, second) = self.time;
        let day = match self.date {
            Some((year, month, day)) => format!("{year:04}-{month:02}-{day:02}"),
            None => other.get(..DAY).unwrap_or_default().to_owned(),
        };
        format!("{day}T{hour:02}:{minute:02}:{second:02}")
    }
}

/// A number of at most this many digits.
fn number(text: &str, digits: usize) -> Option<u16> {
    let is_number = !text.is_empty() && text.len() <= digits;
    let is_number = is_number && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_a_day_are_understood() {
        for (text, moment) in [
            ("14:05", "2026-01-02T14:05:00"),
            ("4:05:22", "2026-01-02T04:05:22"),
            ("2025-12-31T23:59:59Z", "2025-12-31T23:59:59"),
            ("2025-12-31 23:59:59.999", "2025-12-31T23:59:59"),
        ] {
            let parsed = Moment::parse(text).map(|of| of.on_the_day_of("2026-01-02T03:04:05Z"));
            assert_eq!(parsed.as_deref(), Some(moment), "{text}");
        }
        for text in [
            "",
            ":",
            "14",
            "24:00",
            "1:60",
            "14:05:22:1",
            "x:05",
            "-1:00",
            "2025-13-01T00:00",
            "1-1-1-1 1:1",
            "2025-1T1:1",
            "99999999999:1",
        ] {
            assert_eq!(Moment::parse(text), None, "{text} is no time");
        }
    }
}
