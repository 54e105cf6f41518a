//! [`page`]: the verdicts as one self-contained HTML page.

use std::fmt::Write;

use super::{Measure, Verdicts};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2330;\
    background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
    th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #d8dde6}td.n,th.n{text-align:right;\
    font-variant-numeric:tabular-nums}.yes{font-weight:600}.note{color:#8a4b00}svg{width:100%;height:auto}\
    svg text{font:13px system-ui,sans-serif;fill:currentColor}svg .name{font-weight:600}.dot{fill:#2f6fb5;fill-opacity:.55}.mean{stroke:#b5442f;\
    stroke-width:2.5}.axis{stroke:#8b95a5}@media(prefers-color-scheme:dark){body{color:#e3e7ee;background:#14181f}\
    th,td{border-color:#333b47}.note{color:#f0b060}.dot{fill:#74b0f0}.mean{stroke:#ff8a70}}";

/// Makes the page. Names in it come from a file, so they are escaped.
#[must_use]
pub fn page(verdicts: &Verdicts, title: &str) -> String {
    let mut html = String::new();
    let title = escaped(title);
    // Writing to a string cannot fail.
    let _ = write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\"><title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\
         <p>{} of {} runs, {} of each arm with each workload, in random order, seed {}. Compared with <b>{}</b>.</p>",
        verdicts.done,
        verdicts.planned,
        verdicts.repeats,
        verdicts.seed,
        escaped(&verdicts.baseline)
    );
    for warning in &verdicts.warnings {
        let _ = write!(html, "<p class=\"note\">Warning: {}</p>", escaped(warning));
    }
    for skipped in &verdicts.skipped {
        let (arm, reason) = (escaped(&skipped.arm), escaped(&skipped.reason));
        let _ = write!(
            html,
            "<p class=\"note\">Skipped: <b>{arm}</b>: {reason}</p>"
        );
    }
    for measure in Measure::ALL {
        section(&mut html, verdicts, measure);
    }
    html.push_str(
        "<p>An interval is what the change of the mean is in 95 of 100 cases (bootstrap), in per cent of the baseline; \
         p is of Welch's test, with all comparisons of the measure taken into account (Holm). CV is the standard deviation \
         in per cent of the mean. A dot is a run, a line a mean.</p></body></html>\n",
    );
    html
}

fn section(html: &mut String, verdicts: &Verdicts, measure: Measure) {
    let mut name = measure.to_string();
    name[..1].make_ascii_uppercase();
    let _ = write!(
        html,
        "<h2>{name}</h2><table><thead><tr><th>Workload</th><th>Arm</th><th class=\"n\">Mean</th><th class=\"n\">CV</th>\
         <th>Verdict</th></tr></thead><tbody>"
    );
    for sample in verdicts
        .samples
        .iter()
        .filter(|sample| sample.measure == measure)
    {
        let comparison = verdicts.comparisons.iter().find(|one| {
            one.measure == measure && one.arm == sample.arm && one.workload == sample.workload
        });
        let class = if comparison.is_some_and(|one| one.compared.is_significant) {
            "yes"
        } else {
            ""
        };
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"{class}\">{}</td></tr>",
            escaped(&sample.workload),
            escaped(&sample.arm),
            sample
                .mean
                .map_or_else(|| "?".to_owned(), |mean| measure.shown(mean)),
            sample
                .variation_ratio
                .map_or_else(|| "-".to_owned(), |cv| format!("{:.1} %", cv * 100.0)),
            escaped(verdicts.verdict(sample)),
        );
    }
    html.push_str("</tbody></table>");
    let mut workloads: Vec<&str> = verdicts
        .samples
        .iter()
        .map(|sample| &*sample.workload)
        .collect();
    workloads.dedup();
    workloads.sort_unstable();
    workloads.dedup();
    for workload in workloads {
        plot(html, verdicts, measure, workload);
    }
}

/// Every run as a dot, a row per arm.
fn plot(html: &mut String, verdicts: &Verdicts, measure: Measure, workload: &str) {
    const WIDTH: f64 = 900.0;
    const LEFT: f64 = 220.0;
    const ROW: f64 = 30.0;
    let of_it = |sample: &&super::Sample| sample.measure == measure && sample.workload == workload;
    let samples: Vec<_> = verdicts.samples.iter().filter(of_it).collect();
    let values = samples
        .iter()
        .flat_map(|sample| sample.values.iter().copied());
    // The scale starts at 0, so that a small difference looks small.
    let most = values.fold(0.0_f64, f64::max);
    let scale = if most > 0.0 { most } else { 1.0 };
    let place = |value: f64| LEFT + value / scale * (WIDTH - LEFT - 30.0);
    let bottom = 34.0 + ROW * samples.len() as f64;
    let _ = write!(
        html,
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{measure} of {label}\"><text x=\"0\" y=\"18\" \
         class=\"name\">{label}</text>",
        bottom + 26.0,
        label = escaped(workload),
    );
    for (row, sample) in samples.iter().enumerate() {
        let y = 44.0 + ROW * row as f64;
        let _ = write!(
            html,
            "<text x=\"0\" y=\"{}\">{}</text>",
            y + 5.0,
            escaped(&sample.arm)
        );
        for value in &sample.values {
            let _ = write!(
                html,
                "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y}\" r=\"5\"/>",
                place(*value)
            );
        }
        if let Some(mean) = sample.mean {
            let (x, top, end) = (place(mean), y - 10.0, y + 10.0);
            let _ = write!(
                html,
                "<line class=\"mean\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{end}\"/>"
            );
        }
    }
    let end = place(scale);
    let _ = write!(
        html,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{bottom}\" y2=\"{bottom}\"/><text x=\"{LEFT}\" y=\"{y}\">0</text>\
         <text x=\"{end}\" y=\"{y}\" text-anchor=\"end\">{}</text></svg>",
        measure.shown(scale),
        y = bottom + 18.0
    );
}

fn escaped(text: &str) -> String {
    let text = cachewise_units::escaped(text);
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
