//! The findings with their figures and the next step.

use std::fmt::Write;

use cachewise_model::{Diagnosis, Kind};
use cachewise_units::PageSize;
use cachewise_view::per_second;

use super::time::Time;
use crate::html::{page_link, text as escape};

/// The findings as items of a list.
pub(super) fn findings(findings: &Diagnosis, page_size: PageSize, time: Time) -> String {
    let mut text = String::new();
    for finding in &findings.findings {
        let subject = finding.subject_text();
        let subject = subject.map(|text| format!("<code>{}</code>", escape(&text)));
        let _ = write!(
            text,
            "<li class=\"{}\"><h3>{}</h3>{}<ul class=\"evidence\">",
            finding.severity.id(),
            escape(&finding.title),
            subject.unwrap_or_default(),
        );
        for (name, value) in &finding.figures {
            let name = ["_pages", "_bytes", "_seconds", "_ratio"]
                .iter()
                .find_map(|unit| name.strip_suffix(unit))
                .unwrap_or(name)
                .replace('_', " ");
            let _ = write!(
                text,
                "<li>{} <b>{}</b></li>",
                escape(&name),
                escape(&per_second(value, Kind::Gauge, 0.0, page_size))
            );
        }
        for folded in &finding.also {
            let subject = folded.subject.as_ref();
            let subject = subject.map_or(String::new(), |path| {
                format!(": {}", cachewise_model::escaped(path.as_os_str()))
            });
            let _ = write!(
                text,
                "<li>{}{}</li>",
                escape(&folded.title),
                escape(&subject)
            );
        }
        let _ = write!(
            text,
            "</ul><p>{}</p><p>Verify: {}</p><p>{}</p></li>",
            escape(&finding.next_step),
            escape(&finding.verify),
            page_link(finding)
        );
    }
    match &findings.blind {
        Some(blind) => {
            let _ = write!(
                text,
                "<li class=\"unknown\">Not known: {}.</li>",
                escape(&blind.to_string())
            );
        }
        None if findings.findings.is_empty() => {
            let _ = write!(
                text,
                "<li class=\"none\">Nothing to find fault with in {}.</li>",
                time.words()
            );
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Datum, Finding, Measured, Severity};
    use cachewise_units::Pages;

    use super::*;

    #[test]
    fn figures_of_findings_have_their_unit_before_the_script_runs_too() {
        let finding = Finding {
            id: "cold_start",
            severity: Severity::Info,
            title: "cold".into(),
            subject: None,
            figures: vec![(
                "read_missed_pages",
                Measured::Exact(Datum::Pages(Pages(512))),
            )],
            next_step: "again".into(),
            ..Finding::default()
        };
        let diagnosis = Diagnosis {
            findings: vec![finding],
            blind: None,
        };
        let page_size = PageSize::new(4096).expect("a power of two");
        let text = findings(&diagnosis, page_size, Time::Live);
        assert!(text.contains("read missed <b>2.0 MiB</b>"), "{text}");
    }
}
