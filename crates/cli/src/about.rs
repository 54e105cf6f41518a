//! The commands that describe a program: columns, completions, manual; and errors in a command line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_view::SheetColumn;
use clap::Subcommand;
use clap_complete::Shell;

use crate::output::{FAILED, printable};
use crate::plain::plain;
use crate::{completions, man};

/// Commands that every program has.
#[derive(Debug, Subcommand)]
pub enum About {
    /// List every column, with its meaning.
    Columns,
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual's first page, or write all pages into a directory.
    Man {
        /// Directory for one page per command; it is created if missing.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Runs one of these commands for the program whose command line is `program`.
///
/// # Errors
/// The output cannot be written.
pub fn about(about: &About, program: clap::Command, columns: &str) -> Result<ExitCode> {
    match about {
        About::Columns => io::stdout()
            .write_all(columns.as_bytes())
            .context("cannot write to standard output")?,
        About::Completions { shell } => {
            io::stdout()
                .write_all(&completions::script(*shell, program))
                .context("cannot write to standard output")?;
        }
        About::Man { directory } => man::man(program, directory.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The columns of tables of one command each, as `columns` lists them.
#[must_use]
pub fn sheets(sheets: &[(&str, &[SheetColumn])]) -> String {
    let lists = sheets.iter().map(|(command, columns)| {
        let width = columns.iter().map(|column| column.id.len()).max();
        let width = width.unwrap_or_default();
        let headings = columns.iter().map(|column| column.header.len()).max();
        let headings = headings.unwrap_or_default();
        let lines = columns.iter().map(|column| {
            let (id, header, help) = (column.id, column.header, column.help);
            format!("  {id:width$}  {header:headings$}  {help}\n")
        });
        format!("Only in `{command}`:\n{}", lines.collect::<String>())
    });
    lists.collect::<Vec<_>>().join("\n")
}

/// Prints help and version as clap renders them, and errors with the typed text made printable.
#[must_use]
pub fn answer(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let mut text = error.render().to_string();
        if let Some(source) = std::error::Error::source(error) {
            let reason = source.to_string();
            text = text.replace(&format!(": {reason}"), &format!(": {}", plain(&reason)));
        }
        let _ = write!(io::stderr(), "{}", printable(&text));
        return ExitCode::from(FAILED);
    }
    // A reader that has gone wants no more help.
    let _ = error.print();
    ExitCode::SUCCESS
}
