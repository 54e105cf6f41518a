//! From registers and a copy of the stack to the addresses of calls.

use cachewise_model::Reason;
use cachewise_probe::StackSample;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{Error, FrameAddress, Unwinder};

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
    let mut registers = UnwindRegsX86_64::new(sample.ip, sample.sp, sample.bp);
    let mut calls = Calls::default();
    let mut at = FrameAddress::InstructionPointer(sample.ip);
    loop {
        let Some(address) = space.address(at.address_for_lookup()) else {
            calls.cut = Some(Reason::NotUnwound);
            calls.left_code = true;
            return calls;
        };
        if calls.addresses.len() == MAX_CALLS {
            calls.cut = Some(Reason::StackTooDeep);
            return calls;
        }
        calls.addresses.push(address);
        let before = registers;
        let is_code = |caller: u64| space.address(caller - 1).is_some();
        let next = space
            .unwinder
            .unwind_frame(at, &mut registers, cache, &mut read_stack);
        let leads_on = matches!(next, Ok(Some(caller)) if caller > 0 && is_code(caller));
        // Without a frame pointer to follow, CPython's trampoline for a script's function can be: it calls the interpreter
        // with one word on its stack.
        let trampoline = match address {
            Address::Bare(..) if !leads_on => read_stack(before.sp() + 8).ok(),
            _ => None,
        };
        let trampoline = trampoline.filter(|caller| {
            *caller > 0 && matches!(space.address(caller - 1), Some(Address::InFile(..)))
        });
        let next = match trampoline {
            Some(caller) => {
                registers = UnwindRegsX86_64::new(caller, before.sp() + 16, before.bp());
                Ok(Some(caller))
            }
            None => next,
        };
        match next.map(|caller| caller.map(FrameAddress::from_return_address)) {
            Ok(Some(Some(caller))) => at = caller,
            // The outermost function has no frame pointer or no caller.
            Ok(None | Some(None))
            | Err(Error::CouldNotReadStack(..0x1000) | Error::ReturnAddressIsNull) => return calls,
            Err(_) => break,
        }
    }
    calls.cut = Some(match beyond {
        true => Reason::StackTooDeep,
        false => Reason::NotUnwound,
    });
    calls
}
