//! [`Tree`]: the files of an origin, in the order of their names.

use std::path::PathBuf;
use std::sync::Arc;

use crate::{BlockCache, Error, File, Kind, Version};

/// Deeper trees are not gone into.
const DEEPEST: usize = 256;

/// The files of an origin, in the order of their names: those that were named, and those below directories that were.
#[derive(Debug)]
pub struct Tree {
    /// Newest first, so that a tree comes in its own order.
    left: Vec<Left>,
}

/// An object that is still to be visited.
#[derive(Debug)]
struct Left {
    path: PathBuf,
    /// Whether it is a link of a directory, which may lead nowhere.
    is_link: bool,
    /// The directories above it, as they were met.
    above: Arc<Vec<(u64, Version)>>,
}

impl Tree {
    /// Begins with these; with none, with the origin itself.
    #[must_use]
    pub fn new(named: &[PathBuf]) -> Self {
        let named = match named {
            [] => &[PathBuf::new()],
            named => named,
        };
        let left = named.iter().rev().map(|path| Left {
            path: path.clone(),
            is_link: false,
            above: Arc::default(),
        });
        Self {
            left: left.collect(),
        }
    }

    /// Returns the next file in its present state; `None` at the end. Skips objects that are
    /// neither file nor directory, and links that lead nowhere, out of the origin, or back to a parent directory.
    ///
    /// # Errors
    /// As [`BlockCache::stat`] and [`BlockCache::list`]; it can be gone on with.
    pub async fn next(&mut self, cache: &BlockCache) -> Option<Result<File, Error>> {
        while let Some(Left {
            path,
            is_link,
            above,
        }) = self.left.pop()
        {
            let file = match cache.stat(&path).await {
                Ok(file) => file,
                Err(Error::NotFound { .. } | Error::Path { .. }) if is_link => continue,
                Err(error) => return Some(Err(error)),
            };
            match file.meta().kind {
                // All that is below is done already, or about to be.
                Kind::Directory if above.contains(&itself(&file)) => {}
                // Behind a server a link back has another name each time.
                Kind::Directory if above.len() >= DEEPEST => {
                    return Some(Err(Error::Path {
                        path,
                        why: "256 directories, one in another, are the most that is gone into: does a link go round?",
                    }));
                }
                Kind::Directory => {
                    let mut entries = match cache.list(&path).await {
                        Ok(entries) => entries,
                        Err(error) => return Some(Err(error)),
                    };
                    entries.retain(|entry| entry.kind != Kind::Other);
                    entries.sort_by(|one, other| other.name.cmp(&one.name));
                    let mut above = above.to_vec();
                    above.push(itself(&file));
                    let above = Arc::new(above);
                    self.left.extend(entries.into_iter().map(|entry| Left {
                        path: path.join(entry.name),
                        is_link: entry.kind == Kind::Link,
                        above: Arc::clone(&above),
                    }));
                }
                Kind::File => return Some(Ok(file)),
                Kind::Other | Kind::Link => {}
            }
        }
        None
    }
}

/// Returns the identity of a directory, to recognize it among its parents.
fn itself(directory: &File) -> (u64, Version) {
    let meta = directory.meta();
    (meta.device, meta.version.clone())
}
