//! [`runtime`]: threads for a cache, without the panics of tokio where none can be had.

use std::io;
use std::time::Duration;

use cachewise_sys::check_threads;
use tokio::runtime::{Builder, Runtime};

/// Threads beside the workers, for calls that block.
const SPARE: usize = 4;

/// How long a thread for calls that block stays without work. tokio panics where there is none and none can be started;
/// where there is one, calls wait for it.
const KEEP_ALIVE: Duration = Duration::from_secs(3600);

/// Starts a runtime with this number of workers, whose threads have this name.
///
/// # Errors
/// The kernel refuses threads: a limit on processes (`pids.max`, `ulimit -u`) counts them.
pub fn runtime(name: &str, workers: usize) -> io::Result<Runtime> {
    check_threads(workers.saturating_add(SPARE))?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .thread_name(name)
        .thread_keep_alive(KEEP_ALIVE)
        .build()?;
    // The first of them.
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}
