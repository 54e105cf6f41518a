//! [`Patterns`]: which files a walk takes.

use std::ffi::OsStr;
use std::path::Path;

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Error;

/// Files to include and to exclude, by globs of [`Walk::include`](crate::Walk::include).
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    include: Set,
    exclude: Set,
}

impl Patterns {
    /// Takes only what matches this pattern, or another one given in this way.
    ///
    /// # Errors
    /// [`Error::Pattern`] where the pattern cannot be understood.
    pub fn include(&mut self, pattern: &str) -> Result<(), Error> {
        self.include.add(pattern)
    }

    /// Leaves out what matches this pattern.
    ///
    /// # Errors
    /// [`Error::Pattern`] where the pattern cannot be understood.
    pub fn exclude(&mut self, pattern: &str) -> Result<(), Error> {
        self.exclude.add(pattern)
    }

    /// Says whether a file is to be taken, for its own name and path: what is above it is not looked at.
    #[must_use]
    pub fn takes(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.takes_file(path.parent().unwrap_or(Path::new("")), name)
    }

    /// Whether a file in this directory is to be taken.
    pub(super) fn takes_file(&self, directory: &Path, name: &OsStr) -> bool {
        (self.include.is_empty() || self.include.matches(directory, name))
            && !self.leaves_out(directory, name)
    }

    /// Whether a directory in this directory, or a file, is to be left out.
    pub(super) fn leaves_out(&self, directory: &Path, name: &OsStr) -> bool {
        !self.exclude.is_empty() && self.exclude.matches(directory, name)
    }
}

/// Patterns of which one has to match.
#[derive(Clone, Debug, Default)]
struct Set {
    of_names: Vec<Glob>,
    of_paths: Vec<Glob>,
    names: GlobSet,
    paths: GlobSet,
}

impl Set {
    fn add(&mut self, pattern: &str) -> Result<(), Error> {
        let is_path = pattern.contains('/');
        let failed = |cause: globset::Error| Error::Pattern {
            pattern: pattern.to_owned(),
            why: cause.kind().to_string(),
        };
        let full = match is_path && !pattern.starts_with('/') {
            true => format!("**/{}", pattern.trim_start_matches("./")),
            false => pattern.to_owned(),
        };
        let glob = GlobBuilder::new(&full)
            .literal_separator(true)
            .build()
            .map_err(failed)?;
        let (globs, set) = match is_path {
            true => (&mut self.of_paths, &mut self.paths),
            false => (&mut self.of_names, &mut self.names),
        };
        globs.push(glob);
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            builder.add(glob.clone());
        }
        *set = builder.build().map_err(failed)?;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.paths.is_empty()
    }

    fn matches(&self, directory: &Path, name: &OsStr) -> bool {
        self.names.is_match_candidate(&Candidate::new(name))
            || (!self.paths.is_empty() && self.paths.is_match(directory.join(name)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use cachewise_sys::ErrorKind;

    fn takes(include: &[&str], exclude: &[&str], path: &str) -> bool {
        let mut patterns = Patterns::default();
        include.iter().for_each(|p| patterns.include(p).unwrap());
        exclude.iter().for_each(|p| patterns.exclude(p).unwrap());
        let path = Path::new(path);
        patterns.takes_file(path.parent().unwrap(), path.file_name().unwrap())
    }

    #[test]
    fn names_match_anywhere_and_paths_at_their_end() {
        for (pattern, path, expected) in [
            ("*.so", "/usr/lib/a.so", true),
            ("*.so", "/usr/lib/a.so.1", false),
            ("lib", "/usr/lib/a", false),
            ("lib/*", "/usr/lib/a", true),
            ("lib/*", "lib/a", true),
            ("lib/*", "/usr/lib/x/a", false),
            ("lib/**", "/usr/lib/x/a", true),
            ("./lib/*", "/usr/lib/a", true),
            ("/usr/**", "/usr/lib/a", true),
            ("/lib/*", "/usr/lib/a", false),
            ("{a,b}[0-9]", "/b7", true),
        ] {
            assert_eq!(takes(&[pattern], &[], path), expected, "{pattern} {path}");
            assert_eq!(
                takes(&[], &[pattern], path),
                !expected,
                "not {pattern} {path}"
            );
        }
        assert!(takes(&["*.a", "*.b"], &[], "/x.b"), "one of them is enough");
        assert!(!takes(&["*.a"], &["x*"], "/x.a"), "left out all the same");
        assert!(takes(&[], &[], "/x"), "no pattern leaves nothing out");
    }

    #[test]
    fn a_name_need_not_be_text() {
        let mut patterns = Patterns::default();
        patterns.include("*.log").unwrap();
        let name = OsStr::from_bytes(b"\xff\n.log");
        assert!(patterns.takes_file(Path::new("/"), name), "bytes are bytes");
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let error = Patterns::default().include("[a").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "it makes no sense");
        assert!(error.to_string().contains("[a"), "which one: {error}");
    }
}
