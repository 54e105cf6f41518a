//! The part of a recording that is meant.

use anyhow::{Result, bail};
use cachewise_recording::{Range, Reader};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::arguments::Report;
use super::when;

/// The part that the options --from and --to name.
pub fn range(arguments: &Report) -> Result<Range> {
    if arguments.from.is_none() && arguments.to.is_none() {
        return Ok(Range::default());
    }
    let Some(span) = span(arguments)? else {
        return Ok(Range::default());
    };
    let zone = TimeZone::system();
    let time = |text: &Option<String>| {
        let text = text.as_ref();
        text.map(|text| when::parse(text, span, &zone)).transpose()
    };
    let range = Range {
        from: time(&arguments.from)?,
        to: time(&arguments.to)?,
    };
    if let (Some(from), Some(to)) = (range.from, range.to)
        && from >= to
    {
        bail!("--from {from:.3} is not before --to {to:.3}");
    }
    Ok(range)
}

/// The time from the first sample to the last one.
pub fn span(arguments: &Report) -> Result<Option<when::Span>> {
    let mut reader = Reader::open(arguments.file())?;
    let mut span: Option<when::Span> = None;
    while let Some(sample) = reader.next()? {
        let Ok(end) = sample.interval.time.parse::<Timestamp>() else {
            continue;
        };
        let begin = end.checked_sub(sample.interval.elapsed).unwrap_or(end);
        let span = span.get_or_insert(when::Span { begin, end });
        span.end = end;
    }
    Ok(span)
}
