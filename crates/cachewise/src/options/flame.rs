//! Files that are made of stacks.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cachewise_cli::output::Whole;
use cachewise_model::Interval;
use cachewise_units::escaped;
use cachewise_view::{FlameWeight, flame_svg, folded_stacks};
use clap::Args;

/// The options of commands that write stacks to files.
#[derive(Debug, Clone, Default, Args)]
pub struct StackFiles {
    /// Write the stacks to this file, one a line, for programs that draw flame graphs.
    #[arg(long, value_name = "FILE")]
    pub folded: Option<PathBuf>,
    /// Write a flame graph to this file (SVG).
    #[arg(long, value_name = "FILE")]
    pub flamegraph: Option<PathBuf>,
    /// Weight of stacks in --folded and --flamegraph: waited time, pages, or bytes.
    #[arg(long, value_name = "WEIGHT", value_enum, default_value_t)]
    pub stack_weight: StackWeight,
}

/// Weight of a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StackWeight {
    /// Microseconds that tasks waited.
    #[default]
    Time,
    /// Pages that missed or were evicted.
    Pages,
    /// Bytes of these pages and of direct I/O.
    Bytes,
}

impl StackWeight {
    fn get(self) -> FlameWeight {
        match self {
            StackWeight::Time => FlameWeight::Time,
            StackWeight::Pages => FlameWeight::Pages,
            StackWeight::Bytes => FlameWeight::Bytes,
        }
    }
}

impl StackFiles {
    /// Whether there is a file to write.
    pub fn is_wanted(&self) -> bool {
        self.folded.is_some() || self.flamegraph.is_some()
    }

    /// Opens the files, before anything is measured.
    ///
    /// # Errors
    /// Names the file that cannot be created.
    pub fn open(&self) -> Result<OpenStackFiles> {
        let open = |path: &Path| {
            let cannot = || format!("cannot create the file {}", escaped(path));
            Whole::begin(path).with_context(cannot)
        };
        Ok(OpenStackFiles {
            folded: self.folded.as_deref().map(open).transpose()?,
            flame_graph: self.flamegraph.as_deref().map(open).transpose()?,
            weight: self.stack_weight.get(),
        })
    }
}

/// The open files.
pub struct OpenStackFiles {
    folded: Option<Whole>,
    flame_graph: Option<Whole>,
    weight: FlameWeight,
}

impl OpenStackFiles {
    /// Writes the stacks of an interval, if it has any.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn write(self, interval: &Interval) -> Result<()> {
        let Some(stacks) = &interval.stacks else {
            return Ok(());
        };
        let (weight, page) = (self.weight, interval.page().get());
        if let Some(file) = self.folded {
            let text = folded_stacks(stacks, weight, page);
            file.write(text.as_bytes())
                .context("cannot write the folded stacks")?;
        }
        if let Some(file) = self.flame_graph {
            let text = flame_svg(stacks, weight, page);
            file.write(text.as_bytes())
                .context("cannot write the flame graph")?;
        }
        Ok(())
    }
}
