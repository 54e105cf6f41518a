//! Which files of a tree are meant: options of every command that walks.

use cachewise_residency::{Error, Patterns};
use clap::Args;

/// How to walk.
#[derive(Debug, Clone, Args)]
pub struct Select {
    /// Stay on the file system of each path.
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Only files that match; may be given again. A glob without a slash is matched against the file's name,
    /// one with a slash against the end of its path.
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out files and directories that match; may be given again.
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// How many threads work; as many as there are CPUs, up to 8.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub threads: Option<u16>,
}

impl Select {
    /// The patterns for files that no walk finds; `None` where there are none.
    ///
    /// # Errors
    /// [`Error::Pattern`] for one that cannot be understood.
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

    /// What to add to "no file", where patterns may be the reason.
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
