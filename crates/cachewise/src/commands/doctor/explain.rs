//! `--explain`: the page about a finding.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_cli::output::is_broken_pipe;
use clap::builder::PossibleValuesParser;

macro_rules! pages {
    ($($id:literal),+ $(,)?) => {
        /// The page of each finding, by its id.
        static PAGES: &[(&str, &str)] = &[
            $(($id, include_str!(concat!("../../../../../docs/findings/", $id, ".md")))),+
        ];
    };
}

pages![
    "cached_twice",
    "cold_metadata",
    "cold_start",
    "device_busy",
    "direct_io",
    "direct_reclaim",
    "dirty_backlog",
    "dirty_throttling",
    "evicted_by_other",
    "fault_readahead",
    "fault_storm",
    "fsync_waits",
    "group_limit",
    "partial_writes",
    "random_small_reads",
    "readahead_wasted",
    "reread_from_disk",
    "swap_waits",
    "thrashing",
    "tiny_reads",
    "who_misses",
    "working_set",
];

/// The ids, for the command line.
pub fn ids() -> PossibleValuesParser {
    PAGES.iter().map(|(id, _)| *id).collect::<Vec<_>>().into()
}

/// Prints the page.
pub fn explain(id: &str) -> Result<ExitCode> {
    let page = PAGES.iter().find(|(known, _)| *known == id);
    let page = page.map_or("", |(_, page)| page);
    let written = std::io::stdout().lock().write_all(page.as_bytes());
    match written.context("cannot write the page") {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::RULES;

    use super::PAGES;

    #[test]
    fn every_rule_has_its_page() {
        let mut rules: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        rules.sort_unstable();
        let pages: Vec<&str> = PAGES.iter().map(|(id, _)| *id).collect();
        assert_eq!(pages, rules, "in the order of their names");
        for (id, page) in PAGES {
            assert!(page.starts_with(&format!("# Finding `{id}`")), "{id}");
        }
    }
}
