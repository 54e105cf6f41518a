//! [`DropMessages`]: paths that all machines are to forget, told by the engine.
//!
//! With a tenant's key, messages are encrypted and authenticated, and the name of the channel is a keyed hash. Without one,
//! a message is plain text: a client that can publish can make others forget names, which they then read again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::block::Block;
use crate::os_bytes::path_of;
use crate::remote::{Buffers, Heard, Messages};
use crate::seal::BlockForm;
use crate::{BlockKey, Error, Settings};

const CHANNEL: &str = "cachewise drops 1";

/// Length of the random number in front of a message, by which a message that comes twice is known.
const RANDOM: usize = 8;

/// Messages that are known by their numbers, so that each is acted on once.
const KNOWN: usize = 64;

/// Messages about the paths of one origin.
#[derive(Debug)]
pub(crate) struct DropMessages {
    messages: Arc<Messages>,
    form: BlockForm,
    /// The identity that authenticates messages: of the origin, so that no message is of another one.
    key: BlockKey,
}

/// A path that another machine dropped, or a change of what is heard.
#[derive(Debug)]
pub(crate) enum DropHeard {
    /// Messages come from now on; some may have been missed.
    Listening,
    Path(PathBuf),
    /// A message that is not whole, or not of this tenant.
    Forged,
}

impl DropMessages {
    /// Returns the messages about an origin; `None` without an engine, or where it has no messages.
    ///
    /// # Errors
    /// The errors of the settings of an engine.
    pub(crate) fn open(settings: &Settings, identity: &str) -> Result<Option<Self>, Error> {
        let Some(engine) = &settings.engine else {
            return Ok(None);
        };
        let form = BlockForm::new(settings, Buffers::for_blocks(settings.block.0));
        let key = BlockKey::named(CHANNEL, &[identity.as_bytes()]);
        let channel = format!("cw:drops:{}", form.name(&key));
        let messages = Messages::open(engine, settings, channel)?;
        Ok(messages.map(|messages| Self {
            messages: Arc::new(messages),
            form,
            key,
        }))
    }

    /// Tells all machines that listen to forget a path.
    ///
    /// # Errors
    /// Why the engine did not take the message.
    pub(crate) async fn publish(&self, path: &Path) -> Result<(), String> {
        let mut bytes = fastrand::u64(..).to_le_bytes().to_vec();
        bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
        let block = Block::seal(&self.key, Bytes::from(bytes));
        let stored = self.form.store(&self.key, &block);
        let stored = stored.ok_or("the system has no random numbers")?;
        let message = [stored.head().as_ref(), stored.body()].concat();
        let published = self.messages.publish(&message).await;
        published.map_err(|why| why.to_string())
    }

    /// Listens until the receiver is dropped.
    pub(crate) fn listen(self: &Arc<Self>) -> mpsc::Receiver<DropHeard> {
        let (sender, mut heard) = mpsc::channel(64);
        Arc::clone(&self.messages).listen(sender);
        let (sender, receiver) = mpsc::channel(64);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let mut known = std::collections::VecDeque::with_capacity(KNOWN);
            while let Some(heard) = heard.recv().await {
                let drop = match heard {
                    Heard::Listening => DropHeard::Listening,
                    Heard::Message(message) => match this.read(message) {
                        None => DropHeard::Forged,
                        Some((number, _)) if known.contains(&number) => continue,
                        Some((number, path)) => {
                            if known.len() == KNOWN {
                                known.pop_front();
                            }
                            known.push_back(number);
                            DropHeard::Path(path)
                        }
                    },
                };
                if sender.send(drop).await.is_err() {
                    return;
                }
            }
        });
        receiver
    }

    fn read(&self, message: Bytes) -> Option<([u8; RANDOM], PathBuf)> {
        let block = self.form.open(&self.key, message).ok()?;
        let (number, path) = block.bytes().split_first_chunk()?;
        Some((*number, path_of(path)?))
    }
}
