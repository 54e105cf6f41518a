//! Evicted pages by the process that evicted them and the cause.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use cachewise_model::{Culprit, Datum, Eviction, EvictionCause, Exit, Interval, Measured, escaped};
use cachewise_units::counted;
use serde_json::Value as Json;

use super::options::ReportOptions;
use crate::cell::path_text;
use crate::json::Object;
use crate::number::grouped;

/// Lines of the evictions that a report shows, with their heading; empty if nothing was evicted.
pub(crate) fn text(interval: &Interval, options: ReportOptions<'_>) -> String {
    let lines = lines(interval, false);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("{}\n", options.style.bold("evicted by"));
    for (_, line) in lines.iter().take(options.top) {
        let _ = writeln!(text, "    {line}");
    }
    if let Some(others) = lines.get(options.top..).filter(|others| !others.is_empty()) {
        let pages = others.iter().map(|(pages, _)| pages).sum();
        let _ = writeln!(
            text,
            "    {} more: {}",
            others.len(),
            counted(pages, "page")
        );
    }
    text
}

/// A line for each process that evicted pages, and cause: `tar, 4242 (group limit): 1,234 pages of /data/file`. Processes
/// of one command that have ended share a line: `tar x14 (ended) (group limit): ...`. The most pages come first.
#[must_use]
pub fn evicted_by(interval: &Interval) -> Vec<String> {
    let lines = lines(interval, true).into_iter();
    lines.map(|(_, line)| line).collect()
}

/// An evicting party: the kernel, one process by its start, or all processes of a command that have ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Evictor {
    Kernel,
    Process(u64),
    Ended(String),
}

/// The same with their pages.
fn lines(interval: &Interval, folds_ended: bool) -> Vec<(u64, String)> {
    let ended = match folds_ended {
        true => ended(interval),
        false => HashSet::new(),
    };
    let evictor = |eviction: &Eviction| {
        let Some(culprit) = &eviction.culprit else {
            return Evictor::Kernel;
        };
        match culprit.command.as_ref().known() {
            Some(command) if ended.contains(&culprit.started) => Evictor::Ended(command.clone()),
            _ => Evictor::Process(culprit.started),
        }
    };
    let mut sums: HashMap<(Evictor, EvictionCause), Vec<&Eviction>> = HashMap::new();
    for eviction in &interval.evictions {
        let same = sums.entry((evictor(eviction), eviction.cause)).or_default();
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
        let line = format!(
            "{}: {} of {}",
            culprits_text(&same)?,
            counted(pages, "page"),
            files(interval, &same),
        );
        Some((pages, line))
    };
    sums.into_iter().filter_map(line).collect()
}

/// The starts of the processes that have ended.
fn ended(interval: &Interval) -> HashSet<u64> {
    let rows = interval.processes.iter();
    let ended = rows.filter(|row| !matches!(row.exit, Exit::Running | Exit::Unknown(_)));
    ended.filter_map(|row| row.started.known()).collect()
}

/// The process of these evictions; of several that have ended their command and number.
fn culprits_text(same: &[&Eviction]) -> Option<String> {
    let first = same.first()?;
    let Some(culprit) = &first.culprit else {
        return Some(culprit_text(first));
    };
    let culprits = same.iter().filter_map(|eviction| eviction.culprit.as_ref());
    let starts: HashSet<u64> = culprits.map(|culprit| culprit.started).collect();
    let command = culprit.command.as_ref().known();
    Some(match (starts.len(), command) {
        (2.., Some(command)) => {
            let cause = first.cause.words();
            format!("{} x{} (ended) ({cause})", escaped(command), starts.len())
        }
        _ => culprit_text(first),
    })
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
    fn processes_of_a_command_that_have_ended_share_a_line() {
        let mut interval = sample::cold();
        let row = interval.processes[0].clone();
        interval.evictions.clear();
        for started in 1..=3 {
            let mut row = row.clone();
            (row.pid, row.started) = (Some(100), Measured::Exact(started));
            // The third one still runs.
            row.exit = if started == 3 {
                Exit::Running
            } else {
                Exit::Code(0)
            };
            interval.processes.push(row);
            let mut one = eviction(Some("tar"), EvictionCause::GroupLimit, 10 * started + 1);
            if let Some(culprit) = &mut one.culprit {
                culprit.started = started;
            }
            interval.evictions.push(one);
        }
        assert_eq!(
            evicted_by(&interval),
            [
                "tar x2 (ended) (group limit): 32 pages of /data/file",
                "tar, 4242 (group limit): 31 pages of /data/file",
            ]
        );
        assert_eq!(lines(&interval, false).len(), 3, "reports list each");
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
