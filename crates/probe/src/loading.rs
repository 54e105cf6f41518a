//! Storage and messages of libbpf, shared by all objects that it loads.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{OpenObject, ProgramInput, ProgramMut};

use crate::error::Error;

/// Storage of libbpf-rs for the open object, which has to outlive the skeleton and not move.
pub(crate) struct Storage(*mut MaybeUninit<OpenObject>);

impl Storage {
    pub(crate) fn new() -> Self {
        Storage(Box::into_raw(Box::new(MaybeUninit::uninit())))
    }

    /// # Safety
    /// Values made from the reference must be dropped before `self`. Call it once.
    pub(crate) unsafe fn get(&self) -> &'static mut MaybeUninit<OpenObject> {
        // SAFETY: the pointer came from a box that only `drop` frees; the caller sees to the rest.
        unsafe { &mut *self.0 }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` and freed nowhere else. `MaybeUninit` has no drop glue: the
        // object itself was moved out and dropped by the skeleton.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

// SAFETY: the pointer is an owned allocation that only this value reaches.
unsafe impl Send for Storage {}

/// Returns whether a developer wants the verifier's log.
pub(crate) fn is_logged() -> bool {
    std::env::var_os("CACHEWISE_BPF_LOG").is_some()
}

/// Loads that libbpf is quiet for now, and how it prints otherwise.
static QUIET: Mutex<(usize, Option<Printer>)> = Mutex::new((0, None));

/// How libbpf prints: from which level on, and by what.
type Printer = (libbpf_rs::PrintLevel, libbpf_rs::PrintCallback);

/// Keeps libbpf quiet until it is dropped. Its printer is one for the process, and several probes may load at once.
struct Quiet;

impl Quiet {
    fn start() -> Self {
        let mut quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
        if quiet.0 == 0 {
            quiet.1 = libbpf_rs::set_print(None);
        }
        quiet.0 += 1;
        Self
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let mut quiet = QUIET.lock().unwrap_or_else(PoisonError::into_inner);
        quiet.0 -= 1;
        if quiet.0 == 0 {
            libbpf_rs::set_print(quiet.1.take());
        }
    }
}

/// Loads without libbpf's log, the verifier's with it, on stderr: for developers, who ask for it.
pub(crate) fn quietly<T>(load: impl FnOnce() -> T) -> T {
    let _quiet = (!is_logged()).then(Quiet::start);
    load()
}

/// Runs a program once, and returns its result.
pub(crate) fn run(program: &ProgramMut<'_>, operation: &'static str) -> Result<u32, Error> {
    match program.test_run(ProgramInput::default()) {
        Ok(output) => Ok(output.return_value),
        Err(source) => Err(Error::Run {
            operation,
            source: source.into(),
        }),
    }
}
