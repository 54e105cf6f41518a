//! [`Bulkhead`]: bounded calls to the origin, of which those that hang cost only the readers of their directory.
//!
//! A directory of the origin may hang while all others answer: a dead server that is mounted there, a broken disk. A
//! bound on all calls alone would then be used up by that directory, and no file could be read. Hence:
//!
//! - Of the calls that may be under way an eighth is left for other directories, and of the looks in a directory three
//!   quarters for other names.
//! - A call that is *late* makes room for another one and runs on, if the origin has answered one since it began: the
//!   origin does not hang as a whole then.
//! - A call that is *stuck*, for longer, counts against its object and its directory: further calls to them are refused at
//!   once, until one is answered. A directory is refused only if it has answered nothing since the last call got stuck:
//!   there may be a single hung object in it.
//! - Calls to a part of the origin that answers nothing but errors are refused too, also those that wait for their turn:
//!   see [`OriginBreaker`].
//! - The number of reads under way follows the response times of the origin: see [`OriginLimit`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::origin_breaker::{OriginBreaker, OriginPass};
use crate::origin_limit::{OriginLimit, OriginRead};
use crate::{Error, ErrorKind};

/// Stuck calls to one object from which on more of them are refused.
const OF_AN_OBJECT: usize = 2;
/// Stuck calls in one directory from which on more of them are refused.
const IN_A_DIRECTORY: usize = 4;
/// Maximum of late calls that have made room, for each call that may be under way.
const LATE: usize = 4;
/// A call is late after this part of the time after which it is stuck.
const LATE_AFTER: u32 = 8;

/// Bounded calls of one kind to an origin.
#[derive(Clone, Debug)]
pub(crate) struct Bulkhead(Arc<BulkheadInner>);

#[derive(Debug)]
struct BulkheadInner {
    breaker: OriginBreaker,
    calls: Arc<Semaphore>,
    /// For reads alone: other calls take times of their own.
    limit: Option<Arc<OriginLimit>>,
    /// Calls to one object and in one directory at a time.
    turns: [usize; 2],
    most_late: usize,
    patience: Duration,
    /// Number of calls that were answered.
    answers: AtomicU64,
    /// Late and stuck calls: where there are none, the table is left alone.
    troubled: AtomicUsize,
    table: Mutex<BulkheadTable>,
}

#[derive(Debug, Default)]
struct BulkheadTable {
    objects: Compartments,
    directories: Compartments,
    /// Late calls that have made room.
    late: usize,
}

/// Objects, or directories, with calls under way or waiting.
#[derive(Debug, Default)]
struct Compartments(HashMap<PathBuf, Compartment>);

#[derive(Debug)]
struct Compartment {
    turns: Arc<Semaphore>,
    /// Calls under way or waiting.
    users: usize,
    stuck: usize,
    /// Number of answers while it had users.
    answers: u64,
    /// Set by an answer, unset by a call that gets stuck.
    answered: bool,
}

impl Compartments {
    fn enter(&mut self, path: &Path, turns: usize) -> Arc<Semaphore> {
        let entered = self.0.entry(path.to_owned());
        let compartment = entered.or_insert_with(|| Compartment {
            turns: Arc::new(Semaphore::new(turns)),
            users: 0,
            stuck: 0,
            answers: 0,
            answered: true,
        });
        compartment.users += 1;
        Arc::clone(&compartment.turns)
    }

    fn gets_stuck(&mut self, path: &Path) {
        if let Some(compartment) = self.0.get_mut(path) {
            compartment.answered = false;
            compartment.stuck += 1;
        }
    }

    fn answered(&mut self, path: &Path) {
        if let Some(compartment) = self.0.get_mut(path) {
            compartment.answered = true;
            compartment.answers += 1;
        }
    }

    fn answers(&self, path: &Path) -> u64 {
        let compartment = self.0.get(path);
        compartment.map_or(0, |compartment| compartment.answers)
    }

    fn leave(&mut self, path: &Path, is_stuck: bool) {
        if let Some(compartment) = self.0.get_mut(path) {
            compartment.users -= 1;
            compartment.stuck -= usize::from(is_stuck);
            if compartment.users == 0 {
                self.0.remove(path);
            }
        }
    }

