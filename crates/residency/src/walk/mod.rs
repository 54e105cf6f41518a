//! [`Walk`]: the residency of trees of files.

mod batch;
mod device;
mod patterns;
mod queue;
mod seen;
mod settings;
mod summary;
mod worker;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use batch::Batch;
pub use batch::{WalkItem, WalkedFile};
use cachewise_sys::{names_of_mounts_that_may_drop_pages, start_thread_in};
pub use patterns::Patterns;
use queue::{Queue, Task};
use seen::SeenInodes;
use settings::WalkSettings;
pub use summary::Summary;
use worker::Worker;

use crate::Error;

/// A walk over files and directories, by several threads, that queries the residency of each file.
///
/// ```
/// use std::ops::ControlFlow;
/// use cachewise_residency::{WalkItem, Top, Walk};
///
/// # let root = tempfile::tempdir()?;
/// # std::fs::write(root.path().join("a"), "content")?;
/// let mut top = Top::new(20);
/// let summary = Walk::new([root.path()]).exclude("*.tmp")?.run(|found| {
///     match found {
///         WalkItem::File(file) => {
///             if let Ok(counts) = file.counts {
///                 top.offer(counts.cached, || file.path());
///             }
///         }
///         WalkItem::Skipped(error) => eprintln!("{error}"),
///     }
///     ControlFlow::Continue(())
/// });
/// assert_eq!(summary.files, 1);
/// for (cached, path) in top.into_sorted() {
///     println!("{cached} pages of {}", path.display());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A walk has no side effects: it updates no access time where the caller may suppress that, does not block on FIFOs or
/// start devices, and opens no FUSE file, which could drop its pages
/// ([`Unknown::FuseNotOpened`](crate::Unknown::FuseNotOpened)). Symbolic links are followed only as roots. A file with
/// several names is listed once, by the name that comes first; so is one that several roots lead to, and one that is
/// visible on an overlay and in one of its layers. File systems that the kernel generates (`/proc`, `/sys`) are skipped,
/// unless a root is on them.
///
/// # Cost
/// Three system calls for a file: `openat`, `lseek`, which returns the size at a fifth of the cost of
/// `statx`, and `cachestat`. With one thread, 64 files share a close (`close_range`). A second name is examined
/// by `statx`; so is every file on overlayfs, FUSE and devices with DAX, where the directory entry is not enough.
///
/// Memory does not grow with the number of files, except for the inode numbers that were found (a
/// bitmap, at most two bytes for each if they are dense) and pending directories.
#[derive(Clone, Debug)]
pub struct Walk {
    roots: Vec<PathBuf>,
    settings: WalkSettings,
}

impl Walk {
    /// More threads than this seldom help: they meet at the directories' locks.
    const MOST_THREADS: usize = 8;

    /// Plans a walk over these files and directories, by as many threads as there are CPUs, up to 8.
    pub fn new<P: Into<PathBuf>>(roots: impl IntoIterator<Item = P>) -> Self {
        let threads = std::thread::available_parallelism()
            .map_or(1, |cpus| cpus.get().min(Self::MOST_THREADS));
        Self {
            roots: roots.into_iter().map(Into::into).collect(),
            settings: WalkSettings::with_threads(threads),
        }
    }

    /// Sets the number of threads that walk; one at least, which is the caller's own.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.settings.threads = threads.max(1);
        self
    }

    /// Says whether to stay on the file system of each root.
    #[must_use]
    pub fn one_file_system(mut self, stay: bool) -> Self {
        self.settings.one_file_system = stay;
        self
    }

    /// Ends the walk early once this is set, with what was found until then.
    #[must_use]
    pub fn cancelled_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.settings.cancel = Some(flag);
        self
    }

    /// Takes only files that match this pattern, or another one given in this way.
    ///
    /// A pattern without a slash is one for the file's name; one with a slash for the end of its path, or, where
    /// it begins with one, for all of it. `*` and `?` do not match a slash, `**` does.
    ///
    /// # Errors
    /// [`Error::Pattern`] where the pattern cannot be understood.
    pub fn include(mut self, pattern: &str) -> Result<Self, Error> {
        self.settings.patterns.include(pattern)?;
        Ok(self)
    }

    /// Leaves out files, and directories with all that is in them, that match this pattern.
    ///
    /// # Errors
    /// [`Error::Pattern`] where the pattern cannot be understood.
    pub fn exclude(mut self, pattern: &str) -> Result<Self, Error> {
        self.settings.patterns.exclude(pattern)?;
        Ok(self)
    }

    /// Walks, and hands over what is found, in no particular order, until `each` breaks off.
    ///
    /// `each` is called on the caller's thread. While it takes its time, the walk waits.
    pub fn run(mut self, mut each: impl FnMut(WalkItem<'_>) -> ControlFlow<()>) -> Summary {
        /// Batches that are queued while the caller's thread reads a large directory.
        const ON_THE_WAY: usize = 16;
        self.settings.mounted_files = names_of_mounts_that_may_drop_pages();
        let queue = Queue::new(self.roots.iter().rev().cloned().map(Task::Root));
        let seen = SeenInodes::default();
        let (sender, receiver) = sync_channel::<Vec<Batch>>(ON_THE_WAY);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.settings.threads)
                .map_while(|_| {
                    let sender = sender.clone();
                    let send = move |batches| match sender.send(batches) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(_) => ControlFlow::Break(()),
                    };
                    let worker = Worker::new(&self.settings, &queue, &seen, send);
                    // The caller's thread works as well, alone if no other can be had.
                    start_thread_in(scope, "walk", || worker.work()).ok()
                })
                .collect();
            drop(sender);
            // Dropped here also where `each` panics: then nothing can be sent any more, and the threads end.
            let receiver = receiver;
            let mut hand_over = |batches: Vec<Batch>| {
                let mut found = batches.iter().flat_map(Batch::found);
                found.try_for_each(&mut each)
            };
            let own = Worker::new(&self.settings, &queue, &seen, |batches| {
                hand_over(batches)?;
                receiver.try_iter().try_for_each(&mut hand_over)
            });
            let summary = own.work_and_receive(&receiver);
            drop(receiver);
            others
                .into_iter()
                .map(|other| match other.join() {
                    Ok(summary) => summary,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .fold(summary, Summary::and)
        })
    }
}
