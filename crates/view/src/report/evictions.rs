//! Evicted pages by the process that evicted them and the cause.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use cachewise_model::{Culprit, Datum, Eviction, EvictionCause, Interval, Measured, escaped};
use serde_json::Value as Json;

use super::options::ReportOptions;
use crate::cell::path_text;
use crate::json::Object;
use crate::number::grouped;

/// Lines of the evictions that a report shows, with their heading; empty if nothing was evicted.
pub(crate) fn text(interval: &Interval, options: ReportOptions<'_>) -> String {
    let lines = lines(interval);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", options.style.bold("evicted by"));
    for (_, line) in lines.iter().take(options.top) {
        let _ = writeln!(text, "    {line}");
    }
    if let Some(others) = lines.get(options.top..).filter(|others| !others.is_empty()) {
        let pages = others.iter().map(|(pages, _)| pages).sum();
        let _ = writeln!(text, "    {} more: {} pages", others.len(), grouped(pages));
    }
    text
}

/// A line for each process that evicted pages, and cause: `tar, 4242 (group limit): 1,234 pages of /data/file`. The
/// most pages come first.
#[must_use]
pub fn evicted_by(interval: &Interval) -> Vec<String> {
    lines(interval).into_iter().map(|(_, line)| line).collect()
}

/// The same with their pages.
fn lines(interval: &Interval) -> Vec<(u64, String)> {
    let mut sums: HashMap<(Option<u64>, EvictionCause), Vec<&Eviction>> = HashMap::new();
    for eviction in &interval.evictions {
        let started = eviction.culprit.as_ref().map(|culprit| culprit.started);
        let same = sums.entry((started, eviction.cause)).or_default();
        same.push(eviction);
    }
    let mut sums: Vec<(u64, Vec<&Eviction>)> = sums
        .into_values()
        .map(|mut same| {
            same.sort_by_key(|eviction| (Reverse(eviction.pages), eviction.file));
            (same.iter().map(|eviction| eviction.pages).sum(), same)
        })
        .collect();
    sums.sort_by_key(|(pages, same)| (Reverse(*pages), same.first().map(|first| first.file)));
    let line = |(pages, same): (u64, Vec<&Eviction>)| {
        let first = same.first()?;
        let line = format!(
            "{}: {} pages of {}",
            culprit_text(first),
            grouped(pages),
            files(interval, &same),
        );
        Some((pages, line))
    };
    sums.into_iter().filter_map(line).collect()
}

/// The process that evicted, and the cause: `tar, 4242 (group limit)`.
#[must_use]
pub fn culprit_text(eviction: &Eviction) -> String {
    let culprit = culprit(eviction.culprit.as_ref());
    format!("{culprit} ({})", eviction.cause.words())
}

/// The process as `tar, 4242`; kernel threads have no other name.
fn culprit(culprit: Option<&Culprit>) -> String {
    let Some(culprit) = culprit else {
        return "the kernel".to_owned();
    };
    let command = match culprit.command.clone().known() {
        Some(command) => escaped(&command).into_owned(),
        None => "?".to_owned(),
    };
    match culprit.pid.known() {
        Some(pid) => format!("{command}, {pid}"),
        None => command,
    }
}

/// The file with the most pages, and the number of others.
fn files(interval: &Interval, evictions: &[&Eviction]) -> String {
    let mut places: Vec<usize> = evictions.iter().map(|eviction| eviction.file).collect();
    let first = places.first().copied();
    places.sort_unstable();
    places.dedup();
    let row = first.and_then(|place| interval.files.get(place));
    let name = row
        .and_then(|row| row.path.clone().known())
        .map_or("a file without a name".to_owned(), |path| path_text(&path));
    match places.len() {
        0 | 1 => name,
        2 => format!("{name} and another file"),
        count => format!("{name} and {} other files", grouped(count as u64 - 1)),
    }
}

/// The evictions as objects, the most pages first.
#[must_use]
pub fn evictions_json(interval: &Interval) -> Vec<Json> {
    let text = |text: &Measured<String>| text.clone().map(Datum::Text);
    let object = |eviction: &Eviction| {
        let file = interval.files.get(eviction.file);
        let mut object = Object::new()
            .set("cause", eviction.cause.id())
            .set("evicted_pages", eviction.pages)
            .set("culprit_uses_file", eviction.own)
            .value("charged_cgroup", &text(&eviction.charged));
        if let Some(file) = file {
            object = object.value("path", &file.path.clone().map(Datum::Path));
            let number = file.number.as_ref();
            object = object
                .set("device", number.map(|number| number.device.as_str()))
                .set("inode", number.map(|number| number.inode));
        }
        let culprit = eviction.culprit.as_ref().map(|culprit| {
            Object::new()
                .value("pid", &culprit.pid.map(u64::from).count())
                .value("command", &text(&culprit.command))
                .value("cgroup", &text(&culprit.cgroup))
                .set("started", culprit.started)
                .finish()
        });
        object.set("culprit", culprit).finish()
    };
    let mut evictions: Vec<&Eviction> = interval.evictions.iter().collect();
    evictions.sort_by_key(|eviction| (Reverse(eviction.pages), eviction.file));
    evictions.into_iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use cachewise_model::Reason;

    use super::super::sample;
    use super::*;

    fn eviction(command: Option<&str>, cause: EvictionCause, pages: u64) -> Eviction {
        Eviction {
            file: 0,
            charged: Measured::Exact("/db".into()),
            cause,
            culprit: command.map(|command| Culprit {
                pid: Measured::Exact(4242),
                started: 7,
                command: Measured::Exact(command.into()),
                cgroup: Measured::unknown(Reason::GroupGone),
            }),
            own: false,
            pages,
        }
    }

    #[test]
    fn text_has_a_line_for_each_process_and_cause_largest_first() {
        let mut interval = sample::cold();
        let options = ReportOptions::default();
        assert_eq!(text(&interval, options), "", "nothing was evicted");
        interval.evictions = vec![
            eviction(None, EvictionCause::Kswapd, 100),
            eviction(Some("tar\u{1b}"), EvictionCause::GroupLimit, 1000),
            eviction(Some("tar\u{1b}"), EvictionCause::GroupLimit, 234),
        ];
        assert_eq!(
            text(&interval, options),
            "evicted by\n    \
             tar\\x1b, 4242 (group limit): 1,234 pages of /data/file\n    \
             the kernel (kswapd): 100 pages of /data/file\n"
        );
        let one = ReportOptions { top: 1, ..options };
        let shown = text(&interval, one);
        assert!(
            shown.ends_with("    1 more: 100 pages\n"),
            "the rest is summed: {shown}"
        );
    }

    #[test]
    fn json_names_file_cause_and_culprit_and_says_why_a_group_is_unknown() {
        let mut interval = sample::cold();
        interval.evictions = vec![
            eviction(Some("tar"), EvictionCause::GroupLimit, 1000),
            eviction(None, EvictionCause::Kswapd, 100),
        ];
        let json = evictions_json(&interval);
        assert_eq!(json[0]["cause"], "group_limit");
        assert_eq!(json[0]["evicted_pages"], 1000);
        assert_eq!(json[0]["path"], "/data/file");
        assert_eq!(json[0]["charged_cgroup"], "/db");
        assert_eq!(json[0]["culprit"]["command"], "tar");
        assert_eq!(json[0]["culprit"]["pid"], 4242);
        assert_eq!(json[0]["culprit"]["cgroup"], Json::Null);
        assert_eq!(json[0]["culprit"]["reason_codes"]["cgroup"], "group_gone");
        assert_eq!(json[1]["culprit"], Json::Null, "kernel threads");
    }
}