    /// Number of stuck calls without an answer since.
    fn hanging(&self, path: &Path) -> usize {
        let compartment = self.0.get(path).filter(|compartment| !compartment.answered);
        compartment.map_or(0, |compartment| compartment.stuck)
    }
}

impl Bulkhead {
    /// For looks: `calls` at a time, a quarter of them for one name.
    pub(crate) fn for_looks(calls: usize, patience: Duration, breaker: &OriginBreaker) -> Self {
        Self::new(calls, calls.div_ceil(4), patience, breaker, None)
    }

    /// For reads: `calls` at a time, all of them of one file if need be.
    pub(crate) fn for_reads(
        calls: usize,
        patience: Duration,
        breaker: &OriginBreaker,
        limit: &Arc<OriginLimit>,
    ) -> Self {
        Self::new(calls, calls, patience, breaker, Some(limit))
    }

    /// `patience` is the time after which a call is stuck.
    fn new(
        calls: usize,
        of_object: usize,
        patience: Duration,
        breaker: &OriginBreaker,
        limit: Option<&Arc<OriginLimit>>,
    ) -> Self {
        Self(Arc::new(BulkheadInner {
            breaker: breaker.clone(),
            limit: limit.map(Arc::clone),
            calls: Arc::new(Semaphore::new(calls)),
            turns: [of_object, calls.saturating_sub(calls.div_ceil(8)).max(1)],
            most_late: calls.saturating_mul(LATE),
            patience,
            answers: AtomicU64::new(0),
            troubled: AtomicUsize::new(0),
            table: Mutex::new(BulkheadTable::default()),
        }))
    }

    /// Runs a call as a task that goes on until the call really ends, however many readers give up.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        call: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let died = || Error::Worker {
            path: path.to_owned(),
        };
        let (place, pass) = self.begin(path)?;
        let queues = place.queues.clone();
        let permits = async {
            // In this order: a call that waits for its own turn has none of those that others wait for.
            let mut turns = Vec::with_capacity(2);
            for queue in queues {
                turns.push(queue.acquire_owned().await.ok()?);
            }
            let read = match &self.0.limit {
                Some(limit) => Some(limit.begin().await?),
                None => None,
            };
            let room = Arc::clone(&self.0.calls).acquire_owned().await.ok()?;
            Some(Permits {
                turns: Some(turns),
                read,
                room: Some(room),
            })
        };
        let mut permits = std::pin::pin!(permits);
        let permits = loop {
            let opens = self.0.breaker.opens();
            self.0.breaker.check_waiting(&pass)?;
            tokio::select! {
                biased;
                permits = &mut permits => break permits.ok_or_else(died)?,
                () = opens => {}
            }
        };
        // Earlier calls may have got stuck meanwhile.
        self.0.check(path)?;
        let task = tokio::spawn(place.watch(call, permits, pass));
        task.await.unwrap_or_else(|_| Err(died()))
    }

    /// Notes a call that is about to wait for its turn.
    fn begin(&self, path: &Path) -> Result<(Place, OriginPass), Error> {
        self.0.check(path)?;
        let pass = self.0.breaker.admit(path)?;
        let directory = directory_of(path).to_owned();
        let [of_object, in_directory] = self.0.turns;
        let mut table = self.0.table();
        let queues = [
            table.objects.enter(path, of_object),
            table.directories.enter(&directory, in_directory),
        ];
        let place = Place {
            bulkhead: Arc::clone(&self.0),
            queues,
            path: path.to_owned(),
            directory,
            is_late: false,
            is_stuck: false,
        };
        Ok((place, pass))
    }
}

impl BulkheadInner {
    fn table(&self) -> MutexGuard<'_, BulkheadTable> {
        // Each change is whole before anything can panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a call to an object or directory that hangs.
    fn check(&self, path: &Path) -> Result<(), Error> {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let table = self.table();
        let of_object = table.objects.hanging(path);
        let of_directory = table.directories.hanging(directory_of(path));
        if of_object < OF_AN_OBJECT && of_directory < IN_A_DIRECTORY {
            return Ok(());
        }
        Err(self.hangs(path, of_object.max(of_directory)))
    }

    fn hangs(&self, path: &Path, calls: usize) -> Error {
        Error::Hangs {
            path: path.to_owned(),
            calls,
            longer_than: self.patience,
        }
    }
}

