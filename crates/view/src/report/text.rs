//! A report for people: head, classes, files, processes, findings, checks.

use cachewise_model::{Exactness, Exit, Place, Report, Value, blind, escaped, shell_quoted};

use super::options::ReportOptions;
use super::{classes, closing, row_checks, tables};
use crate::cell::wrapped;
use crate::number::value_text;

/// The whole report.
pub(super) fn report(report: &Report, options: ReportOptions) -> String {
    let style = options.style;
    let parts = [
        head(report, options),
        classes::text(report, style),
        tables::files(report, Place::Run, options),
        tables::processes(report, Place::Run, options),
        tables::cgroups(report, Place::Run, options),
        closing::findings(&report.findings, blind(report).as_ref(), style),
        [
            closing::checks(report, style),
            row_checks::text(report, options),
            closing::lost(report, style),
            closing::notes(report),
            closing::price(report),
        ]
        .concat(),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn head(report: &Report, options: ReportOptions) -> String {
    let style = options.style;
    let seconds = |value| value_text(&Value::seconds(value));
    let times = format!(
        "{}, {:.3} s wall, {} s user, {} s system",
        exit(report),
        report.wall.as_secs_f64(),
        seconds(report.cpu_user_seconds),
        seconds(report.cpu_system_seconds),
    );
    let exactness = match report.exactness() {
        Exactness::Exact => Exactness::Exact.text().to_owned(),
        other => style.yellow(other.text()),
    };
    let machine = format!(
        "{}, linux {}, {} pages, counted by {}, {exactness}",
        escaped(&report.hostname),
        escaped(&report.kernel),
        report.page_size,
        escaped(&report.backend.name),
    );
    // Not wrapped: users copy the command.
    let subject = style.bold(&subject(report));
    let [times, machine] = [times, machine].map(|line| wrapped(&line, style.width));
    format!("{subject}\n{times}\n{machine}\n")
}

/// The command, or the followed process.
fn subject(report: &Report) -> String {
    match report.followed {
        Some(pid) if report.command.is_empty() => format!("process {pid}"),
        _ => {
            // Quoted for a shell and escaped for the terminal.
            let words: Vec<String> = report
                .command
                .iter()
                .map(|word| shell_quoted(word.as_ref()))
                .collect();
            words.join(" ")
        }
    }
}

fn exit(report: &Report) -> String {
    match report.exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(number) => format!("killed by {} ({number})", report.exit),
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
        let text = report(&sample::cold(), ReportOptions::default());
        let begin = "dd if=/data/file of=/dev/null bs=1M\n\
            exit 0, 0.512 s wall, 0.010 s user, 0.290 s system\n\
            box, linux 6.18.0, 4.0 KiB pages, counted by tracepoints, exact to the page\n\n";
        assert!(
            text.starts_with(begin),
            "command, exit and back-end: {text}"
        );
        let order = [
            "reads through",
            "files\n",
            "processes\n",
            "findings\n",
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
        estimated.backend.exact = false;
        estimated.backend.name = "procfs".into();
        let text = report(&estimated, ReportOptions::default());
        assert!(
            text.contains("counted by procfs, NOT exact"),
            "it is not called exact: {text}"
        );
    }

    #[test]
    fn every_kind_of_exit_has_words() {
        let mut report = sample::cold();
        for (end, text) in [
            (Exit::Code(127), "exit 127"),
            (Exit::Signal(9), "killed by SIGKILL (9)"),
            (Exit::Running, "still running"),
            (
                Exit::Unknown(Reason::EndNotRecorded),
                "exit ? (its end was not recorded)",
            ),
        ] {
            report.exit = end;
            assert_eq!(exit(&report), text, "{end:?}");
        }
    }

    #[test]
    fn commands_are_quoted_and_escaped() {
        let mut report = sample::cold();
        report.command = vec![
            "sh".into(),
            "-c".into(),
            "cat a b".into(),
            "\u{1b}[2J".into(),
        ];
        assert_eq!(
            subject(&report),
            r"sh -c 'cat a b' $'\033[2J'",
            "quoted as a shell takes it"
        );
        report.command.clear();
        report.followed = Some(7);
        assert_eq!(subject(&report), "process 7", "a process that was followed");
    }

    #[test]
    fn headings_are_bold() {
        let options = ReportOptions {
            style: Style {
                color: true,
                width: 80,
            },
            top: 10,
        };
        let text = report(&sample::cold(), options);
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
