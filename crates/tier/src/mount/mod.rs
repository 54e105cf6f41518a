//! An origin as a directory: reads go through the cache, nothing is ever written.
//!
//! A mount asks the origin for a name at its first lookup, and again when
//! [`MountOptions::revalidate`] has passed. It asks the engine only for reads; opening a file sends
//! no request, but for one of at most [`MountOptions::pin`], which is read then. Each state of a file has an inode of its own. A reader that has a file open
//! continues to read the state that it opened, or gets ESTALE if those bytes are gone; a later open
//! gets the new state. Pages of two states never mix, so the kernel's cached pages of a file stay
//! valid without limit.
//!
//! It is *not* a network file system: there are no locks and no writes.
//!
//! # Kernel
//! FUSE 7.31 (Linux 5.4). After the first open, the kernel opens files without a request (Linux
//! 3.16 and later).
//!
//! # Layout
//! - this file: [`Mount`]
//! - `point`: the mount point, and the removal of a dead mount
//! - `filesystem`: FUSE requests; `shared`: state that its threads share
//! - `inodes`: inode numbers, one for each state of a file
//! - `fixed`: objects of a published tree; `fixed_lists`: its lists; `listed`: directories that are listed;
//!   `fixed_filesystem`: FUSE requests for it
//! - `names`: names and lists that were read from the origin; `lookups`: how a name is found
//! - `name_records`: names that mounts share through the engine
//! - `pins`: small files that are read when they are opened
//! - `extended`: extended attributes and access control lists
//! - `attributes`: attributes for stat(2); `operations`: counts and latencies of FUSE operations
//! - `dropping`: [`DropReport`], paths that are forgotten here and on all machines
//! - `report`: [`MountReport`], what `tier stat` shows of a mount: the file `.cachewise/stat.json` in it
//! - `error`: [`MountError`]

mod attributes;
mod dropping;
mod error;
mod extended;
mod filesystem;
mod fixed;
mod fixed_filesystem;
mod fixed_lists;
mod inodes;
mod listed;
mod lookups;
mod name_records;
mod names;
mod operations;
mod pins;
mod point;
mod report;
mod shared;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use tokio::runtime::Handle;

pub use crate::settings::MountOptions;
use crate::{BlockCache, Error};
use filesystem::Filesystem;
use fixed_filesystem::FixedFilesystem;
use shared::MountShared;

pub use dropping::{DropReport, drop_file};
pub use error::MountError;
pub use operations::{Operation, OperationRow};
pub use point::{MountState, beside, bind, detach, device, left_behind, state};
pub use report::{MountReport, REPORT};

/// A mounted origin; unmounted when this is dropped.
pub struct Mount {
    session: Option<BackgroundSession>,
    directory: PathBuf,
    shared: Arc<MountShared>,
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mount");
        debug.field("directory", &self.directory).finish()
    }
}

impl Mount {
    /// Mounts what the cache reads on an empty directory. `runtime` is the one in which the cache was opened.
    ///
    /// Removes a dead mount of a killed process first.
    ///
    /// # Errors
    /// A directory that cannot be mounted on; no FUSE; not allowed.
    pub fn start(
        cache: BlockCache,
        runtime: Handle,
        directory: &Path,
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let directory = point::prepare(directory)?;
        point::device()?;
        let messages = cache.drop_messages().map_err(MountError::Cache)?;
        let shared = Arc::new(MountShared::new(cache, runtime, &directory, options));
        let session = match shared.fixed.is_some() {
            true => session(FixedFilesystem::new(&shared), &shared, &directory, options),
            false => session(
                Filesystem::new(Arc::clone(&shared)),
                &shared,
                &directory,
                options,
            ),
        };
        let session = session.map_err(|source| MountError::mount(&directory, source))?;
        shared.begin();
        if let Some(messages) = messages {
            let messages = Arc::new(messages);
            shared.listen(&messages);
            let _ = shared.drops.messages.set(messages);
        }
        Ok(Self {
            session: Some(session),
            directory,
            shared,
        })
    }

    /// Returns where it is mounted: an absolute path without links.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether another process has unmounted it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.session
            .as_ref()
            .is_none_or(|session| session.guard.is_finished())
    }

    /// Mounts another path of the origin in place of the present one, for the names that are looked up from now on. Open
    /// files stay what they were, and directories that are open or the current one of a process stay those of the path
    /// before. Not to be called from a worker of the runtime.
    ///
    /// # Errors
    /// If a path cannot be listed; the present one stays then.
    pub fn switch(&self, root: &Path) -> Result<(), Error> {
        self.shared.switch(root.to_owned())
    }

    /// Returns the counters of the FUSE operations and of the cache.
    #[must_use]
    pub fn report(&self) -> MountReport {
        self.shared.report()
    }

    /// Unmounts and waits up to `patience` for open files. Returns whether all were closed. If not,
    /// new readers no longer see the mount, and open files fail when this process ends.
    ///
    /// # Errors
    /// If the kernel refuses to unmount it.
    pub fn unmount(mut self, patience: Duration) -> Result<bool, MountError> {
        let Some(session) = self.session.take() else {
            return Ok(true);
        };
        if !session.guard.is_finished() {
            point::detach(&self.directory)?;
        }
        let until = Instant::now() + patience;
        let mut is_over = session.guard.is_finished();
        while !is_over && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            is_over = session.guard.is_finished();
        }
        leave(session);
        Ok(is_over)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            if !session.guard.is_finished() {
                let _ = point::detach(&self.directory);
            }
            leave(session);
        }
    }
}

/// Leaves a session that is unmounted, with its descriptor. Joining it would wait for the last reader, and fuser 0.18
/// unmounts the directory once more when it drops a session, as it takes the error of a device without a mount for a
/// mount: that could be the next mount there.
fn leave(session: BackgroundSession) {
    std::mem::forget(session);
}

/// Mounts, and serves requests until it is unmounted.
fn session(
    filesystem: impl fuser::Filesystem,
    shared: &MountShared,
    directory: &Path,
    options: &MountOptions,
) -> io::Result<BackgroundSession> {
    let session = Session::new(filesystem, directory, &config(options))?;
    shared.notify_by(session.notifier());
    session.spawn()
}

fn config(options: &MountOptions) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(point::source(&options.name)),
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        // The kernel checks the origin's permission bits for all other users.
        MountOption::DefaultPermissions,
    ];
    config.acl = if options.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(options.threads.max(1));
    // A queue of its own for each thread.
    config.clone_fd = true;
    config
}