/// The permits of a call while it is under way; a late or stuck one gives it back.
struct Permits {
    turns: Option<Vec<OwnedSemaphorePermit>>,
    read: Option<OriginRead>,
    room: Option<OwnedSemaphorePermit>,
}

/// One call, from before its turn to its end.
struct Place {
    bulkhead: Arc<BulkheadInner>,
    queues: [Arc<Semaphore>; 2],
    path: PathBuf,
    directory: PathBuf,
    is_late: bool,
    is_stuck: bool,
}

impl Place {
    async fn watch<T>(
        mut self,
        call: impl Future<Output = Result<T, Error>>,
        mut permits: Permits,
        mut pass: OriginPass,
    ) -> Result<T, Error> {
        let answers = self.bulkhead.answers.load(Ordering::Relaxed);
        let of_directory = self.answers_of_directory();
        let begun = Instant::now();
        let mut call = std::pin::pin!(call);
        let mut steps = 0;
        let answer = loop {
            match timeout(self.bulkhead.patience / LATE_AFTER, &mut call).await {
                Ok(answer) => break answer,
                Err(_) => steps += 1,
            }
            // A directory that hangs says nothing about the load of the origin, and reads of others are not to wait for it.
            if permits.read.is_some() && self.answers_of_directory() == of_directory {
                permits.read = None;
            }
            if permits.room.is_some() && self.makes_room(answers) {
                permits.room = None;
            }
            if steps >= LATE_AFTER && !self.is_stuck {
                self.gets_stuck();
                pass.is_stuck(&self.bulkhead.hangs(&self.path, 1));
                permits.turns = None;
            }
            if permits.room.is_none() && permits.turns.is_none() {
                break call.await;
            }
        };
        // An origin that gave up waiting has not answered.
        if !matches!(&answer, Err(error) if error.kind() == ErrorKind::Deadline) {
            self.answered();
        }
        if let Some(limit) = &self.bulkhead.limit
            && answer.is_ok()
        {
            limit.took(begun.elapsed());
        }
        pass.ended(answer.as_ref().err());
        answer
    }

    fn answers_of_directory(&self) -> u64 {
        self.bulkhead.table().directories.answers(&self.directory)
    }

    /// Returns whether another call may begin in the place of this one, which is late. `answers` is the number at its begin.
    fn makes_room(&mut self, answers: u64) -> bool {
        let inner = &self.bulkhead;
        let mut table = inner.table();
        let is_answered = inner.answers.load(Ordering::Relaxed) != answers;
        self.is_late = is_answered && table.late < inner.most_late;
        if self.is_late {
            table.late += 1;
            inner.troubled.fetch_add(1, Ordering::Relaxed);
        }
        self.is_late
    }

    fn gets_stuck(&mut self) {
        let mut table = self.bulkhead.table();
        table.objects.gets_stuck(&self.path);
        table.directories.gets_stuck(&self.directory);
        self.bulkhead.troubled.fetch_add(1, Ordering::Relaxed);
        self.is_stuck = true;
    }

    /// Notes that the origin answers, be it with an error.
    fn answered(&self) {
        self.bulkhead.answers.fetch_add(1, Ordering::Relaxed);
        let mut table = self.bulkhead.table();
        table.objects.answered(&self.path);
        table.directories.answered(&self.directory);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let troubles = usize::from(self.is_late) + usize::from(self.is_stuck);
        self.bulkhead
            .troubled
            .fetch_sub(troubles, Ordering::Relaxed);
        let mut table = self.bulkhead.table();
        table.late -= usize::from(self.is_late);
        table.objects.leave(&self.path, self.is_stuck);
        table.directories.leave(&self.directory, self.is_stuck);
    }
}

