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
    let before = threads_of_process();
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
    until_released(before);
    result
}

/// Waits until no more than `most` threads count towards a limit: the kernel releases one a moment after it was joined.
/// Gives up soon, as another thread may have been started meanwhile.
pub fn until_released(most: Option<usize>) {
    const LOOKS: u32 = 200;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
    for _ in 0..LOOKS {
        if threads_of_process() <= most {
            break;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns how many threads this process has, the calling one included; those that have been joined count until the
/// kernel has released them.
#[must_use]
pub fn threads_of_process() -> Option<usize> {
    std::fs::read_dir("/proc/self/task")
        .ok()
        .map(Iterator::count)
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
    fn a_refusal_names_the_limit() {
        let error = refused("walk", Errno::AGAIN.into());
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("pids.max"), "{error}");
        let error = refused("walk", Errno::PERM.into());
        assert!(error.to_string().contains("seccomp"), "{error}");
    }
}
