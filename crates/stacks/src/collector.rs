//! Takes records while programs run, and makes the stacks of a report or of an interval.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use cachewise_kstat::Kernel;
use cachewise_model::{Frame, Reason, Stack, Stacks, Weight};
use cachewise_probe::{AddressSpace, Origin, StackRecord, StackRest, StackSample};
use cachewise_units::{Bytes, Pages};
use framehop::x86_64::CacheX86_64;

use crate::address::Address;
use crate::interpreter;
use crate::library;
use crate::module::Modules;
use crate::rest::Rest;
use crate::space::Space;
use crate::symbols::Symbols;
use crate::table::{Key, Sum, Table};
use crate::unwind::{Calls, unwind};

/// Address spaces whose mappings are kept; the others are read again when they send a stack.
const MAX_SPACES: usize = 1024;

/// Processes whose users are kept.
const MAX_USERS: usize = 16_384;

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

/// Stacks as they come.
pub struct Collector {
    kernel: Kernel,
    modules: Modules,
    spaces: HashMap<AddressSpace, Space>,
    /// The users of processes whose mappings were read.
    users: HashMap<u32, u32>,
    cache: CacheX86_64,
    table: Table,
    symbols: Symbols,
    rest: Rest,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl Collector {
    /// A collector without stacks, which finds processes below this kernel's roots.
    #[must_use]
    pub fn new(kernel: Kernel) -> Self {
        Collector {
            kernel,
            modules: Modules::default(),
            spaces: HashMap::new(),
            users: HashMap::new(),
            cache: CacheX86_64::new(),
            table: Table::default(),
            symbols: Symbols::default(),
            rest: Rest::default(),
        }
    }

    /// Takes a record. Its process is looked at now, so that the sooner it is taken, the more is known of it.
    pub fn take(&mut self, record: &StackRecord) {
        match record {
            StackRecord::Weight(weight) => self.table.weigh(&self.rest.corrected(weight)),
            StackRecord::Sample(sample) => {
                let key = self.key(sample);
                self.table.enter(sample.id, key);
            }
        }
    }

    /// Takes the weights so far that no record has, after the records.
    pub fn take_rest(&mut self, rest: &StackRest) {
        let added = self.rest.added(rest);
        for weight in &added.evicted {
            self.table.weigh(weight);
        }
        for weight in &added.outside_calls {
            self.table.weigh_unknown(weight, Reason::OutsideCall);
        }
        for weight in &added.lost {
            self.table.weigh_unknown(weight, Reason::StackLost);
        }
        self.table.lost += added.lost_stacks;
    }

    /// Takes the weights of tasks that evict and whose stack was lost, after the last [`Collector::take_rest`]: the kernel
    /// counts them elsewhere once such a task has evicted by another call.
    pub fn take_last(&mut self, rest: &StackRest) {
        for weight in rest.evicted.iter().filter(|weight| !weight.has_stack()) {
            self.table.weigh(weight);
        }
    }

    fn key(&mut self, sample: &StackSample) -> Key {
        let calls = match sample.origin {
            Origin::User => self.calls(sample),
            Origin::KernelThread => Calls::without(Reason::KernelThread),
            Origin::Worker => Calls::without(Reason::IoUringWorker),
            Origin::Program32Bit => Calls::without(Reason::Program32Bit),
        };
        // Of a return address the byte before it is in the call.
        let kernel = sample.kernel.iter().enumerate();
        let kernel = kernel.map(|(depth, at)| Address::Kernel(at - u64::from(depth > 0)));
        Key {
            kind: sample.kind,
            command: sample.command.clone(),
            addresses: kernel.chain(calls.addresses).collect(),
            cut: calls.cut,
        }
    }

    fn calls(&mut self, sample: &StackSample) -> Calls {
        if self.spaces.len() >= MAX_SPACES && !self.spaces.contains_key(&sample.space) {
            self.spaces.clear();
        }
        if self.users.len() >= MAX_USERS {
            self.users.clear();
        }
        let space = self
            .spaces
            .entry(sample.space)
            .or_insert_with(|| Space::new(sample.pid));
        if space.is_older_than(sample.executable_pages) {
            space.read(&self.kernel, &mut self.modules, sample.executable_pages);
        }
        if !space.is_unknown()
            && let Entry::Vacant(unknown) = self.users.entry(sample.pid)
            && let Ok(user) = self.kernel.process_uid(sample.pid)
        {
            unknown.insert(user);
        }
        if space.is_unknown() {
            return Calls::without(Reason::MappingsGone);
        }
        let calls = unwind(space, &mut self.cache, sample);
        if !calls.left_code || !space.may_be_read() {
            return calls;
        }
        space.read(&self.kernel, &mut self.modules, sample.executable_pages);
        unwind(space, &mut self.cache, sample)
    }

    /// Names the calls of the stacks since the last time; also returns the number of stacks that were lost since.
    ///
    /// # Cost
    /// Each address is looked up once. The first one in a file reads its symbols and, for lines, its debug information.
    pub fn drain(&mut self) -> (Stacks, u64) {
        let lost = std::mem::take(&mut self.table.lost);
        let stacks = self.table.drain();
        let addresses: BTreeSet<Address> = stacks
            .iter()
            .flat_map(|(key, _)| key.addresses.iter().copied())
            .collect();
        let (kernel, users) = (&self.kernel, &self.users);
        let user = |pid: u32| users.get(&pid).copied();
        self.symbols
            .look_up(&addresses, &self.modules, kernel, user);
        let stacks = stacks
            .into_iter()
            .map(|(key, sum)| named(key, sum, &self.symbols));
        let stacks = stacks.collect();
        if self.modules.are_nearly_full() || self.symbols.len() > MAX_NAMES {
            self.begin_anew();
        }
        self.cache = CacheX86_64::new();
        (Stacks { stacks }, lost)
    }

    /// Closes all files, of which some may be deleted since. Weights that are still awaited lose their stack.
    fn begin_anew(&mut self) {
        self.modules = Modules::default();
        self.spaces.clear();
        self.users.clear();
        self.table = Table::default();
        self.symbols = Symbols::default();
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
