//! A memory group, and what is charged to it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use cachewise_kstat::{CgroupFiles, Hierarchy, Kernel};

use crate::Outcome;

/// A group below the root of the hierarchy, removed when dropped.
pub struct Group {
    pub path: PathBuf,
    hierarchy: Hierarchy,
}

/// Memory of a group in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Charged {
    /// Pages of files.
    pub files: u64,
    /// All else, at its largest.
    pub other: u64,
}

impl Group {
    pub fn new(limit: Option<u64>) -> Outcome<Group> {
        let hierarchy = Kernel::new().cgroup_hierarchy()?;
        let mount = hierarchy
            .mount()
            .ok_or("no hierarchy accounts memory here")?;
        let path = mount.join(format!("cachewise-bench-size-{}", std::process::id()));
        fs::create_dir(&path)?;
        let group = Group { path, hierarchy };
        if let Some(limit) = limit {
            let files = ["memory.max", "memory.limit_in_bytes"];
            let file = files
                .map(|file| group.path.join(file))
                .into_iter()
                .find(|file| file.exists());
            fs::write(
                file.ok_or("the group has no limit of memory")?,
                limit.to_string(),
            )?;
        }
        Ok(group)
    }

    /// Watches the memory of the group until it is stopped.
    pub fn watch(&self) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (mut files, hierarchy) = (CgroupFiles::once(self.path.clone()), self.hierarchy.clone());
        let thread = std::thread::spawn(move || {
            let mut most = Charged::default();
            loop {
                let is_last = stopped.load(Ordering::Acquire);
                if let Ok(Some(memory)) = files.memory(&hierarchy)
                    && let (Some(used), Some(active), Some(inactive)) =
                        (memory.used, memory.active_file, memory.inactive_file)
                {
                    let cache = active.0 + inactive.0;
                    most.files = most.files.max(cache);
                    most.other = most.other.max(used.0.saturating_sub(cache));
                }
                if is_last {
                    return most;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Watch { stop, thread }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Busy until the kernel has put its last task away.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{}: the group could not be removed", self.path.display());
    }
}

/// A thread that looks at the memory of a group.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Charged>,
}

impl Watch {
    /// The most memory so far.
    pub fn finish(self) -> Outcome<Charged> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| "the thread panicked".into())
    }
}
