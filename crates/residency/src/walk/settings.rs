//! [`WalkSettings`]: the options of a walk, shared by its threads.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::patterns::Patterns;

#[derive(Clone, Debug)]
pub(super) struct WalkSettings {
    pub threads: usize,
    pub one_file_system: bool,
    pub patterns: Patterns,
    /// Names of files on which a file system may be mounted whose files lose their pages when they are opened.
    pub mounted_files: HashSet<CString>,
    pub cancel: Option<Arc<AtomicBool>>,
}

impl WalkSettings {
    pub fn with_threads(threads: usize) -> Self {
        Self {
            threads,
            one_file_system: false,
            patterns: Patterns::default(),
            mounted_files: HashSet::new(),
            cancel: None,
        }
    }

    pub fn is_cancelled(&self) -> bool {
        let flag = self.cancel.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
