//! Back-ends that a kernel may offer. Each of them is then tested by loading it.

use std::cell::OnceCell;

use crate::back_end::BackEnd;
use crate::groups::{Group, Means};
use crate::kernel_types::KernelTypes;
use crate::options::Options;
use crate::trial::Way;

/// For developers and tests: only these, by name, with commas between them.
const VARIABLE: &str = "CACHEWISE_BACK_ENDS";

/// The permitted back-ends that this kernel may offer.
pub(crate) struct Offer<'k> {
    kernel: &'k KernelTypes,
    allowed: Vec<BackEnd>,
    fentry: OnceCell<bool>,
    kprobe: OnceCell<bool>,
}

impl<'k> Offer<'k> {
    pub(crate) fn new(kernel: &'k KernelTypes, options: &Options) -> Self {
        let mut allowed = options.back_ends.clone();
        if let Some(names) = std::env::var_os(VARIABLE) {
            let names = names.to_string_lossy();
            let named: Vec<BackEnd> = names.split(',').filter_map(BackEnd::named).collect();
            allowed.retain(|back_end| named.contains(back_end));
        }
        Offer {
            kernel,
            allowed,
            fentry: OnceCell::new(),
            kprobe: OnceCell::new(),
        }
    }

    /// The ways to have what a group tells, best first. Where only one is left to choose from, there is
    /// nothing to find out that attaching it does not.
    pub(crate) fn means(&self, group: &'static Group) -> impl Iterator<Item = &'static Means> {
        let single = group.means.len() == 1;
        // Without tracepoints at all there is no probe.
        let by_tracepoints = |means: &Means| means.back_end == BackEnd::Tracepoints;
        let always = group.means.iter().all(by_tracepoints) && !group.is_reads();
        group.means.iter().filter(move |means| {
            (always || self.is_allowed(means)) && (single || self.may_be_there(means))
        })
    }

    fn is_allowed(&self, means: &Means) -> bool {
        self.allowed.contains(&means.back_end)
    }

    fn may_be_there(&self, means: &Means) -> bool {
        if means.wants.is_some_and(|name| !self.kernel.has_name(name)) {
            return false;
        }
        let mut targets = means.programs.iter().map(|(_, target)| *target);
        match means.back_end {
            BackEnd::Tracepoints | BackEnd::SysExit => {
                targets.all(|name| self.kernel.has_tracepoint(name))
            }
            BackEnd::Fentry => {
                targets.all(|name| self.kernel.has_name(name)) && tried(&self.fentry, Way::Fentry)
            }
            BackEnd::Kprobes => {
                targets.all(|name| self.kernel.has_name(name)) && tried(&self.kprobe, Way::Kprobe)
            }
            BackEnd::Procfs => false,
        }
    }
}

fn tried(known: &OnceCell<bool>, way: Way) -> bool {
    *known.get_or_init(|| way.attempt().is_ok())
}
