//! The census and sets of files: what takes longer than a tick, on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cache::CacheTree;
use crate::source::{FileSet, Surveying};

/// A census is not taken again before this, and not before ten times what the last one took.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum time that a scrape waits for file sets, which then returns the last result, and the page for the census.
const PATIENCE: Duration = Duration::from_millis(250);
/// The survey of file sets takes at most this fraction of the time, as 1/n.
const AT_MOST: u32 = 10;
/// Requests that may wait.
const WAITING: usize = 64;

type AnswerSender<T> = oneshot::Sender<Result<T, String>>;

enum Ask {
    Cache(AnswerSender<Arc<CacheTree>>),
    FileSets(AnswerSender<FileSetCounts>),
}

/// The result of a survey of file sets.
#[derive(Debug, Clone)]
pub(crate) struct FileSetCounts {
    pub(crate) sets: Arc<Vec<FileSet>>,
    /// When that was over.
    pub(crate) at: Instant,
    took: Duration,
}

impl FileSetCounts {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < self.took * (AT_MOST - 1)
    }
}

/// The last result, for requests that cannot wait for the next.
type LastAnswer = Arc<Mutex<Option<Result<FileSetCounts, String>>>>;

/// The way to ask the thread that looks at files.
#[derive(Clone, Debug)]
pub struct Survey {
    asks: SyncSender<Ask>,
    known: LastAnswer,
}

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
        let known = LastAnswer::default();
        let tell = known.clone();
        cachewise_sys::start_thread("survey", move || answer(&receiver, &mut open(), &tell))?;
        Ok(Survey {
            asks: sender,
            known,
        })
    }

    pub(crate) async fn cache(&self) -> Result<Arc<CacheTree>, String> {
        self.ask(Ask::Cache).await
    }

    /// Returns the files in the page cache by directory. A census that takes longer than [`PATIENCE`] is an error here; it
    /// goes on, and the next request gets its result.
    pub(crate) async fn cache_soon(&self) -> Result<Arc<CacheTree>, String> {
        timeout(PATIENCE, self.cache()).await.unwrap_or_else(|_| {
            Err("the census of the page cache is being taken; without JavaScript, load the page again".into())
        })
    }

    /// Returns the counts of the file sets: fresh ones if they arrive in time, else the last ones.
    pub(crate) async fn file_sets(&self) -> Result<FileSetCounts, String> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(known)) = &*known()
            && known.is_fresh()
        {
            return Ok(known.clone());
        }
        match timeout(PATIENCE, self.ask(Ask::FileSets)).await {
            Ok(Ok(looked)) => Ok(looked),
            // It goes on, and the next one has it.
            Ok(Err(_)) | Err(_) => known()
                .clone()
                .unwrap_or_else(|| Err("the files are being looked at for the first time".into())),
        }
    }

    async fn ask<T>(&self, ask: impl FnOnce(AnswerSender<T>) -> Ask) -> Result<T, String> {
        let (sender, receiver) = oneshot::channel();
        self.asks
            .try_send(ask(sender))
            .map_err(|_| "too many requests wait for the census: try again".to_owned())?;
        receiver
            .await
            .map_err(|_| "the thread that looks at files has ended".to_owned())?
    }
}

fn answer(asks: &Receiver<Ask>, source: &mut impl Surveying, known: &LastAnswer) {
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
                // The client may have left.
                let _ = to.send(tree);
            }
            // The client has left. A walk without a reader is skipped, or walks slower than scrapes
            // would pile up.
            Ask::FileSets(to) if to.is_closed() => {}
            Ask::FileSets(to) => {
                let begin = Instant::now();
                let sets = source.file_sets().map(|sets| FileSetCounts {
                    sets: Arc::new(sets),
                    at: Instant::now(),
                    took: begin.elapsed(),
                });
                // A panic elsewhere leaves it whole: it is written in one go.
                *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(sets.clone());
                let _ = to.send(sets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at its only set when it is allowed to, and counts how often.
    struct Slow {
        gate: Receiver<()>,
        times: u64,
    }

    impl Surveying for Slow {
        fn cache(&mut self) -> Result<CacheTree, String> {
            Err("not asked for".into())
        }

        fn file_sets(&mut self) -> Result<Vec<FileSet>, String> {
            self.gate.recv().map_err(|error| error.to_string())?;
            self.times += 1;
            Ok(vec![FileSet {
                name: "slow".into(),
                files: self.times,
                unknown: 0,
                size_bytes: 0,
                resident_bytes: 0,
            }])
        }
    }

    #[test]
    fn a_slow_set_does_not_hold_up_a_scrape() {
        let (open, gate) = sync_channel(8);
        let survey = Survey::start(|| Slow { gate, times: 0 }).expect("there can be a thread");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("there can be a runtime");
        let sets = || runtime.block_on(survey.file_sets());
        let first = sets().expect_err("nothing is known before the first look is over");
        assert!(first.contains("first time"), "which is said: {first}");
        open.send(()).expect("it waits for that");
        // The first look ends some time after; no second one can end yet.
        let known = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            survey.known.lock().expect("no panic").clone()
        });
        let known = known.expect("it ends").expect("it has an answer");
        let again = sets().expect("what was known is there");
        assert_eq!(again.sets[0].files, 1, "of the first look");
        assert_eq!(again.at, known.at, "and as old as that");
    }
}
