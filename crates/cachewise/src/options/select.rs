//! Selection of the files of a tree: options of every command that walks directories.

use cachewise_residency::{Error, Patterns};
use clap::Args;

/// Patterns, file systems and threads of a walk.
#[derive(Debug, Clone, Args)]
pub struct Select {
    /// Stay on the file system of each path.
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Include only files that match, by name or, with a slash in GLOB, by the end of the path; repeat for more globs.
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Exclude files and directories that match; repeat for more globs.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Number of threads [default: number of CPUs, at most 8].
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub threads: Option<u16>,
}

impl Select {
    /// The patterns, to match files that no walk lists; `None` without `--include` and `--exclude`.
    ///
    /// # Errors
    /// [`Error::Pattern`] for an invalid glob.
    pub fn patterns(&self) -> Result<Option<Patterns>, Error> {
        let mut patterns = Patterns::default();
        for pattern in &self.include {
            patterns.include(pattern)?;
        }
        for pattern in &self.exclude {
            patterns.exclude(pattern)?;
        }
        Ok(self.has_patterns().then_some(patterns))
    }

    /// Text to append to "no file" if patterns may be the reason.
    pub fn picked(&self) -> &'static str {
        match self.has_patterns() {
            true => " that --include and --exclude let through",
            false => "",
        }
    }

    fn has_patterns(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }
}
