//! The walk over all tasks: to follow a process and those under it, or to settle the accounts of all.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};

use libbpf_rs::skel::Skel as _;
use libbpf_rs::{Iter, IterOpts};

use super::Programs;
use super::opened::{Loaded, Opened, Share};
use crate::error::Error;
use crate::kernel_types::KernelTypes;
use crate::loading::quietly;
use crate::options::Scope;

impl Programs {
    /// Returns whether tasks may be alive that have accounts to settle.
    pub(crate) fn has_tasks(&self) -> bool {
        let bss = self.skeleton().maps.bss_data.as_deref();
        // An event that was left out may be one that counts them.
        self.options.scope != Scope::Children
            || bss.is_none_or(|bss| bss.alive != 0)
            || self.skipped() > 0
    }

    /// Walks over all tasks: to follow a process and those under it, or (0) to settle the accounts.
    ///
    /// # Errors
    /// [`Error::Map`] if the walk fails, [`Error::Refused`] if the kernel refuses its program.
    pub(crate) fn walk(&mut self, root: u32) -> Result<(), Error> {
        let error = |source: libbpf_rs::Error| Error::Map {
            operation: "walk over the tasks",
            source: source.into(),
        };
        if !self.skeleton().progs.walk.autoload() && self.late.is_none() {
            self.late = Some(quietly(|| self.load_walk())?);
        }
        if let Some(bss) = self.skeleton_mut().maps.bss_data.as_deref_mut() {
            bss.walk_root = root;
        }
        let loaded = self.late.as_ref().unwrap_or(&self.most);
        let walk = &loaded.skeleton.progs.walk;
        let link = walk.attach_iter_with_opts(IterOpts::None).map_err(error)?;
        let mut output = Vec::new();
        Iter::new(&link)
            .map_err(error)?
            .read_to_end(&mut output)
            .map_err(|source| error(libbpf_rs::Error::from(source)))?;
        Ok(())
    }

    fn load_walk(&self) -> Result<Loaded, Error> {
        let kernel = KernelTypes::read()?;
        let mut walk = Opened::new(&self.options, &kernel, &self.chosen, Share::Walk)?;
        let maps = self.skeleton().object().maps();
        let maps: io::Result<Vec<OwnedFd>> =
            maps.map(|map| map.as_fd().try_clone_to_owned()).collect();
        walk.share(&maps.map_err(Error::Memory)?)?;
        walk.load()
    }
}
