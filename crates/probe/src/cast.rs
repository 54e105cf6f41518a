//! Changes to the programs' object before libbpf reads it: calls of the kernel's function `bpf_rdonly_cast`, and the lines
//! of the source.

use std::sync::OnceLock;

use crate::loading::is_logged;
use crate::skeleton::{LEDGER, LEDGER_COUNTS_ONLY};

/// A call of the helper `RDONLY_CAST`, as in maps.h: code, registers, offset, number.
const MARKED: [u8; 8] = [0x85, 0, 0, 0, 0, 0, 0xa5, 0x7c];

/// The same instruction for a function of the kernel (`BPF_PSEUDO_KFUNC_CALL`), without its number.
const CALL: [u8; 4] = [0x85, 0x20, 0, 0];

/// The object of the programs, in which casts are calls of the kernel's function with this number. With `counts_only` it is
/// the one without stacks and accesses.
pub(crate) fn ledger_with_cast(number: u32, counts_only: bool) -> &'static [u8] {
    // The number holds as long as the kernel runs.
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    static COUNTS_ONLY: OnceLock<Vec<u8>> = OnceLock::new();
    if counts_only {
        COUNTS_ONLY.get_or_init(|| with_calls(LEDGER_COUNTS_ONLY, number))
    } else {
        WHOLE.get_or_init(|| with_calls(LEDGER, number))
    }
}

fn with_calls(object: &[u8], number: u32) -> Vec<u8> {
    let mut object = object.to_vec();
    // Instructions are aligned to their size.
    for place in object.chunks_exact_mut(MARKED.len()) {
        if place == MARKED {
            place[..CALL.len()].copy_from_slice(&CALL);
            place[CALL.len()..].copy_from_slice(&number.to_ne_bytes());
        }
    }
    if !is_logged() {
        leave_out_lines(&mut object);
    }
    object
}

/// The head of the section `.BTF.ext`: its magic number, version, flags, and length.
const EXTENSION: [u8; 8] = [0x9f, 0xeb, 1, 0, 32, 0, 0, 0];
/// The number of bytes of lines, behind offsets and lengths of the parts in front of it.
const LINES_LENGTH: usize = EXTENSION.len() + 3 * 4;

/// Leaves out which instruction is of which line of the source. Only the verifier's log shows it, and the verifier moves it
/// with each instruction that it adds or removes.
fn leave_out_lines(object: &mut [u8]) {
    let Some(head) = memchr::memmem::find(object, &EXTENSION) else {
        return;
    };
    let length = head + LINES_LENGTH;
    if let Some(length) = object.get_mut(length..length + 4) {
        length.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(object: &[u8], instruction: [u8; 8]) -> usize {
        object
            .chunks_exact(8)
            .filter(|place| *place == instruction)
            .count()
    }

    #[test]
    fn each_marked_call_becomes_one_of_the_function() {
        for ledger in [LEDGER, LEDGER_COUNTS_ONLY] {
            let marked = count(ledger, MARKED);
            assert!(marked > 100, "{marked} calls: maps.h uses another number");
            let anywhere = memchr::memmem::find_iter(ledger, &MARKED).count();
            assert_eq!(anywhere, marked, "each is aligned");

            let object = with_calls(ledger, 0x0102_0304);
            assert_eq!(object.len(), ledger.len());
            assert_eq!(count(&object, MARKED), 0);
            assert_eq!(count(&object, [0x85, 0x20, 0, 0, 4, 3, 2, 1]), marked);
        }
    }

    #[test]
    fn an_object_has_one_table_of_lines() {
        for ledger in [LEDGER, LEDGER_COUNTS_ONLY] {
            let heads: Vec<usize> = memchr::memmem::find_iter(ledger, &EXTENSION).collect();
            let [head] = heads[..] else {
                panic!("the head of .BTF.ext is at {heads:?}");
            };
            let lines = &ledger[head + LINES_LENGTH..][..4];
            assert_ne!(lines, [0; 4], "clang wrote lines");
            let mut object = ledger.to_vec();
            leave_out_lines(&mut object);
            let changed = ledger.iter().zip(&object).filter(|(a, b)| a != b).count();
            assert!((1..=4).contains(&changed), "{changed} bytes changed");
            assert_eq!(&object[head + LINES_LENGTH..][..4], [0; 4]);
        }
    }
}
