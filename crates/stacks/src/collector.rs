//! Takes records while programs run, and adds up their stacks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use cachewise_kstat::Kernel;
use cachewise_model::Reason;
use cachewise_probe::{AddressSpace, Origin, StackRecord, StackRest, StackSample};
use framehop::x86_64::CacheX86_64;

use crate::address::Address;
use crate::module::Modules;
use crate::namer::Unnamed;
use crate::rest::Rest;
use crate::space::Space;
use crate::table::{Key, Table};
use crate::unwind::{Calls, unwind};

/// Address spaces whose mappings are kept; the others are read again when they send a stack.
const MAX_SPACES: usize = 1024;

/// Processes whose users are kept.
const MAX_USERS: usize = 16_384;

/// Stacks as they come.
pub struct Collector {
    kernel: Kernel,
    modules: Modules,
    spaces: HashMap<AddressSpace, Space>,
    /// The users of processes whose mappings were read.
    users: HashMap<u32, u32>,
    cache: CacheX86_64,
    table: Table,
    /// The number of times that files were closed and numbered anew.
    numbering: u64,
    /// This process.
    own: u32,
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
            numbering: 0,
            own: std::process::id(),
            rest: Rest::default(),
        }
    }

    /// Takes a record. Its process is looked at now, so that the sooner it is taken, the more is known of it.
    pub fn take(&mut self, record: &StackRecord) {
        match record {
            StackRecord::Weight(weight) => self.table.weigh(&self.rest.corrected(weight)),
            StackRecord::Sample(sample) => {
                let key = match sample.pid == self.own {
                    // It reads debug information, and would find itself.
                    true => Key {
                        command: sample.command.clone(),
                        ..Key::unknown(sample.kind, Reason::OwnProcess)
                    },
                    false => self.key(sample),
                };
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

    /// Takes the stacks since the last time, whose calls a [`Namer`](crate::Namer) names; also returns the number of stacks
    /// that were lost since.
    pub fn drain(&mut self) -> (Unnamed, u64) {
        let lost = std::mem::take(&mut self.table.lost);
        let stacks = self.table.drain();
        let (mut modules, mut users) = (HashMap::new(), HashMap::new());
        for address in Unnamed::addresses(&stacks) {
            match address {
                Address::InFile(number, _) | Address::Unopened(number) => {
                    if let Some(module) = self.modules.get(number) {
                        modules.entry(number).or_insert_with(|| Arc::clone(module));
                    }
                }
                Address::Bare(pid, _) => {
                    if let Some(user) = self.users.get(&pid) {
                        users.insert(pid, *user);
                    }
                }
                Address::Kernel(_) => {}
            }
        }
        let unnamed = Unnamed {
            stacks,
            modules,
            users,
            numbering: self.numbering,
        };
        if self.modules.are_nearly_full() {
            self.begin_anew();
        }
        self.cache = CacheX86_64::new();
        (unnamed, lost)
    }

    /// Closes all files, of which some may be deleted since. Weights that are still awaited lose their stack.
    fn begin_anew(&mut self) {
        self.modules = Modules::default();
        self.spaces.clear();
        self.users.clear();
        self.table = Table::default();
        self.numbering += 1;
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::StackKind;
    use cachewise_probe::{StackUnit, StackWeight};

    use super::*;
    use crate::namer::Namer;

    fn sample(pid: u32) -> StackRecord {
        StackRecord::Sample(Box::new(StackSample {
            id: u64::from(pid),
            kind: StackKind::Fault,
            origin: Origin::User,
            space: AddressSpace {
                memory: u64::from(pid),
                start: 1,
            },
            executable_pages: 1,
            pid,
            command: "test".to_owned(),
            ip: 0,
            sp: 0,
            bp: 0,
            user: Vec::new(),
            behind: Vec::new(),
            kernel: vec![1],
        }))
    }

    #[test]
    fn stacks_of_this_process_are_one_row_with_their_weight() {
        let own = std::process::id();
        let mut collector = Collector::new(Kernel::new());
        collector.take(&sample(own));
        collector.take(&StackRecord::Weight(StackWeight {
            id: u64::from(own),
            kind: StackKind::Fault,
            unit: StackUnit::Pages,
            weight: 3,
        }));
        let (unnamed, lost) = collector.drain();
        let stacks = Namer::new(Kernel::new()).name(unnamed).stacks;
        assert_eq!((stacks.len(), lost), (1, 0));
        assert_eq!(stacks[0].cut, Some(Reason::OwnProcess));
        assert_eq!(stacks[0].frames, [], "it is not unwound");
        assert_eq!(stacks[0].weight.pages.0, 3, "sums hold");
    }
}
