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
    after_help = "Without a name, prints what is taken over of each tool and what is not. With one, does what that tool would be \
    asked to do by the rest; what has no equal here is refused, with the reason. Output is ours: its columns have other names, and \
    numbers that cannot be known are `?`.\n\n\
    Under a name of another tool, as a link or with `cachewise-` before it, the program does the same. The Debian package has \
    such links in /usr/lib/cachewise/names, to be put at the head of PATH by who wants them.\n\n\
    Exit status: that of the command which it becomes; 2 for what is not taken over.\n\n\
    Examples:\n  \
    cachewise compat\n  \
    cachewise compat vmtouch -v /var/lib/db\n  \
    PATH=/usr/lib/cachewise/names:$PATH cachestat 1 5"
)]
pub struct Compat {
    /// Which tool, and what it is told.
    #[command(subcommand)]
    pub called: Option<Called>,
}

/// A name of another tool, and its arguments.
#[derive(Debug, Subcommand)]
pub enum Called {
    /// As it was typed.
    #[command(external_subcommand)]
    As(Vec<OsString>),
}
