//! Arguments of `cachewise compat`.

use std::ffi::OsString;

use clap::{Args, Subcommand};

/// `cachewise compat`.
#[derive(Debug, Args)]
#[command(
    allow_external_subcommands = true,
    subcommand_value_name = "NAME",
    disable_help_subcommand = true,
    override_usage = "cachewise compat [NAME [ARGUMENTS]...]",
    after_help = "Without a name, prints the supported and the unsupported options of each tool. With a name, translates the \
    rest of the command line and runs the matching command of cachewise; an option without a match is refused with the \
    reason. Tables are those of cachewise: columns have other names, and unknown numbers are `?`.\n\n\
    A link to cachewise with the name of another tool, or with `cachewise-` before that name, does the same. The Debian \
    package installs these links in /usr/lib/cachewise/names; to use them, put that directory first in PATH.\n\n\
    Exit status: that of the command that is run; 2 for an unsupported option.\n\n\
    Examples:\n  \
    cachewise compat\n  \
    cachewise compat vmtouch -v /var/lib/db\n  \
    PATH=/usr/lib/cachewise/names:$PATH cachestat 1 5"
)]
pub struct Compat {
    /// Name of the other tool, and its arguments.
    #[command(subcommand)]
    pub called: Option<Called>,
}

/// A name of another tool, and its arguments.
#[derive(Debug, Subcommand)]
pub enum Called {
    /// The tool's name and arguments, as typed.
    #[command(external_subcommand)]
    As(Vec<OsString>),
}
