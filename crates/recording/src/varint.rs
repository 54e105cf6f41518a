//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// The input ends too soon, or holds a number that no writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub &'static str);

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A difference with its sign in the lowest bit, so that small ones stay short both ways. It wraps, so
/// that any two numbers have one.
pub(crate) const fn difference(now: u64, before: u64) -> u64 {
    let signed = now.wrapping_sub(before) as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// The number that is so far from `before`.
pub(crate) const fn apply(difference: u64, before: u64) -> u64 {
    let signed = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    before.wrapping_add(signed as u64)
}

/// Bytes that are taken from the front.
#[derive(Debug)]
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..).step_by(7).take(10) {
            let (byte, rest) = self.0.split_first().ok_or(Malformed("a number is cut"))?;
            self.0 = rest;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number is too large"))
    }

    /// A number that may not be larger than this: how much of something is to come.
    pub(crate) fn at_most(&mut self, most: usize, what: &'static str) -> Result<usize, Malformed> {
        let number = self.number()?;
        match usize::try_from(number) {
            Ok(number) if number <= most => Ok(number),
            _ => Err(Malformed(what)),
        }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(Malformed("a text is cut"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            for number in &numbers {
                put(&mut bytes, *number);
            }
            let mut input = Input(&bytes);
            for number in &numbers {
                prop_assert_eq!(input.number(), Ok(*number), "as they were put");
            }
            prop_assert!(input.0.is_empty(), "and nothing is left");
        }

        #[test]
        fn differences_come_back(now: u64, before: u64) {
            prop_assert_eq!(apply(difference(now, before), before), now, "whichever is larger");
        }

        #[test]
        fn garbage_is_no_panic(bytes: Vec<u8>) {
            let mut input = Input(&bytes);
            while input.number().is_ok() {}
        }
    }

    #[test]
    fn small_differences_are_short_and_too_much_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, difference(100, 140));
        assert_eq!(bytes.len(), 1, "forty down is one byte");
        assert!(
            Input(&[0xff; 10]).number().is_err(),
            "more than 64 bits are no number"
        );
        assert!(
            Input(&[5]).at_most(4, "too many").is_err(),
            "nor is more than is allowed"
        );
    }
}
