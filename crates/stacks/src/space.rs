//! The mapped code of an address space.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cachewise_kstat::{CodeMapping, Kernel};
use framehop::x86_64::UnwinderX86_64;
use framehop::{Module as Unwindable, Unwinder};

use crate::address::Address;
use crate::module::Modules;

/// Mappings are read again for an address in none of them, but not more often than this.
const PAUSE: Duration = Duration::from_millis(20);

/// Code at some addresses.
struct Code {
    mapping: CodeMapping,
    /// The number of its file; `None`: it is in none.
    number: Option<u32>,
    /// The difference to the addresses of the file; `None`: its segments are unknown.
    bias: Option<u64>,
}

/// The code that a process had mapped when it was read last.
pub(crate) struct Space {
    pub(crate) pid: u32,
    /// Executable pages when it was read last.
    pages: u64,
    code: Vec<Code>,
    pub(crate) unwinder: UnwinderX86_64<Arc<[u8]>>,
    read: Option<Instant>,
}

impl Space {
    pub(crate) fn new(pid: u32) -> Space {
        Space {
            pid,
            pages: 0,
            code: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            read: None,
        }
    }

    /// Whether no mappings could be read so far.
    pub(crate) fn is_unknown(&self) -> bool {
        self.code.is_empty()
    }

    /// Whether code was mapped or unmapped since it was read last.
    pub(crate) fn is_older_than(&self, pages: u64) -> bool {
        self.read.is_none() || self.pages != pages
    }

    /// Whether it may be read again for an address in none of its mappings.
    pub(crate) fn may_be_read(&self) -> bool {
        self.read.is_none_or(|read| read.elapsed() >= PAUSE)
    }

    /// Reads the mappings; those read before stay where the process has ended.
    pub(crate) fn read(&mut self, kernel: &Kernel, modules: &mut Modules, pages: u64) {
        self.read = Some(Instant::now());
        self.pages = pages;
        let Ok(mappings) = kernel.process_code(self.pid) else {
            return;
        };
        // A process that is ending has none.
        if mappings.is_empty() {
            return;
        }
        self.code.clear();
        self.unwinder = UnwinderX86_64::new();
        for mapping in mappings {
            let number = modules.number(&mapping);
            let bias = number.and_then(|number| {
                let module = modules.get(number)?;
                let bias = module.bias(&mapping)?;
                self.unwinder.add_module(Unwindable::new(
                    String::new(),
                    mapping.addresses.clone(),
                    bias,
                    module.sections(),
                ));
                Some(bias)
            });
            self.code.push(Code {
                mapping,
                number,
                bias,
            });
        }
    }

    /// The code of an address; `None`: none is mapped there.
    pub(crate) fn address(&self, address: u64) -> Option<Address> {
        let after = self
            .code
            .partition_point(|code| code.mapping.addresses.start <= address);
        let code = &self.code[after.checked_sub(1)?];
        if !code.mapping.addresses.contains(&address) {
            return None;
        }
        Some(match (code.number, code.bias) {
            (Some(number), Some(bias)) => Address::InFile(number, address.wrapping_sub(bias)),
            (Some(number), None) => Address::Unopened(number),
            (None, _) => Address::Bare(self.pid, address),
        })
    }
}
