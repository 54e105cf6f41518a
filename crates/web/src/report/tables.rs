//! Tables that only a recording has: time lost to waiting, and the spread of each number.

use std::fmt::Write;

use cachewise_model::{Figures, Kind, Measured, Statistics, Unit, Value, escaped};
use cachewise_view::{figure, marked, value_text};

use crate::html::text;

/// Returns a value, or a mark for a missing value with the reason as its tooltip.
fn value(value: &Value) -> String {
    match value {
        Measured::Missing(missing) => format!(
            "<span class=\"missing\" title=\"{}\">{}</span>",
            text(missing.reason().words()),
            missing.mark()
        ),
        value => text(&value_text(value)).into_owned(),
    }
}

pub(super) fn stalls(summary: &Statistics) -> String {
    if summary
        .stalls
        .iter()
        .all(|stall| stall.seconds.known().is_none())
    {
        return String::new();
    }
    let number = |number: Measured<f64>, unit| marked(&number, |number| figure(unit, *number));
    let mut body = String::new();
    for stall in &summary.stalls {
        let worst = match stall.worst_ratio.known() {
            Some(worst) if worst > 0.0 => stall.worst_time.clone().known().unwrap_or_default(),
            _ => String::new(),
        };
        let _ = writeln!(
            body,
            "<tr><th scope=\"row\">{} {}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            stall.kind,
            stall.resource,
            number(stall.seconds, Unit::Seconds),
            number(stall.ratio, Unit::Ratio),
            number(stall.worst_ratio, Unit::Ratio),
            text(&worst)
        );
    }
    format!(
        "<section class=\"card\" aria-labelledby=\"waiting\">\n<h2 id=\"waiting\">Time lost to waiting</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: time lost to waiting\"><table>\n<caption>some: at least one task waited; full: all did (PSI)</caption>\n\
         <thead><tr><th scope=\"col\" class=\"name\">waiting for</th><th scope=\"col\">SECONDS</th>\
         <th scope=\"col\">OF ALL</th><th scope=\"col\">WORST SAMPLE</th><th scope=\"col\">AT</th></tr></thead>\n\
         <tbody>\n{body}</tbody></table></div></section>\n"
    )
}

pub(super) fn numbers(summary: &Statistics) -> String {
    let columns: [fn(&Figures) -> f64; 6] = [
        |figures| figures.min,
        |figures| figures.mean,
        |figures| figures.p50,
        |figures| figures.p90,
        |figures| figures.p99,
        |figures| figures.max,
    ];
    let mut body = String::new();
    for spread in &summary.spreads {
        let unit = spread.field.unit;
        let Some(figures) = spread.figures.known() else {
            continue;
        };
        // A field that is always zero gets no row.
        if figures.max == 0.0 {
            continue;
        }
        let estimated = if spread.figures.estimate().is_some() {
            "~"
        } else {
            ""
        };
        let second = if spread.is_rate() { "/s" } else { "" };
        let _ = write!(
            body,
            "<tr><th scope=\"row\" title=\"{}\">{}{second}</th>",
            text(spread.field.help),
            text(spread.field.header)
        );
        for of in columns {
            let _ = write!(body, "<td>{estimated}{}</td>", figure(unit, of(&figures)));
        }
        let total = match spread.field.kind {
            Kind::Counter => value(&spread.total),
            _ if unit == Unit::Ratio => value(&spread.total),
            _ => String::new(),
        };
        let help = escaped(&spread.field.help);
        let _ = writeln!(
            body,
            "<td>{total}</td><td class=\"meaning\">{}</td></tr>",
            text(&help)
        );
    }
    format!(
        "<section class=\"card\" aria-labelledby=\"numbers\">\n<h2 id=\"numbers\">Numbers</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: numbers\"><table>\n\
         <caption>Over all samples: counters by the second, with what they add up to; gauges as they were. What never \
         happened is left out.</caption>\n\
         <thead><tr><th scope=\"col\" class=\"name\">what</th><th scope=\"col\">MIN</th><th scope=\"col\">MEAN</th>\
         <th scope=\"col\">P50</th><th scope=\"col\">P90</th><th scope=\"col\">P99</th><th scope=\"col\">MAX</th>\
         <th scope=\"col\">IN ALL</th><th scope=\"col\" class=\"meaning\">meaning</th></tr></thead>\n\
         <tbody>\n{body}</tbody></table></div></section>\n"
    )
}
