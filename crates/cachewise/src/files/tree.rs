//! `--tree`: sums by directory.

use std::ops::ControlFlow;

use anyhow::Result;
use cachewise_residency::{Found as Met, Tree};

use super::show::{Answer, Show, sum_row};
use super::walk::{plan, skipped};
use crate::cli::Files;

/// Shows the directories down to a depth, each with what is below it.
pub fn show(arguments: &Files, show: &mut Show) -> Result<Answer> {
    let mut listing = show.begin()?;
    let mut tree = Tree::new(arguments.depth);
    plan(&arguments.select, &arguments.paths, &[])?.run(|met| {
        match met {
            Met::File(entry) => tree.add(&entry),
            Met::Skipped(error) => skipped(&arguments.paths, error, listing.counting()),
        }
        ControlFlow::Continue(())
    });
    let directories = tree.into_directories();
    for directory in directories
        .iter()
        .filter(|directory| directory.path == directory.root)
    {
        let (sum, answer) = (&directory.sum, &mut listing.counting().answer);
        answer.files += sum.files;
        answer.unknown += sum.unknown;
        answer.size += sum.size.0;
        answer.counts += sum.counts;
    }
    for directory in &directories {
        let sum = &directory.sum;
        if arguments.only_cached && sum.counts.cached.0 == 0 {
            continue;
        }
        listing.row(&sum_row(
            &directory.path,
            sum.files,
            sum.size.0,
            &sum.counts,
        ))?;
    }
    listing.finish()
}
