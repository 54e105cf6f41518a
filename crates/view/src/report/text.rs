//! A report for people: head, verdict, picture of reads, findings, times, classes, files, processes, checks.

use cachewise_model::{
    Diagnosis, Exactness, Exit, Interval, TablePlace, Value, escaped, shell_quoted,
};

use super::options::ReportOptions;
use super::{classes, closing, evictions, row_checks, stacks, tables, times};
use crate::cell::wrapped;
use crate::number::value_text;
use crate::read_parts::read_bar;

/// The whole report.
pub(super) fn report(
    interval: &Interval,
    diagnosis: &Diagnosis,
    options: ReportOptions<'_>,
) -> String {
    let style = options.style;
    let parts = [
        head(interval, options),
        [
            closing::verdict(interval, diagnosis, style),
            read_bar(&interval.ledger, interval.page(), style),
        ]
        .concat(),
        closing::findings(diagnosis, style),
        times::text(interval, style),
        classes::text(interval, style),
        tables::files(interval, TablePlace::Run, options),
        tables::processes(interval, TablePlace::Run, options),
        tables::cgroups(interval, TablePlace::Run, options),
        evictions::text(interval, options),
        stacks::text(interval, options),
        [
            closing::checks(interval, options),
            row_checks::text(interval, options),
            closing::lost(interval, style),
            closing::notes(interval),
            closing::price(interval),
        ]
        .concat(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn head(interval: &Interval, options: ReportOptions<'_>) -> String {
    let style = options.style;
    let seconds = |value| value_text(&Value::seconds(value));
    let times = format!(
        "{}, {:.3} s wall, {} s user, {} s system",
        exit(interval),
        interval.elapsed.as_secs_f64(),
        seconds(interval.run().cpu_user_seconds),
        seconds(interval.run().cpu_system_seconds),
    );
    let exactness = match interval.exactness() {
        Exactness::Exact => Exactness::Exact.text().to_owned(),
        other => style.warning(other.text()),
    };
    let machine = format!(
        "{}, linux {}, {} pages, counted by {}, {exactness}",
        escaped(&interval.source.hostname),
        escaped(&interval.source.kernel),
        interval.page(),
        escaped(&interval.source.backend.name),
    );
    // Not wrapped: users copy the command.
    let subject = style.bold(&subject(interval));
    let [times, machine] = [times, machine].map(|line| wrapped(&line, style.width));
    format!("{subject}\n{times}\n{machine}\n")
}

/// The command, or the followed process.
fn subject(interval: &Interval) -> String {
    match interval.run().followed {
        Some(pid) if interval.run().command.is_empty() => format!("process {pid}"),
        _ => {
            // Quoted for a shell and escaped for the terminal.
            let words: Vec<String> = interval
                .run()
                .command
                .iter()
                .map(|word| shell_quoted(word.as_ref()))
                .collect();
            words.join(" ")
        }
    }
}

fn exit(interval: &Interval) -> String {
    match interval.run().exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(number) => format!("killed by {} ({number})", interval.run().exit),
        Exit::Running => "still running".to_owned(),
        Exit::Unknown(reason) => format!("exit ? ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::Reason;

    use super::super::sample;
    use super::*;
    use crate::style::Style;

    #[test]
    fn parts_are_in_order() {
        let text = report(
            &sample::cold(),
            &sample::diagnosis(),
            ReportOptions {
                all_checks: true,
                ..ReportOptions::default()
            },
        );
        let begin = "dd if=/data/file of=/dev/null bs=1M\n\
            exit 0, 0.512 s wall, 0.010 s user, 0.290 s system\n\
            box, linux 6.18.0, 4.0 KiB pages, counted by tracepoints, exact to the page\n\n";
        assert!(
            text.starts_with(begin),
            "command, exit and back-end: {text}"
        );
        let order = [
            "reads  ",
            "findings\n",
            "buffered reads",
            "files\n",
            "processes\n",
            "adds up: ",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|part| text.find(part)).collect();
        assert!(
            places.iter().all(Option::is_some),
            "every part is present: {text}"
        );
        assert!(places.is_sorted(), "the checks come last: {text}");
        assert!(
            !text.contains("\n\n\n"),
            "parts that are empty leave no gap"
        );
        assert!(!text.contains('\u{1b}'), "plain is plain");
    }

    #[test]
    fn head_names_the_fallback() {
        let mut estimated = sample::cold();
        let backend = estimated.backend_mut();
        backend.exact = false;
        backend.name = "procfs".into();
        let text = report(&estimated, &sample::diagnosis(), ReportOptions::default());
        assert!(
            text.contains("counted by procfs, NOT exact"),
            "it is not called exact: {text}"
        );
    }

    #[test]
    fn every_kind_of_exit_has_words() {
        let mut interval = sample::cold();
        for (end, text) in [
            (Exit::Code(127), "exit 127"),
            (Exit::Signal(9), "killed by SIGKILL (9)"),
            (Exit::Running, "still running"),
            (
                Exit::Unknown(Reason::EndNotRecorded),
                "exit ? (its end was not recorded)",
            ),
        ] {
            interval.run_mut().exit = end;
            assert_eq!(exit(&interval), text, "{end:?}");
        }
    }

    #[test]
    fn commands_are_quoted_and_escaped() {
        let mut interval = sample::cold();
        interval.run_mut().command = vec![
            "sh".into(),
            "-c".into(),
            "cat a b".into(),
            "\u{1b}[2J".into(),
        ];
        assert_eq!(
            subject(&interval),
            r"sh -c 'cat a b' $'\033[2J'",
            "quoted as a shell takes it"
        );
        interval.run_mut().command.clear();
        interval.run_mut().followed = Some(7);
        assert_eq!(
            subject(&interval),
            "process 7",
            "a process that was followed"
        );
    }

    #[test]
    fn headings_are_bold() {
        let options = ReportOptions {
            style: Style {
                color: true,
                ..Style::plain(80)
            },
            ..ReportOptions::default()
        };
        let text = report(&sample::cold(), &sample::diagnosis(), options);
        assert!(
            text.starts_with("\u{1b}[1mdd if=/data/file of=/dev/null bs=1M\u{1b}[0m\n"),
            "bold"
        );
        assert_eq!(
            text.matches("\u{1b}[").count() % 2,
            0,
            "every colour is switched off again"
        );
    }
}
