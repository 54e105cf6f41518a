//! Names of the calls of stacks that were taken out of a [`Collector`](crate::Collector).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cachewise_kstat::Kernel;
use cachewise_model::{Frame, Stack, Stacks, Weight};
use cachewise_units::{Bytes, Pages};

use crate::address::Address;
use crate::interpreter;
use crate::library;
use crate::module::Module;
use crate::symbols::Symbols;
use crate::table::{Key, Sum};

/// Named addresses that are kept from one interval to the next.
const MAX_NAMES: usize = 262_144;

/// Functions through which the kernel calls the probe: no part of what a task does.
const OF_THE_PROBE: [&str; 5] = [
    "bpf_",
    "__bpf_",
    "__traceiter_",
    "stack_trace_save",
    "__sched_switch",
];

/// Stacks of an interval whose calls are addresses, with the open files that name them.
pub struct Unnamed {
    pub(crate) stacks: Vec<(Key, Sum)>,
    /// By number.
    pub(crate) modules: HashMap<u32, Arc<Module>>,
    /// The users of processes.
    pub(crate) users: HashMap<u32, u32>,
    /// Files have other numbers after it has changed.
    pub(crate) numbering: u64,
}

impl std::fmt::Debug for Unnamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stacks = self.stacks.len();
        f.debug_struct("Unnamed")
            .field("stacks", &stacks)
            .finish_non_exhaustive()
    }
}

impl Unnamed {
    /// The number of stacks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stacks.len() as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The addresses of its calls.
    pub(crate) fn addresses(stacks: &[(Key, Sum)]) -> BTreeSet<Address> {
        let addresses = stacks.iter().flat_map(|(key, _)| key.addresses.iter());
        addresses.copied().collect()
    }
}

/// Names calls, also on another thread than that which takes stacks.
pub struct Namer {
    kernel: Kernel,
    symbols: Symbols,
    numbering: u64,
}

impl std::fmt::Debug for Namer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namer").finish_non_exhaustive()
    }
}

impl Namer {
    /// A namer that finds perf maps below this kernel's roots.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Namer {
            kernel,
            symbols: Symbols::default(),
            numbering: 0,
        }
    }

    /// Names the calls of these stacks.
    ///
    /// # Cost
    /// Each address is looked up once. The first one in a file reads its symbols and, for lines, its debug information:
    /// seconds, if that is large.
    pub fn name(&mut self, unnamed: Unnamed) -> Stacks {
        if unnamed.numbering != self.numbering || self.symbols.len() > MAX_NAMES {
            self.symbols = Symbols::default();
            self.numbering = unnamed.numbering;
        }
        let addresses = Unnamed::addresses(&unnamed.stacks);
        let user = |pid: u32| unnamed.users.get(&pid).copied();
        self.symbols
            .look_up(&addresses, &unnamed.modules, &self.kernel, user);
        let stacks = unnamed.stacks.into_iter();
        let stacks = stacks.map(|(key, sum)| named(key, sum, &self.symbols));
        Stacks {
            stacks: stacks.collect(),
        }
    }
}

fn named(key: Key, sum: Sum, symbols: &Symbols) -> Stack {
    let calls = key
        .addresses
        .iter()
        .filter_map(|address| symbols.frames(address));
    let mut frames: Vec<Frame> = calls.flatten().cloned().collect();
    let is_of_the_probe = |frame: &Frame| {
        frame.is_kernel
            && frame.function.as_deref().is_some_and(|function| {
                OF_THE_PROBE.iter().any(|start| function.starts_with(start))
            })
    };
    let own = frames.iter().rposition(is_of_the_probe);
    frames.drain(..own.map_or(0, |last| last + 1));
    library::mark(&mut frames);
    interpreter::mark(&mut frames);
    let positive = |sum: i64| u64::try_from(sum).unwrap_or(0);
    Stack {
        kind: key.kind,
        command: key.command,
        frames,
        cut: key.cut,
        weight: Weight {
            pages: Pages(positive(sum.pages)),
            bytes: Bytes(positive(sum.bytes)),
            waited: Duration::from_nanos(positive(sum.nanoseconds)),
        },
    }
}
