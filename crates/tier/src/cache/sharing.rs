//! Records about names that machines share through the engine, and blocks to forget.

use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::reading::length;
use super::{BLOCKS_AT_ONCE, BlockCache, File};
use crate::block::Block;
use crate::drops::DropMessages;
use crate::origin::Kind;
use crate::policy::EngineAnswer;
use crate::{BlockKey, Error};

/// Blocks of a file that were forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// In memory and on the disk.
    pub blocks: u64,
    /// In the engine.
    pub engine_blocks: u64,
    /// Blocks that the engine did not remove in time.
    pub engine_failed: u64,
}

impl BlockCache {
    /// Returns the messages about paths to forget; see [`DropMessages::open`].
    pub(crate) fn drop_messages(&self) -> Result<Option<DropMessages>, Error> {
        DropMessages::open(&self.inner.settings, self.inner.origin.identity())
    }

    /// Whether names can be shared: through an engine, sealed with a key.
    pub(crate) fn shares_names(&self) -> bool {
        self.inner.remote.is_some() && self.inner.settings.engine_key.is_some()
    }

    fn shared_key(&self, kind: &str, path: &Path) -> BlockKey {
        let identity = self.inner.origin.identity().as_bytes();
        BlockKey::named(kind, &[identity, path.as_os_str().as_encoded_bytes()])
    }

    /// Returns a record about a path that some machine has shared.
    pub(crate) async fn shared(&self, kind: &str, path: &Path) -> Option<Bytes> {
        let remote = self.inner.remote.as_ref()?;
        let key = self.shared_key(kind, path);
        match remote.get(&key).await {
            EngineAnswer::Hit(block) => {
                self.inner.counters.names_shared.one();
                Some(block.bytes().clone())
            }
            _ => None,
        }
    }

    /// Shares a record about a path, if it is not longer than a block.
    pub(crate) fn share(&self, kind: &str, path: &Path, record: Bytes) {
        let Some(remote) = &self.inner.remote else {
            return;
        };
        if length(&record) <= self.inner.settings.block.0 {
            let key = self.shared_key(kind, path);
            remote.fill(key, Block::seal(&key, record), None);
        }
    }

    /// Removes a record about a path.
    pub(crate) async fn unshare(&self, kind: &str, path: &Path) {
        if let Some(remote) = &self.inner.remote {
            remote.remove(&self.shared_key(kind, path)).await;
        }
    }

    /// Forgets the blocks of a file in this state, in memory and on the disk, and also in the engine if `in_engine`. Blocks
    /// of a published file are verified by their hashes, and stay.
    pub(crate) async fn forget(&self, file: &File, in_engine: bool) -> Forgotten {
        let mut forgotten = Forgotten::default();
        if file.meta.kind != Kind::File || file.meta.content.is_some() {
            return forgotten;
        }
        let count = file.meta.size.div_ceil(self.inner.settings.block.0);
        let keys = (0..count).map(|number| file.key.block(number));
        for key in keys.clone() {
            forgotten.blocks += u64::from(self.inner.local.remove(&key));
        }
        if let Some(remote) = self.inner.remote.as_ref().filter(|_| in_engine) {
            let mut removed = stream::iter(keys)
                .map(|key| async move { remote.remove_all(&key).await })
                .buffer_unordered(BLOCKS_AT_ONCE);
            while let Some(removed) = removed.next().await {
                forgotten.engine_blocks += u64::from(removed == Some(true));
                forgotten.engine_failed += u64::from(removed.is_none());
            }
        }
        forgotten
    }
}
