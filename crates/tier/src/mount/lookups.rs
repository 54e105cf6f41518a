//! How names are found: known ones, and requests to the origin for the others.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::inodes::{Content, Inode};
use super::names::{Listed, TreeAnswer};
use super::operations::Operation;
use super::shared::MountShared;
use crate::origin::Subtree;
use crate::{Entry, Error, ErrorKind, File, Kind, Meta, Version};

/// An object of the origin, and how it was found.
#[derive(Debug)]
pub(super) struct FoundName {
    pub file: File,
    /// Time of the request that showed it.
    pub at: Instant,
    /// Whether the request was for this object; a list does not show who may read it.
    pub is_checked: bool,
}

/// A name that is known without a request.
#[derive(Debug)]
pub(super) enum KnownName {
    Found(Box<FoundName>),
    /// The origin does not have it; for how long that is taken for granted.
    Missing(Duration),
}

impl MountShared {
    /// Begins with the names of the root, where one request shows the tree below it.
    pub(super) fn begin(self: &Arc<Self>) {
        if self.uses_trees() {
            let shared = Arc::clone(self);
            self.runtime.spawn(async move {
                // A reader that needs the names asks again, and gets the error.
                let _ = shared.tree(Operation::Opendir, Path::new("")).await;
            });
        }
    }

    fn uses_trees(&self) -> bool {
        self.cache.has_trees() && !self.revalidate.is_zero()
    }

    /// Returns what is known of a name, without a request.
    pub(super) fn known(&self, path: &Path) -> Option<KnownName> {
        if let Some(object) = self.names.object(path) {
            let Some(meta) = &object.meta else {
                let left = self.missing.checked_sub(object.at.elapsed())?;
                return Some(KnownName::Missing(left));
            };
            if object.at.elapsed() < self.revalidate {
                return Some(KnownName::Found(Box::new(FoundName {
                    file: self.cache.file(path, (**meta).clone()),
                    at: object.at,
                    is_checked: true,
                })));
            }
        }
        let listed = self.names.list(path.parent()?, self.revalidate)?;
        self.in_list(&listed, path)
    }

    /// Returns what the list of its directory shows of a name.
    fn in_list(&self, listed: &Listed, path: &Path) -> Option<KnownName> {
        let Some(entry) = listed.find(path.file_name()?) else {
            // A look at another origin costs little, and shows a name that was made since.
            let is_missing = listed.is_whole && self.cache.has_trees();
            let left = self.missing.checked_sub(listed.at.elapsed())?;
            return is_missing.then_some(KnownName::Missing(left));
        };
        let meta = entry.meta.as_deref()?.clone();
        Some(KnownName::Found(Box::new(FoundName {
            file: self.cache.file(path, meta),
            at: listed.at,
            is_checked: false,
        })))
    }

    /// Returns the inode of an object that was found, with one lookup more, and for how long it may be taken for granted.
    pub(super) fn hold(&self, found: FoundName) -> (Arc<Inode>, Duration) {
        let is_dropped = self.names.is_dropped(found.file.path(), found.at);
        let good_for = match settled(found.file.meta()) && !is_dropped {
            true => self.revalidate.saturating_sub(found.at.elapsed()),
            false => Duration::ZERO,
        };
        let inode = self.inodes.found(found.file, found.at, found.is_checked);
        (inode, good_for)
    }

    /// Returns the inode of a name that was requested lately, with one lookup more.
    pub(super) fn again(&self, path: &Path) -> Option<(Arc<Inode>, Duration)> {
        let is_dropped = |asked| self.names.is_dropped(path, asked);
        self.inodes.again(path, self.revalidate, is_dropped)
    }

    /// Looks a name of a list up, with one lookup more.
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    pub(super) async fn look_up(&self, path: &Path) -> Result<(Arc<Inode>, Duration), Error> {
        if let Some(known) = self.again(path) {
            return Ok(known);
        }
        let found = match self.known(path) {
            Some(KnownName::Found(found)) => *found,
            _ => self.find(Operation::Lookup, path).await?,
        };
        Ok(self.hold(found))
    }

    /// Finds a name that is not known. From an origin with trees one request shows a directory with all that is below it,
    /// up to a number of names: the next names of a path are known then.
    ///
    /// # Errors
    /// The errors of [`crate::Origin::find`].
    pub(super) async fn find(&self, operation: Operation, path: &Path) -> Result<FoundName, Error> {
        let found = self.find_anew(operation, path).await;
        if self.revalidate.is_zero() {
            return found;
        }
        match &found {
            Ok(found) if found.is_checked && settled(found.file.meta()) => {
                self.names
                    .keep_object(path, Some(found.file.meta()), found.at);
            }
            Err(Error::NotFound { .. }) => self.names.keep_object(path, None, Instant::now()),
            _ => {}
        }
        found
    }

