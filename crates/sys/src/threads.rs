//! [`start_thread`]: threads that may not be had. The limit on processes (`pids.max`, `ulimit -u`) counts threads, and a
//! seccomp filter may forbid clone3(2); `std::thread::spawn` panics then.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use rustix::io::Errno;

/// Starts a thread of this name, which is cut at 15 bytes in the kernel.
///
/// # Errors
/// The kernel refuses, with the limit that is the likely cause.
pub fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    #[allow(clippy::disallowed_methods, reason = "the one place that may")]
    let started = Builder::new().name(name.to_owned()).spawn(work);
    started.map_err(|error| refused(name, error))
}

/// Starts a thread that has descriptors of its own, as [`start_thread`] does: copies, by the same numbers, of those that
/// are open now, which its end closes. A process of one other thread then has its descriptors to itself, and each call on
/// one of them costs less. Where the kernel refuses that, the descriptors are shared.
///
/// The thread is to use no descriptor that another thread opens later, and what is open now stays open until it ends.
///
/// # Errors
/// The errors of [`start_thread`].
pub fn start_thread_apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    start_thread(name, || {
        // SAFETY: The call changes no memory. Descriptors that `work` owns are open, so the copy has them.
        unsafe { libc::unshare(libc::CLONE_FILES) };
        work()
    })
}

/// Starts a thread that ends within a scope, as [`start_thread`] does.
///
/// # Errors
/// The errors of [`start_thread`].
pub fn start_thread_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    #[allow(clippy::disallowed_methods, reason = "the one place that may")]
    let started = Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work);
    started.map_err(|error| refused(name, error))
}

/// Starts this many threads and ends them again: for libraries that panic where they cannot start theirs.
///
/// # Errors
/// The errors of [`start_thread`].
pub fn check_threads(count: usize) -> io::Result<()> {
    let mut started = Vec::with_capacity(count);
    let (end, ends) = sync_channel::<()>(0);
    let ends = std::sync::Arc::new(std::sync::Mutex::new(ends));
    let result = (0..count).try_for_each(|_| {
        let ends = std::sync::Arc::clone(&ends);
        let thread = start_thread("check", move || {
            // All of them stay until the sender is dropped.
            drop(ends.lock().map(|ends| ends.recv()));
        })?;
        started.push(thread);
        Ok(())
    });
    drop(end);
    for thread in started {
        // It has nothing to panic with.
        let _ = thread.join();
    }
    until_released();
    result
}

/// Waits until no thread of this process that has ended counts towards a limit: the kernel releases one a moment after it
/// was joined. Gives up after seconds.
pub fn until_released() {
    const LOOKS: u32 = 5_000;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
    for _ in 0..LOOKS {
        let Ok(mut tasks) = std::fs::read_dir("/proc/self/task") else {
            return;
        };
        let stat =
            |task: std::io::Result<std::fs::DirEntry>| std::fs::read(task?.path().join("stat"));
        if !tasks.any(|task| stat(task).is_ok_and(|stat| has_ended(&stat))) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns whether a thread has ended, by its `/proc/PID/task/TID/stat`: the flag that the kernel sets before the thread
/// can be joined.
fn has_ended(stat: &[u8]) -> bool {
    /// `PF_EXITING` of the kernel.
    const EXITING: u64 = 4;
    // The name of the thread, in parentheses, may have spaces and parentheses itself.
    let rest = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let flags = rest
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .nth(6);
    let flags = flags.and_then(|word| std::str::from_utf8(word).ok()?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

fn refused(name: &str, error: io::Error) -> io::Error {
    let cause = match Errno::from_io_error(&error) {
        Some(Errno::AGAIN) => {
            "the limit on processes, which counts threads, or on memory is reached: raise pids.max of the control group \
             (TasksMax= of a service, --pids-limit of a container) or `ulimit -u`, `ulimit -v`"
        }
        Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => {
            "a seccomp filter forbids clone3(2): run it with a newer container runtime, or one without that filter"
        }
        _ => "there is no memory for its stack",
    };
    io::Error::new(
        error.kind(),
        format!("cannot start the thread {name:?}: {error}; {cause}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_return_what_they_made() {
        let thread = start_thread("one", || std::thread::current().name().map(str::to_owned));
        let name = thread.expect("no limit is near").join();
        assert_eq!(name.ok().flatten().as_deref(), Some("one"));
        let numbers = [1, 2, 3];
        let sum = std::thread::scope(|scope| {
            let thread = start_thread_in(scope, "two", || numbers.iter().sum::<i32>());
            thread.expect("no limit is near").join().ok()
        });
        assert_eq!(sum, Some(6));
        check_threads(3).expect("no limit is near");
    }

    #[test]
    fn a_thread_apart_has_what_was_open_and_nothing_opened_later() {
        use std::os::fd::AsRawFd;

        let (earlier, _writer) = io::pipe().unwrap();
        let (end, ends) = std::sync::mpsc::channel::<i32>();
        let (ready, started) = std::sync::mpsc::channel::<()>();
        let earlier = earlier.as_raw_fd();
        let has =
            |number: i32| std::path::Path::new(&format!("/proc/thread-self/fd/{number}")).exists();
        let thread = start_thread_apart("apart", move || {
            ready.send(()).unwrap();
            let later = ends.recv().unwrap();
            (has(earlier), has(later))
        });
        started.recv().unwrap();
        let (later, _writer) = io::pipe().unwrap();
        end.send(later.as_raw_fd()).unwrap();
        // A seccomp filter may refuse it, as that of containers does to all but root: then they are shared.
        // SAFETY: As above; the thread owns no descriptor.
        let allowed = start_thread(
            "allowed",
            || unsafe { libc::unshare(libc::CLONE_FILES) } == 0,
        );
        let is_shared = !allowed.unwrap().join().unwrap();
        assert_eq!(thread.unwrap().join().unwrap(), (true, is_shared));
    }

    #[test]
    fn a_thread_has_ended_by_its_flags() {
        let stat = |flags: u32| format!("7 (a) (b c) R 1 7 7 0 -1 {flags} 0 0 0\n").into_bytes();
        assert!(has_ended(&stat(4_194_304 | 4)));
        assert!(!has_ended(&stat(4_194_304)));
        assert!(!has_ended(b""));
    }

    #[test]
    fn threads_that_were_joined_are_released() {
        let tasks = || std::fs::read_dir("/proc/self/task").expect("they are ours");
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
        for _ in 0..100 {
            start_thread("released", || {})
                .expect("no limit is near")
                .join()
                .expect("it ends");
            until_released();
            let found = tasks().flatten().filter_map(|task| name(task).ok());
            assert_eq!(found.filter(|name| name.trim() == "released").count(), 0);
        }
    }

    #[test]
    fn a_refusal_names_the_limit() {
        let error = refused("walk", Errno::AGAIN.into());
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("pids.max"), "{error}");
        let error = refused("walk", Errno::PERM.into());
        assert!(error.to_string().contains("seccomp"), "{error}");
    }
}
