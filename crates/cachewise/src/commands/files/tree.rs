//! `--tree`: sums by directory.

use std::cmp::Reverse;
use std::ops::ControlFlow;

use anyhow::Result;
use cachewise_residency::{Directory, Tree, Walk, WalkItem, WalkedFile};

use super::arguments::Files;
use super::counting::Answer;
use super::fuse::NotOpened;
use super::plan::{counts_of, skipped};
use super::show::{Listing, sum_row};

/// Shows the directories of a walk down to a depth, each with what is below it.
pub fn show(arguments: &Files, walk: Walk, mut listing: Listing<'_>) -> Result<Answer> {
    let mut tree = Tree::new(arguments.depth);
    let not_opened = NotOpened::default();
    walk.run(|met| {
        match met {
            WalkItem::File(entry) => {
                let counts = counts_of(&entry, &not_opened);
                listing.counting().add(entry.size.0, counts);
                let known = counts.or(entry.counts);
                tree.add(&WalkedFile {
                    counts: known,
                    ..entry
                });
            }
            WalkItem::Skipped(error) => skipped(&arguments.paths, error, listing.counting()),
        }
        ControlFlow::Continue(())
    });
    summed(arguments, tree, listing)
}

/// Shows the sums of a tree: directory by directory, or in the order of `--sort`.
pub fn summed(arguments: &Files, tree: Tree, mut listing: Listing<'_>) -> Result<Answer> {
    let mut directories: Vec<Directory> = tree.into_directories();
    if arguments.only_cached {
        directories.retain(|directory| directory.sum.counts.cached.0 > 0);
    }
    let mut hidden = 0;
    if let Some((order, most)) = listing.chosen_order() {
        directories.sort_by_cached_key(|directory| {
            let rank = order.rank(directory.sum.size.0, &Ok(directory.sum.counts));
            Reverse(order.place(rank, &directory.path))
        });
        if let Some(most) = most {
            hidden = directories.len().saturating_sub(most);
            directories.truncate(most);
        }
    }
    let rows = directories.iter().map(|directory| {
        let sum = &directory.sum;
        sum_row(
            &directory.path,
            sum.files,
            sum.unknown,
            sum.size.0,
            &sum.counts,
        )
    });
    listing.rows(rows.collect(), hidden)?;
    listing.finish()
}
