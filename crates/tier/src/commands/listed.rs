//! The files and ranges of a snapshot, as files of an origin.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cachewise_residency::snapshot::Reader;
use cachewise_sys::page_size;
use cachewise_tier::{BlockCache, Error, File, Kind, WarmFrom, Warmed};
use cachewise_units::{ByteRange, Bytes, counted, escaped};
use futures_util::stream::{self, Stream, StreamExt};

use crate::commands::arguments::Warm;
use cachewise_cli::output::tell;

/// Files that are read at once: many are small, and each costs the origin's delay.
const FILES_AT_ONCE: usize = 8;

/// A file of a snapshot.
#[derive(Debug)]
pub struct Listed {
    /// Its path at the origin.
    path: PathBuf,
    /// The size that it had.
    size: Bytes,
    ranges: Vec<ByteRange>,
}

/// Reads a snapshot; `None` without one. Files outside of the origin's directory are left out.
pub fn listed(arguments: &Warm) -> Result<Option<Vec<Listed>>> {
    let Some(snapshot) = &arguments.snapshot else {
        return Ok(None);
    };
    let root = match &arguments.mounted_at {
        Some(directory) => directory,
        None if arguments.on.origin.contains("://") => bail!(
            "the paths of a snapshot are those of a mount: add --mounted-at DIR, the directory that {} was mounted on",
            escaped(&arguments.on.origin)
        ),
        None => Path::new(&arguments.on.origin),
    };
    // The mount may be there or not.
    let roots = [
        std::path::absolute(root)?,
        root.canonicalize().unwrap_or_default(),
    ];
    let roots = roots.iter().filter(|root| root.is_absolute());
    let (mut found, mut outside) = (Vec::new(), 0);
    for entry in Reader::open(snapshot)? {
        let entry = entry.context("cannot use the snapshot")?;
        let below = |root: &PathBuf| entry.path.strip_prefix(root).ok();
        match roots.clone().find_map(below) {
            None => outside += 1,
            Some(path) => found.push(Listed {
                path: path.to_owned(),
                size: entry.size,
                ranges: entry
                    .ranges
                    .iter()
                    .map(|range| range.bytes(page_size()))
                    .collect(),
            }),
        }
    }
    if found.is_empty() {
        bail!(
            "{}: no file in it is below {}: name the directory that the paths are below with --mounted-at",
            escaped(snapshot),
            escaped(root)
        );
    }
    if outside > 0 {
        tell(&format!(
            "{} of the snapshot not below {}: left out",
            counted(outside, "file"),
            escaped(root)
        ));
    }
    Ok(Some(found))
}

/// Reads the files into a cache, some at a time, in their order.
pub fn warmed<'c>(
    cache: &'c BlockCache,
    files: &'c [Listed],
) -> impl Stream<Item = Result<Warmed, Error>> + 'c {
    let warm = move |listed: &'c Listed| async move {
        let file: File = cache.stat(&listed.path).await?;
        if file.meta().kind != Kind::File || file.meta().size != listed.size.0 {
            return Err(Error::Changed {
                path: listed.path.clone(),
                what: "its size is not that in the snapshot: save the snapshot again",
            });
        }
        let warmed = cache.warm_ranges(file, &listed.ranges, WarmFrom::Nearest);
        Ok(warmed.await)
    };
    stream::iter(files).map(warm).buffered(FILES_AT_ONCE)
}
