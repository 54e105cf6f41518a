//! A recording as one page: the page of a server with its documents inside, in one file.
//!
//! Everything is in the page; its policy allows the two scripts and the style that are in it, by their
//! check sums, and nothing else. The scripts are those of a server's page: [`source.js`](../assets/source.js) takes the
//! documents of the API from the page instead.
//!
//! # Layout
//! - [`report_page`]: the page. [`ReportSamples`]: its samples, bounded.
//! - `documents`: the documents inside. `bundle`: the modules as one script.
//! - `about`: the recording in words. `stacks`: code that waits. `tables`: waiting, and all numbers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cachewise_model::Statistics;
use sha2::{Digest, Sha256};

mod about;
mod bundle;
mod documents;
mod samples;
mod stacks;
mod tables;

pub use self::samples::ReportSamples;
use crate::html::{json_in_script, text};
use crate::page::{Counted, Time, page, values};

const UPLOT: &str = include_str!("../assets/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/uPlot.min.css");
const STYLE: &str = include_str!("../assets/style.css");
const WITHOUT_SCRIPTS: &str = "Without JavaScript this page has the verdict, the findings and the first rows of the tables, \
    and no charts.";

/// The page of a recording. `version` is that of the program that makes it.
#[must_use]
pub fn report_page(summary: &Statistics, samples: &ReportSamples, version: &str) -> String {
    let total = &summary.total;
    let style = format!("{UPLOT_STYLE}\n{STYLE}");
    let script = bundle::bundle("app.js");
    let policy = format!(
        "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
        source(UPLOT),
        source(&script),
        source(&style)
    );
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<style>{style}</style>"
    );
    let data = json_in_script(&documents::documents(summary, samples));
    let scripts = format!(
        "<script type=\"application/json\" id=\"recorded\">{data}</script>\n\
         <script>{UPLOT}</script>\n<script>{script}</script>"
    );
    let counted = Counted {
        interval: total,
        findings: &summary.diagnosis,
        lost: &total.lost,
    };
    let mut values = values(&total.source, version, Ok(&counted), Time::Recorded);
    let more = [
        tables::stalls(summary),
        stacks::stacks(total),
        tables::numbers(summary),
    ];
    values.extend([
        ("title", text(&about::title(summary)).into_owned()),
        ("head", head),
        ("time", text(&about::time(summary)).into_owned()),
        ("without_scripts", WITHOUT_SCRIPTS.to_owned()),
        ("notes", about::notes(summary, samples)),
        ("more", more.concat()),
        ("scripts", scripts),
    ]);
    page(&values)
}

/// A script or a style by its check sum, as a policy names it.
fn source(content: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(content)))
}

#[cfg(test)]
mod tests;
