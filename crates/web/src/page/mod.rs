//! The page as HTML, with numbers in it already: without JavaScript it has the verdict, findings and tables.
//!
//! A server and a recording have the same page. Each adds its own parts to [`values`] and fills them in.
//!
//! # Layout
//! - this file: the template and its values. `summary`: the picture of reads, figures, notes. `findings`, `table`. `time`: a server's or a recording's.

use cachewise_model::{Diagnosis, Exactness, Interval, Lost, Source};
use cachewise_view::{headline_text, lost_text};

use crate::columns::TABLES;
use crate::html::text as escape;

mod findings;
mod summary;
mod table;
mod time;

pub(crate) use self::summary::notes;
pub(crate) use self::time::Time;

const TEMPLATE: &str = include_str!("../../assets/index.html");

/// The counted numbers, their findings and losses.
pub(crate) struct Counted<'a> {
    pub(crate) interval: &'a Interval,
    pub(crate) findings: &'a Diagnosis,
    pub(crate) lost: &'a [Lost],
}

/// A value by its name in the template.
pub(crate) type Named = (&'static str, String);

/// The values that both pages have. `counted` is the reason where nothing is known.
pub(crate) fn values(
    source: &Source,
    version: &str,
    counted: Result<&Counted<'_>, &str>,
    time: Time,
) -> Vec<Named> {
    let page_size = source.page();
    let known = counted.ok();
    let interval = known.map(|counted| counted.interval);
    let lost = known.map_or(&[][..], |counted| counted.lost);
    let exactness = Exactness::new(source.backend.exact, lost);
    let hidden = |is: bool| if is { " hidden" } else { "" }.to_owned();
    let losses: Vec<String> = lost.iter().map(lost_text).collect();
    let mut values: Vec<Named> = vec![
        ("hostname", escape(&source.hostname).into_owned()),
        ("kernel", escape(&source.kernel).into_owned()),
        ("version", escape(version).into_owned()),
        ("page_size", page_size.get().to_string()),
        ("exactness", exactness.id().to_owned()),
        ("backend", escape(exactness.text()).into_owned()),
        ("complete", hidden(exactness != Exactness::Incomplete)),
        ("lost", notes(&losses)),
        ("live", hidden(time == Time::Recorded)),
        ("findings_of", format!("of {}", time.words())),
        ("reads", summary::reads(interval, page_size, time)),
        ("figures", summary::figures(interval, page_size, time)),
    ];
    for table in TABLES {
        let rows = counted.map_err(str::to_owned).and_then(|counted| {
            let rows = table.rows_of(counted.interval);
            rows.map_err(|missing| missing.reason().to_string())
        });
        values.push((table.id, table::table(table, rows, page_size, time)));
    }
    let (headline, findings) = match counted {
        Ok(counted) => (
            escape(&headline_text(counted.findings)).into_owned(),
            findings::findings(counted.findings, page_size, time),
        ),
        Err(error) => (
            "?".to_owned(),
            format!("<li class=\"unknown\">Not known: {}.</li>", escape(error)),
        ),
    };
    values.extend([("headline", headline), ("findings", findings)]);
    values
}

/// The page with these values.
pub(crate) fn page(values: &[Named]) -> String {
    fill(TEMPLATE, values)
}

/// Puts values in for `{{name}}`, in one go: what comes from outside is not looked at again.
fn fill(template: &str, values: &[Named]) -> String {
    let mut text = String::with_capacity(template.len() * 4);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            rest = after;
            break;
        };
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use cachewise_view::ReadPart;

    use super::*;

    #[test]
    fn values_are_not_filled_in_again() {
        let text = fill(
            "a {{one}} b {{two}} {{none}}c {{",
            &[("one", "{{two}}".into()), ("two", "2".into())],
        );
        assert_eq!(
            text, "a {{two}} b 2 c ",
            "a name in braces stays what it is"
        );
    }

    #[test]
    fn the_page_has_a_place_for_everything() {
        for table in crate::columns::TABLES {
            let place = format!("{{{{{}}}}}", table.id);
            assert!(TEMPLATE.contains(&place), "{place} is in the template");
        }
        for place in ["{{figures}}", "{{findings}}", "{{cache}}", "{{crumbs}}"] {
            assert!(TEMPLATE.contains(place), "{place} is in the template");
        }
    }

    #[test]
    fn parts_of_reads_have_their_colours() {
        let style = include_str!("../../assets/style.css");
        for part in ReadPart::ALL {
            for color in part.colors() {
                let line = format!("--{}: {color};", part.css_name());
                assert!(style.contains(&line), "{line}");
            }
        }
    }
}
