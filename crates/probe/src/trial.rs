//! Hooks that this kernel permits: each is tested by loading and attaching a program that does nothing. A build setting
//! of the kernel proves nothing: it may be on, and the program be refused.

use std::mem::MaybeUninit;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};

use crate::error::Error;
use crate::loading::quietly;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/trial.skel.rs"));
}

/// A way to hook into the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// A tracepoint with raw arguments: what the probe is made of.
    RawTracepoint,
    /// The same with arguments that have types.
    BtfTracepoint,
    /// The entry of a function, by ftrace.
    Fentry,
    /// Any instruction of the kernel.
    Kprobe,
    /// A walk over all tasks.
    TaskIterator,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] = [
        Way::RawTracepoint,
        Way::BtfTracepoint,
        Way::Fentry,
        Way::Kprobe,
        Way::TaskIterator,
    ];

    /// Its name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Way::RawTracepoint => "raw_tracepoint",
            Way::BtfTracepoint => "btf_tracepoint",
            Way::Fentry => "fentry",
            Way::Kprobe => "kprobe",
            Way::TaskIterator => "task_iterator",
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Way::RawTracepoint => "try_raw_tracepoint",
            Way::BtfTracepoint => "try_btf_tracepoint",
            Way::Fentry => "try_fentry",
            Way::Kprobe => "try_kprobe",
            Way::TaskIterator => "try_iterator",
        }
    }

    /// Loads and attaches a program this way, and takes it away again.
    ///
    /// # Errors
    /// [`Error::Refused`] with what the kernel said.
    ///
    /// # Cost
    /// Some 20 ms, most of it libbpf's reading of the kernel's types.
    pub fn attempt(self) -> Result<(), Error> {
        quietly(|| self.load_and_attach())
    }

    fn load_and_attach(self) -> Result<(), Error> {
        let refused = |source: libbpf_rs::Error| Error::Refused {
            operation: format!("load and attach a program ({})", self.id()),
            source: source.into(),
        };
        let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let mut open = skeleton::TrialSkelBuilder::default()
            .open(&mut storage)
            .map_err(refused)?;
        for mut program in open.open_object_mut().progs_mut() {
            let is_it = program.name().to_str() == Some(self.program());
            program.set_autoload(is_it);
        }
        let mut loaded = open.load().map_err(refused)?;
        for program in loaded.object_mut().progs_mut() {
            if program.autoload() {
                drop(program.attach().map_err(refused)?);
            }
        }
        Ok(())
    }
}
