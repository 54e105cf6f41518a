//! The findings over the whole time, with their figures and the next step.

use std::fmt::Write;

use cachewise_model::{Finding, Severity, Statistics};
use cachewise_view::{finding_figure, folded_text};

use crate::html::{page_link, text};

pub(super) fn findings(summary: &Statistics) -> String {
    let none = match (&summary.diagnosis.findings[..], &summary.diagnosis.blind) {
        (_, Some(blind)) => format!("<p class=\"hint\">{}.</p>\n", text(&blind.to_string())),
        ([], None) => "<p class=\"hint\">Nothing that would be worth a change.</p>\n".to_owned(),
        _ => String::new(),
    };
    let items: String = summary.diagnosis.findings.iter().map(finding).collect();
    let items = match items.is_empty() {
        true => items,
        false => format!("<ul>\n{items}</ul>\n"),
    };
    format!(
        "<section class=\"card\" aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n{none}{items}</section>\n"
    )
}

fn finding(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Warn => "Warning",
        Severity::Info => "Note",
    };
    let subject = finding.subject_text();
    let subject = subject.map_or(String::new(), |subject| {
        format!(": <code>{}</code>", text(&subject))
    });
    let figures = finding.figures.iter();
    let figures: Vec<String> = figures
        .map(|(name, value)| finding_figure(name, value))
        .collect();
    let also: String = finding.also.iter().map(folded_text).collect();
    let mut item = String::new();
    let _ = writeln!(
        item,
        "<li><strong>{severity}: {}</strong>{subject}<br>{}{}<br>Next: {}<br>Verify: {}<br>{}</li>",
        text(&finding.title),
        text(&figures.join(", ")),
        text(&also),
        text(&finding.next_step),
        text(&finding.verify),
        page_link(finding)
    );
    item
}
