//! `tier trim`: the blocks of an engine, counted, and removed where they are unused or over a limit.

use std::process::ExitCode;

use anyhow::Result;
use cachewise_cli::output::{Stream, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_model::{Missing, Reason};
use cachewise_tier::remote::{self, TenantBlocks, TrimOptions};
use cachewise_units::Bytes;
use cachewise_view::{Sheet, SheetCell};

use super::columns::TRIMMED;
use super::{cache, written};
use crate::commands::arguments::Trim as Arguments;

const NOT_KNOWN: Missing = Missing::NotOffered(Reason::NotApplicable);

/// Runs the subcommand.
pub fn trim(arguments: &Arguments) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let wanted = cache::wanted(&arguments.cache, |_| {})?;
    let options = TrimOptions {
        unused: arguments.unused.map(|unused| unused.get()),
        limit: arguments.limit,
        is_trial: arguments.dry_run,
    };
    let runtime = cache::runtime(&wanted.cache)?;
    let trimmed = runtime.block_on(remote::trim(&wanted.cache, options));
    let tenants = trimmed.map_err(cache::spelled)?;
    if arguments.dry_run {
        tell("nothing was removed (--dry-run)");
    }
    written(sinks, &sheet(&tenants).chosen(arguments.columns.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

fn sheet(tenants: &[TenantBlocks]) -> Sheet {
    let mut sheet = Sheet::new(&TRIMMED);
    for row in tenants {
        let unused = row.longest_unused.map(|unused| unused.as_secs_f64());
        sheet.rows.push(vec![
            match row.tenant.as_str() {
                "" => SheetCell::with_text("", "-"),
                tenant => SheetCell::text(tenant),
            },
            SheetCell::count(row.blocks),
            SheetCell::bytes(Bytes(row.bytes)),
            SheetCell::count(row.removed_blocks),
            SheetCell::bytes(Bytes(row.removed_bytes)),
            SheetCell::or_missing(unused, NOT_KNOWN, SheetCell::seconds),
        ]);
    }
    sheet
}
