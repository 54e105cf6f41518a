//! Snapshots that are read.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use cachewise_residency::snapshot::Reader;

/// The name that stands for a standard stream.
pub const STREAM: &str = "-";

/// Opens a snapshot. Whatever has to be waited for is waited for before signals are caught: one of them ends it.
pub fn read(file: &Path) -> Result<Reader<BufReader<File>>> {
    if file != Path::new(STREAM) {
        return Ok(Reader::open(file)?);
    }
    // Whether it is complete is known at its end, and something is done before that.
    let mut all = tempfile::tempfile().context("cannot make a temporary file")?;
    io::copy(&mut io::stdin().lock(), &mut all).context("cannot read standard input")?;
    Reader::from_file(all).context("cannot use the snapshot on standard input")
}