/// The directory that an object is in; the origin itself is in none, and counts as in itself.
fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// Looks without a breaker: calls that hang are to be dealt with here alone.
    fn looks() -> Bulkhead {
        let settings = Settings {
            origin_breaker: Duration::ZERO,
            ..Settings::default()
        };
        Bulkhead::for_looks(8, PATIENCE, &OriginBreaker::new(&settings))
    }

    async fn hang(bulkhead: Bulkhead, path: &'static str) -> Result<(), Error> {
        bulkhead.run(Path::new(path), std::future::pending()).await
    }

    async fn answer(bulkhead: &Bulkhead, path: &str) -> Result<u32, Error> {
        bulkhead.run(Path::new(path), async { Ok(7) }).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_hangs_costs_only_its_own_readers() {
        let bulkhead = looks();
        let names = ["hung/0", "hung/1", "hung/2", "hung/3", "hung/4", "hung/5"];
        // More than may be under way.
        for name in names.into_iter().cycle().take(20) {
            tokio::spawn(hang(bulkhead.clone(), name));
        }
        tokio::time::sleep(PATIENCE / 2).await;
        assert_eq!(
            answer(&bulkhead, "other/file").await.ok(),
            Some(7),
            "at once"
        );
        tokio::time::sleep(PATIENCE * 3).await;
        for name in ["hung/0", "hung/never read"] {
            let refused = answer(&bulkhead, name).await;
            assert!(matches!(refused, Err(Error::Hangs { .. })), "{refused:?}");
        }
        for name in ["other/file", "file", ""] {
            assert_eq!(answer(&bulkhead, name).await.ok(), Some(7), "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_hangs_costs_no_other_of_its_directory() {
        let bulkhead = looks();
        for _ in 0..6 {
            tokio::spawn(hang(bulkhead.clone(), "mounted"));
        }
        tokio::time::sleep(PATIENCE / 2).await;
        assert_eq!(answer(&bulkhead, "beside").await.ok(), Some(7));
        tokio::time::sleep(PATIENCE).await;
        assert!(
            answer(&bulkhead, "mounted/name").await.is_ok(),
            "no call to it hangs yet"
        );
        let refused = answer(&bulkhead, "mounted").await;
        assert!(
            matches!(refused, Err(Error::Hangs { calls: 2, .. })),
            "{refused:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_answers_again_is_called_again() {
        let bulkhead = looks();
        let (end, _) = tokio::sync::broadcast::channel::<()>(1);
        for number in 0..8 {
            let (bulkhead, mut over) = (bulkhead.clone(), end.subscribe());
            tokio::spawn(async move {
                let path = PathBuf::from(format!("hung/{number}"));
                let call = async move {
                    let _ = over.recv().await;
                    Ok(())
                };
                bulkhead.run(&path, call).await
            });
        }
        tokio::time::sleep(PATIENCE * 2).await;
        assert!(answer(&bulkhead, "hung/9").await.is_err());
        end.send(()).expect("they wait");
        tokio::time::sleep(PATIENCE).await;
        assert_eq!(answer(&bulkhead, "hung/9").await.ok(), Some(7));
        let table = bulkhead.0.table();
        assert!(
            table.directories.0.is_empty() && table.objects.0.is_empty(),
            "nothing stays"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_that_hangs_as_a_whole_gets_no_more_calls_than_allowed() {
        let bulkhead = looks();
        for number in 0..200 {
            let bulkhead = bulkhead.clone();
            tokio::spawn(async move {
                let path = PathBuf::from(format!("{number}/file"));
                let call = std::future::pending::<Result<(), _>>();
                bulkhead.run(&path, call).await
            });
        }
        tokio::time::sleep(PATIENCE * 100).await;
        assert_eq!(bulkhead.0.table().late, 0);
        assert_eq!(
            bulkhead.0.calls.available_permits(),
            0,
            "they keep their places"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn directories_that_hang_one_after_the_other_leave_room_for_one_that_answers() {
        let bulkhead = looks();
        for number in 0..100 {
            // Each takes all that one directory may have.
            if number % 10 == 0 {
                for file in 0..20 {
                    let bulkhead = bulkhead.clone();
                    tokio::spawn(async move {
                        let path = PathBuf::from(format!("{number}/{file}"));
                        let call = std::future::pending::<Result<(), _>>();
                        bulkhead.run(&path, call).await
                    });
                }
            }
            tokio::time::sleep(PATIENCE / 4).await;
            let answered = timeout(PATIENCE, answer(&bulkhead, "other/file")).await;
            match answered {
                Ok(answered) => assert_eq!(answered.ok(), Some(7), "{number}"),
                Err(_) => {
                    let late = bulkhead.0.table().late;
                    assert_eq!(late, 8 * LATE, "{number}: as many as may make room");
                    return;
                }
            }
        }
        panic!("the calls that hang have no bound");
    }
}
