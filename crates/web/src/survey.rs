//! The census and sets of files: what takes longer than a tick, on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::cache::CacheTree;
use crate::source::{FileSet, Surveying};

/// A census is not taken again before this, and not before ten times what the last one took.
const FRESH: Duration = Duration::from_secs(5);
/// Requests that may wait.
const WAITING: usize = 64;

type Answer<T> = oneshot::Sender<Result<T, String>>;

enum Ask {
    Cache(Answer<Arc<CacheTree>>),
    FileSets(Answer<Vec<FileSet>>),
}

/// The way to ask the thread that looks at files.
#[derive(Clone, Debug)]
pub struct Survey(SyncSender<Ask>);

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ask")
    }
}

impl Survey {
    /// Starts the thread, which opens what it needs when it is first asked.
    ///
    /// # Errors
    /// If there can be no further thread.
    pub fn start<S: Surveying>(
        open: impl FnOnce() -> S + Send + 'static,
    ) -> std::io::Result<Survey> {
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("survey".into())
            .spawn(move || answer(&receiver, &mut open()))?;
        Ok(Survey(sender))
    }

    pub(crate) async fn cache(&self) -> Result<Arc<CacheTree>, String> {
        self.ask(Ask::Cache).await
    }

    pub(crate) async fn file_sets(&self) -> Result<Vec<FileSet>, String> {
        self.ask(Ask::FileSets).await
    }

    async fn ask<T>(&self, ask: impl FnOnce(Answer<T>) -> Ask) -> Result<T, String> {
        let (sender, receiver) = oneshot::channel();
        self.0
            .try_send(ask(sender))
            .map_err(|_| "too many requests wait for the census: try again".to_owned())?;
        receiver
            .await
            .map_err(|_| "the thread that looks at files has ended".to_owned())?
    }
}

fn answer(asks: &Receiver<Ask>, source: &mut impl Surveying) {
    let mut last: Option<(Instant, Arc<CacheTree>)> = None;
    for ask in asks {
        match ask {
            Ask::Cache(to) if to.is_closed() => {}
            Ask::Cache(to) => {
                let fresh = last.as_ref().filter(|(taken, tree)| {
                    taken.elapsed() < FRESH.max(Duration::from_secs_f64(tree.seconds * 10.0))
                });
                let tree = match fresh {
                    Some((_, tree)) => Ok(tree.clone()),
                    None => source.cache().map(Arc::new),
                };
                if let Ok(tree) = &tree
                    && fresh.is_none()
                {
                    last = Some((Instant::now(), tree.clone()));
                }
                // Who asked may have gone.
                let _ = to.send(tree);
            }
            // Nobody waits any more: walks that take longer than scrapes would pile up.
            Ask::FileSets(to) if to.is_closed() => {}
            Ask::FileSets(to) => {
                let _ = to.send(source.file_sets());
            }
        }
    }
}
