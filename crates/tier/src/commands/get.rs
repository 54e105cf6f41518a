//! `tier get`: a file's bytes to standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use cachewise_tier::Kind;
use cachewise_units::{ByteRange, escaped};

use crate::commands::arguments::Get as Arguments;
use crate::commands::cache;

/// Bytes for each read: enough to fetch several blocks in parallel.
const STEP: u64 = 4 << 20;

/// Writes them.
pub fn get(arguments: &Arguments) -> Result<ExitCode> {
    let wanted = cache::wanted(&arguments.cache, |_| {})?;
    let origin = cache::origin(&arguments.origin, &wanted)?;
    let runtime = cache::runtime(&wanted.cache)?;
    let cache = cache::open(&runtime, &wanted, origin)?;
    let file = runtime.block_on(cache.stat(&arguments.path))?;
    ensure!(
        file.meta().kind == Kind::File,
        "{}: not a file, so that it has no bytes",
        escaped(&arguments.path)
    );
    let size = file.meta().size;
    let mut start = arguments.offset.0.min(size);
    let end = match arguments.length {
        Some(length) => start.saturating_add(length.0).min(size),
        None => size,
    };
    let written = (|| -> Result<()> {
        let mut out = io::stdout().lock();
        while start < end {
            let len = STEP.min(end.saturating_sub(start));
            let bytes = runtime.block_on(cache.get(&file, ByteRange { start, len }))?;
            out.write_all(&bytes)
                .context("cannot write to standard output")?;
            start = start.saturating_add(len);
        }
        out.flush().context("cannot write to standard output")?;
        Ok(())
    })();
    // Blocks read so far are kept, even if the rest failed.
    let closed = runtime.block_on(cache.close());
    written?;
    closed?;
    Ok(ExitCode::SUCCESS)
}