    async fn find_anew(&self, operation: Operation, path: &Path) -> Result<FoundName, Error> {
        let Some(parent) = path.parent().filter(|_| self.uses_trees()) else {
            return self.ask(operation, path).await;
        };
        let known = self.names.list(parent, self.revalidate);
        let listed = match known {
            // Names may have been added to it.
            Some(listed) if !listed.is_small || self.in_list(&listed, path).is_some() => {
                Some(listed)
            }
            _ => self.tree(operation, parent).await?,
        };
        let known = listed
            .as_deref()
            .and_then(|listed| self.in_list(listed, path));
        match known {
            Some(KnownName::Found(found)) => return Ok(*found),
            Some(KnownName::Missing(_)) => {
                return Err(Error::NotFound {
                    path: path.to_owned(),
                });
            }
            None if listed.is_some_and(|listed| listed.is_refused) => {
                return self.ask(operation, path).await;
            }
            None => {}
        }
        self.asks_origin(operation);
        let at = Instant::now();
        let (file, tree) = self.cache.find(path).await?;
        if let Some(tree) = tree {
            self.keep_tree(path, tree, at);
        }
        Ok(FoundName {
            file,
            at,
            is_checked: true,
        })
    }

    async fn ask(&self, operation: Operation, path: &Path) -> Result<FoundName, Error> {
        if let Some(object) = self.shared_object(path).await
            && let Some(meta) = &object.meta
        {
            return Ok(FoundName {
                file: self.cache.file(path, (**meta).clone()),
                at: object.at,
                is_checked: false,
            });
        }
        let at = Instant::now();
        let file = self.stat(operation, path).await?;
        self.share_object(path, file.meta(), at);
        Ok(FoundName {
            file,
            at,
            is_checked: true,
        })
    }

    /// Keeps the lists of a subtree, and shares them.
    fn keep_tree(&self, top: &Path, tree: Subtree, at: Instant) -> Option<Arc<Listed>> {
        let share = |path: &Path, listed: &Listed| self.share_list(path, listed);
        self.names.keep_tree(top, tree, at, self.revalidate, share)
    }

    /// Lists a directory and those below it. All who need it at a time wait for one request.
    async fn tree(&self, operation: Operation, top: &Path) -> TreeAnswer {
        let flight = self.names.flight(top);
        let answer = flight.get_or_init(|| async {
            let known = self.names.list(top, self.revalidate);
            if let Some(listed) = self.shared_list(top, known.map(|list| list.at)).await {
                return Ok(Some(listed));
            }
            self.asks_origin(operation);
            let at = Instant::now();
            let error = match self.cache.tree(top).await {
                Ok(None) => return Ok(None),
                Ok(Some(tree)) => {
                    return Ok(self.keep_tree(top, tree, at));
                }
                Err(error) => error,
            };
            let is_refused = match error.kind() {
                ErrorKind::Denied => true,
                // There may be a key among the many that cannot be a path.
                ErrorKind::Failed | ErrorKind::Invalid => false,
                _ => return Err(error),
            };
            let nothing = Listed {
                entries: Arc::default(),
                at,
                is_whole: false,
                is_small: false,
                is_refused,
                of: None,
            };
            Ok(Some(self.names.keep_list(top, nothing)))
        });
        let answer = answer.await.clone();
        self.names.landed(top, &flight);
        answer
    }

    /// Returns the list of a directory, from the origin if the known one has expired.
    pub(super) async fn list(&self, number: u64, path: &Path) -> Result<Arc<Vec<Entry>>, Error> {
        let inode = self.inodes.get(number);
        let now = inode.as_deref().and_then(version);
        let mut known = self.names.list(path, self.revalidate);
        if known.is_none() && self.uses_trees() {
            known = self.tree(Operation::Opendir, path).await?;
        } else if known.is_none() {
            known = self.shared_list(path, None).await;
        }
        if let Some(listed) = known
            && listed.is_whole
            // The old list of a directory that has changed is not its list.
            && (listed.of.is_none() || now.is_none() || listed.of == now)
        {
            return Ok(Arc::clone(&listed.entries));
        }
        self.asks_origin(Operation::Opendir);
        let at = Instant::now();
        let listed = Listed {
            entries: Listed::sorted(self.cache.list(path).await?),
            at,
            is_whole: true,
            is_small: false,
            is_refused: false,
            of: now,
        };
        let listed = self.names.keep_list(path, listed);
        self.share_list(path, &listed);
        Ok(Arc::clone(&listed.entries))
    }
}

/// The state of a directory by the last look at it.
fn version(inode: &Inode) -> Option<Version> {
    let Content::Directory { known, .. } = &inode.content else {
        return None;
    };
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    (known.file.meta().kind == Kind::Directory).then(|| known.file.meta().version.clone())
}

/// Returns whether a later write would give the object another version.
pub(super) fn settled(meta: &Meta) -> bool {
    let now = std::time::SystemTime::now();
    meta.kind != Kind::File || meta.keep_from.is_none_or(|from| now >= from)
}
