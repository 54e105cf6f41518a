//! [`Sinks`]: where the output of a command goes, one place for each `-o`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use cachewise_units::escaped;
use cachewise_view::{Format, RowWriter, RowWriters};

use crate::arguments::Output;
use crate::output::{Sink, Stream, is_broken_pipe};
use crate::target::{Ending, Target};

/// The targets of a command, at least one.
#[derive(Debug)]
pub struct Sinks(Vec<Sink>);

impl Sinks {
    /// Opens the targets for what is written as it comes, before anything is done: a file that cannot be made should
    /// not cost a run.
    ///
    /// # Errors
    /// A file cannot be made, or two targets are the same.
    pub fn open(output: &Output, stream: Stream) -> Result<Self> {
        Sinks::with(output, stream, Sink::open)
    }

    /// Opens the targets for what is of use only as a whole: files take their places with [`keep`](Self::keep).
    ///
    /// # Errors
    /// A file cannot be made, or two targets are the same.
    pub fn open_whole(output: &Output, stream: Stream) -> Result<Self> {
        Sinks::with(output, stream, Sink::open_whole)
    }

    fn with(
        output: &Output,
        stream: Stream,
        open: fn(Target, crate::arguments::Color, Stream) -> Result<Sink>,
    ) -> Result<Self> {
        let mut targets = output.output.clone();
        if targets.is_empty() {
            let format = match output.json {
                true => Format::Json,
                false => Format::Table,
            };
            targets.push(Target::new(format, None, Ending::Clear));
        }
        check(&targets, stream)?;
        let sinks = targets
            .into_iter()
            .map(|target| open(target, output.color, stream));
        Ok(Sinks(sinks.collect::<Result<_>>()?))
    }

    /// The targets.
    pub fn iter(&self) -> impl Iterator<Item = &Sink> {
        self.0.iter()
    }

    /// Whether one is a terminal.
    pub fn have_terminal(&self) -> bool {
        self.iter().any(|sink| sink.is_terminal)
    }

    /// Whether one has this format.
    pub fn have(&self, format: Format) -> bool {
        self.iter().any(|sink| sink.format == format)
    }

    /// Writes to each, and marks each as complete. A target that fails does not stop the others.
    ///
    /// # Errors
    /// The first error; a closed pipe comes after all others.
    pub fn write(self, mut write: impl FnMut(&mut Sink) -> Result<()>) -> Result<()> {
        let mut first: Result<()> = Ok(());
        for mut sink in self.0 {
            let name = sink.name().to_owned();
            let written = write(&mut sink).with_context(|| format!("cannot write to {name}"));
            let written = written.and_then(|()| sink.keep());
            first = match (first, written) {
                (Err(before), Err(error)) if is_broken_pipe(&before) => Err(error),
                (Ok(()), written) => written,
                (first, _) => first,
            };
        }
        first
    }

    /// Writers of rows, one for each target.
    pub fn writers(self, make: impl FnMut(Sink) -> RowWriter<Sink>) -> RowWriters<Sink> {
        RowWriters::new(self.0.into_iter().map(make))
    }

    /// The names of the targets, for messages.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.iter().map(Sink::name).collect();
        names.join(" and ")
    }

    /// Marks all as complete.
    ///
    /// # Errors
    /// The first error.
    pub fn keep(self) -> Result<()> {
        self.write(|_| Ok(()))
    }
}

impl IntoIterator for Sinks {
    type Item = Sink;
    type IntoIter = std::vec::IntoIter<Sink>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<Sink> for Sinks {
    fn from_iter<T: IntoIterator<Item = Sink>>(sinks: T) -> Self {
        Sinks(sinks.into_iter().collect())
    }
}

impl From<Vec<Sink>> for Sinks {
    /// Sinks that come back from their writers.
    fn from(sinks: Vec<Sink>) -> Self {
        Sinks(sinks)
    }
}

/// Refuses two targets in one place: their formats would be mixed.
fn check(targets: &[Target], stream: Stream) -> Result<()> {
    for (number, target) in targets.iter().enumerate() {
        let place = place(target);
        if !targets[..number]
            .iter()
            .any(|other| self::place(other) == place)
        {
            continue;
        }
        match place {
            None => bail!(
                "two -o write to {}: give one of them a file, as in -o table -o json=FILE",
                stream.name()
            ),
            Some(path) => bail!("two -o write to {}: name another file", escaped(path)),
        }
    }
    Ok(())
}

/// The file of a target; none for the standard stream.
fn place(target: &Target) -> Option<&Path> {
    let file = target.file.as_deref();
    file.filter(|path| *path != Path::new("/dev/stdout"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(texts: &[&str]) -> Result<()> {
        let targets: Vec<Target> = texts.iter().map(|text| text.parse().unwrap()).collect();
        check(&targets, Stream::Stdout)
    }

    #[test]
    fn one_target_at_most_is_standard_output() {
        assert!(checked(&["table", "json=a.json", "b.md"]).is_ok());
        for twice in [
            &["table", "json"][..],
            &["csv=-", "json=/dev/stdout"],
            &["a.json", "json", "markdown"],
        ] {
            let error = checked(twice).unwrap_err().to_string();
            assert!(error.contains("json=FILE"), "{twice:?}: {error}");
        }
        let error = checked(&["a.json", "csv=a.json"]).unwrap_err().to_string();
        assert!(error.contains("a.json"), "{error}");
    }
}
