//! Programs that do nothing on the tracepoints of the probe: the floor under its cost.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};

use crate::error::Error;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "generated"
)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/empty.skel.rs"));
}

/// Empty programs, attached until this is dropped.
#[derive(Debug)]
pub struct Bare {
    _links: Vec<Link>,
}

impl Bare {
    /// Attaches them.
    ///
    /// # Errors
    /// [`Error::Refused`] as for [`Probe::attach`](crate::Probe::attach).
    pub fn attach() -> Result<Bare, Error> {
        let refused = |source: libbpf_rs::Error| Error::Refused {
            operation: "attach empty programs".into(),
            source: source.into(),
        };
        let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
        let skeleton = skeleton::EmptySkelBuilder::default()
            .open(&mut storage)
            .and_then(OpenSkel::load)
            .map_err(refused)?;
        let progs = &skeleton.progs;
        let links = [
            &progs.empty_get_pages,
            &progs.empty_insert,
            &progs.empty_delete,
            &progs.empty_map_pages,
            &progs.empty_fault,
        ]
        .into_iter()
        .map(|program| program.attach().map_err(refused))
        .collect::<Result<_, _>>()?;
        Ok(Bare { _links: links })
    }
}
