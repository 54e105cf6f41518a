//! The policy on file names, which are private data.

use std::path::{Path, PathBuf};

use cachewise_model::{Interval, Measured, Missing, Reason};

/// Why a file has no name here.
pub(crate) const NOT_TOLD: Missing = Missing::Unknown(Reason::OutsideRoots);

/// The file names that answers may contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// All of them.
    All,
    /// Those under these directories, which have neither symbolic links nor `..` in them.
    Under(Vec<PathBuf>),
}

impl Names {
    /// Whether a file of this path may be named. The path is one that the kernel gives: the real one,
    /// whatever links lead there.
    #[must_use]
    pub fn tells(&self, path: &Path) -> bool {
        match self {
            Names::All => true,
            Names::Under(roots) => {
                let is_plain = path
                    .components()
                    .all(|part| !matches!(part, std::path::Component::ParentDir));
                is_plain && roots.iter().any(|root| path.starts_with(root))
            }
        }
    }

    /// Removes the names that the policy withholds, before requests can read them.
    pub(crate) fn mask(&self, interval: &mut Interval) {
        if *self == Names::All {
            return;
        }
        for file in &mut interval.files {
            // An estimated path is one within a file system that is not seen from here: that it begins
            // like a root means nothing.
            let tells = matches!(&file.path, Measured::Exact(path) if self.tells(path));
            if !tells && file.path.missing().is_none() {
                file.path = Measured::Missing(NOT_TOLD);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_whole_directories() {
        let names = Names::Under(vec!["/srv/data".into()]);
        for (path, told) in [
            ("/srv/data", true),
            ("/srv/data/a/b", true),
            ("/srv/database/a", false),
            ("/srv", false),
            ("/srv/data/../secret", false),
            ("srv/data/a", false),
        ] {
            assert_eq!(names.tells(Path::new(path)), told, "{path}");
        }
        assert!(
            !Names::Under(Vec::new()).tells(Path::new("/")),
            "without roots nothing is told"
        );
    }
}
