//! [`is_within`]: whether a file or directory is, or would be made, below a directory.

use std::io;
use std::path::Path;

/// Returns whether the real path of `path` is `directory` or below it. Where `path` is missing, its first ancestor that exists
/// decides, as it would be made there.
///
/// # Errors
/// `directory` cannot be opened, or there is no current directory.
pub(crate) fn is_within(path: &Path, directory: &Path) -> io::Result<bool> {
    let whole = directory.canonicalize()?;
    let path = std::path::absolute(path)?;
    let there = path.ancestors().find_map(|at| at.canonicalize().ok());
    Ok(there.is_some_and(|there| there.starts_with(whole)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn missing_paths_and_links_are_where_they_lead() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("origin/deep")).unwrap();
        std::fs::create_dir(at("originally")).unwrap();
        symlink(at("origin/deep"), at("link")).unwrap();
        symlink(at("originally"), at("origin/out")).unwrap();
        for (path, expected) in [
            ("origin", true),
            ("origin/deep", true),
            ("origin/missing/too", true),
            ("link/missing", true),
            ("originally", false),
            ("origin/out/missing", false),
            ("missing", false),
        ] {
            let found = is_within(&at(path), &at("origin")).unwrap();
            assert_eq!(found, expected, "{path}");
        }
        is_within(&at("origin"), &at("missing")).unwrap_err();
    }
}
