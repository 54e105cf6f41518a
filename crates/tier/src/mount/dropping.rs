//! Dropping a path: names, attributes and blocks that a mount knows below it are forgotten, here and by messages on all
//! machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::INodeNo;
use serde::{Deserialize, Serialize};

use super::inodes::{KnownPath, ROOT};
use super::report::{DROP, DROP_FILE, REPORT};
use super::shared::MountShared;
use crate::drops::{DropHeard, DropMessages};

/// Returns the file of a mount whose lookup drops a path, and which then has the [`DropReport`].
#[must_use]
pub fn drop_file(mount: &Path, path: &Path) -> PathBuf {
    let own = REPORT.split_once('/').map_or(REPORT, |(own, _)| own);
    mount.join(own).join(DROP).join(path).join(DROP_FILE)
}

/// Least time between two drops that other machines request, so that a flood of messages does not become one of
/// requests to the origin.
const APART: Duration = Duration::from_millis(20);

/// The outcome of a drop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReport {
    /// The path, relative to the origin; empty for the origin itself.
    pub path: PathBuf,
    /// Names that the kernel knew, and has to look up again.
    pub names: u64,
    /// Blocks removed from memory and disk of this mount.
    pub blocks: u64,
    /// Blocks removed from the engine.
    pub engine_blocks: u64,
    /// Blocks that the engine did not remove in time.
    pub engine_failed: u64,
    /// Whether the message to all other machines was sent; `None` without an engine that has messages.
    pub is_told: Option<bool>,
    /// Why it was not sent.
    pub why: Option<String>,
}

impl MountShared {
    /// Begins to act on the messages of other machines.
    pub(super) fn listen(self: &Arc<Self>, messages: &Arc<DropMessages>) {
        let _entered = self.runtime.enter();
        let mut heard = messages.listen();
        // The mount may end while it listens.
        let mount = Arc::downgrade(self);
        self.runtime.spawn(async move {
            while let Some(heard) = heard.recv().await {
                let Some(shared) = mount.upgrade() else {
                    return;
                };
                match heard {
                    DropHeard::Listening => shared.drops.listening.one(),
                    DropHeard::Forged => shared.drops.forged.one(),
                    DropHeard::Path(path) => {
                        shared.drops.heard.one();
                        shared.drop_here(&path, false).await;
                        tokio::time::sleep(APART).await;
                    }
                }
            }
        });
    }

    /// Drops a path here and on all machines.
    pub(super) async fn drop_everywhere(self: &Arc<Self>, path: &Path) -> DropReport {
        let mut report = self.drop_here(path, true).await;
        if let Some(messages) = self.drops.messages.get() {
            let told = messages.publish(path).await;
            report.is_told = Some(told.is_ok());
            report.why = told.err();
        }
        report
    }

    /// Drops a path here; its blocks also in the engine if `in_engine`.
    async fn drop_here(self: &Arc<Self>, path: &Path, in_engine: bool) -> DropReport {
        self.names.drop_below(path);
        let known = self.inodes.drop_below(path);
        if in_engine {
            let below = known.iter().filter(|known| known.file.is_none());
            self.drop_records(path, below.map(|known| known.path.clone()))
                .await;
        }
        let mut report = DropReport {
            path: path.to_owned(),
            names: u64::try_from(known.len()).unwrap_or(u64::MAX),
            ..DropReport::default()
        };
        for file in known.iter().filter_map(|known| known.file.as_ref()) {
            let forgotten = self.cache.forget(file, in_engine).await;
            report.blocks += forgotten.blocks;
            report.engine_blocks += forgotten.engine_blocks;
            report.engine_failed += forgotten.engine_failed;
        }
        let (shared, path) = (Arc::clone(self), path.to_owned());
        // The kernel may wait for an answer of ours before it takes this: not on a thread that gives answers.
        let told = tokio::task::spawn_blocking(move || shared.tell_kernel(&path, known));
        let _ = told.await;
        report
    }

    /// Makes the kernel forget names and pages, those of deeper directories first.
    fn tell_kernel(&self, path: &Path, mut known: Vec<KnownPath>) {
        let Some(notifier) = self.notifier() else {
            return;
        };
        known.sort_by_key(|known| std::cmp::Reverse(known.path.components().count()));
        let forget = |path: &Path| {
            let parent = path.parent().and_then(|path| self.inodes.number_of(path));
            if let (Some(parent), Some(name)) = (parent, path.file_name()) {
                // Where the kernel does not know the name, all is well.
                let _ = notifier.inval_entry(INodeNo(parent), name);
            }
        };
        for known in &known {
            // A name of an old state has another number by now, and its pages stay those of that state.
            let _ = notifier.inval_inode(INodeNo(known.number), 0, 0);
            forget(&known.path);
        }
        // It may be one that was missing.
        forget(path);
        if path == self.inodes.root() {
            for name in self.drops.takes_missing() {
                let _ = notifier.inval_entry(INodeNo(ROOT), &name);
            }
        }
        let parent = path.parent().and_then(|path| self.inodes.number_of(path));
        let own = self.inodes.number_of(path);
        for number in [parent, own, Some(ROOT)].into_iter().flatten() {
            let _ = notifier.inval_inode(INodeNo(number), -1, 0);
        }
    }
}
