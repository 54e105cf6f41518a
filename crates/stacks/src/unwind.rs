//! From registers and a copy of the stack to the addresses of calls.

use cachewise_model::Reason;
use cachewise_probe::StackSample;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{Error, Unwinder};

use crate::address::Address;
use crate::space::Space;

/// Calls of a stack that are kept at most.
const MAX_CALLS: usize = 128;

/// The calls of a user's stack, the innermost first.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) addresses: Vec<Address>,
    /// Why outer ones are missing.
    pub(crate) cut: Option<Reason>,
    /// An address in no mapping ended the walk: the mappings may be old.
    pub(crate) left_code: bool,
}

impl Calls {
    /// None, for this reason.
    pub(crate) fn without(why: Reason) -> Calls {
        Calls {
            cut: Some(why),
            ..Calls::default()
        }
    }
}

/// Walks a stack by the unwind information of the mapped files, or by frame pointers where they have none.
pub(crate) fn unwind(space: &Space, cache: &mut CacheX86_64, sample: &StackSample) -> Calls {
    let mut beyond = false;
    let mut read_stack = |address: u64| {
        let offset = address.checked_sub(sample.sp).ok_or(())?;
        let offset = usize::try_from(offset).map_err(|_| ())?;
        let copied = sample.user.get(offset..).and_then(<[u8]>::first_chunk);
        let word = copied.map(|word| u64::from_le_bytes(*word)).or_else(|| {
            let mut behind = sample.behind.iter();
            behind.find(|(at, _)| *at == address).map(|(_, word)| *word)
        });
        beyond |= word.is_none();
        word.ok_or(())
    };
    let registers = UnwindRegsX86_64::new(sample.ip, sample.sp, sample.bp);
    let mut frames = space
        .unwinder
        .iter_frames(sample.ip, registers, cache, &mut read_stack);
    let mut calls = Calls::default();
    loop {
        match frames.next() {
            Ok(Some(frame)) => {
                let Some(address) = space.address(frame.address_for_lookup()) else {
                    calls.cut = Some(Reason::NotUnwound);
                    calls.left_code = true;
                    return calls;
                };
                if calls.addresses.len() == MAX_CALLS {
                    calls.cut = Some(Reason::StackTooDeep);
                    return calls;
                }
                calls.addresses.push(address);
            }
            Ok(None) => return calls,
            // The outermost function has no frame pointer or no caller.
            Err(Error::CouldNotReadStack(..0x1000) | Error::ReturnAddressIsNull) => return calls,
            Err(_) => break,
        }
    }
    calls.cut = Some(match beyond {
        true => Reason::StackTooDeep,
        false => Reason::NotUnwound,
    });
    calls
}
