//! `cachewise`: is my program getting the cache that it should, and what do I do about it?

#![forbid(unsafe_code)]

mod act;
mod bench;
mod cache;
mod cli;
mod columns;
mod compat;
mod cpu;
mod dispatch;
mod doctor;
mod drop;
mod files;
mod guard;
mod machine;
mod man;
mod mount;
mod order;
mod output;
mod progress;
mod record;
mod report;
mod run;
mod serve;
mod signals;
mod stat;
mod ticks;
mod tier;
mod top;
mod watch;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::cli::Cli;

fn main() -> ExitCode {
    if let Err(error) = use_the_callers_rights() {
        output::tell(&output::explain(&error));
        return ExitCode::from(output::FAILED);
    }
    let cli = match Cli::try_parse_from(compat::typed(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return cli::answer(&error),
    };
    dispatch::run(cli.command).unwrap_or_else(|error| {
        if output::is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::tell(&output::explain(&error));
        ExitCode::from(output::FAILED)
    })
}

/// Gives up file capabilities beyond those for probes: files are opened with the rights of the caller.
fn use_the_callers_rights() -> Result<()> {
    if !cachewise_sys::has_rights_of_its_own() {
        return Ok(());
    }
    if rustix::process::geteuid() != rustix::process::getuid()
        || rustix::process::getegid() != rustix::process::getgid()
    {
        bail!(
            "cannot run set-user-ID or set-group-ID: every user would read every file with it; \
             `cachewise doctor --setcap` prints how to give a group what counting needs"
        );
    }
    cachewise_sys::give_up_rights_over_files()
        .context("cannot give up capabilities over files that the caller does not have")
}
