//! A recording as one page: plots and tables in one file, to be opened without a server or a network.
//!
//! Everything is in the page; its policy allows the two scripts and the style that are in it, by their
//! check sums, and nothing else. Tables are in the page itself, so that it says the same where scripts do
//! not run, and to a screen reader.
//!
//! # Layout
//! - [`report_page`], [`ReportPage`]: the page.
//! - `plots`: which plots there are, and their numbers. `findings`: what is wrong. `stacks`: code that waits. `tables`: the rest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

mod findings;
mod page;
mod plots;
mod stacks;
mod tables;

pub use self::page::ReportPage;
use crate::html::text;

const UPLOT: &str = include_str!("../assets/uPlot.iife.min.js");
const SCRIPT: &str = include_str!("../assets/report/report.js");
const UPLOT_STYLE: &str = include_str!("../assets/uPlot.min.css");
const STYLE: &str = include_str!("../assets/report/report.css");

/// The page.
#[must_use]
pub fn report_page(page: &ReportPage<'_>) -> String {
    let summary = page.summary;
    let title = match &summary.command[..] {
        [] => summary.total.source.hostname.clone(),
        words => format!("{}: {}", summary.total.source.hostname, words.join(" ")),
    };
    let style = format!("{UPLOT_STYLE}\n{STYLE}");
    let policy = format!(
        "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
        source(UPLOT),
        source(SCRIPT),
        source(&style)
    );
    let (plots, data) = plots::plots(page);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}, {begin} - cachewise</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#numbers\">To the numbers</a>\n\
         {head}<main>\n{notes}{figures}{findings}{plots}{stacks}{tables}</main>\n\
         <footer>Made by cachewise {version}. Times are UTC.</footer>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{UPLOT}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        title = text(&title),
        begin = text(&summary.begin),
        head = tables::head(page, &title),
        notes = tables::notes(summary),
        figures = tables::figures(summary),
        findings = findings::findings(summary),
        stacks = stacks::stacks(&summary.total),
        tables = tables::tables(summary),
        version = text(page.version),
    )
}

/// A script or a style by its check sum, as a policy names it.
fn source(content: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(content)))
}

#[cfg(test)]
mod tests;
