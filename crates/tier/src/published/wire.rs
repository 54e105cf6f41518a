//! Numbers and byte strings of chunks: LEB128, and lengths before bytes.

/// Appends a number, seven bits a byte.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a number that may be below 0.
pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Appends bytes with their length before them.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Lossless: no slice is longer.
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes values from the front of some bytes. `None` where they are cut or no such value.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_are_read_as_they_were_written(number: u64, signed: i64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put(&mut out, number);
            put_signed(&mut out, signed);
            put_bytes(&mut out, &bytes);
            let mut reader = Reader(&out);
            prop_assert_eq!(reader.number(), Some(number));
            prop_assert_eq!(reader.signed(), Some(signed));
            prop_assert_eq!(reader.bytes(), Some(bytes.as_slice()));
            prop_assert!(reader.0.is_empty());
        }

        #[test]
        fn cut_values_are_none(number: u64, cut: prop::sample::Index) {
            let mut out = Vec::new();
            put(&mut out, number);
            let kept = cut.index(out.len());
            prop_assert_eq!(Reader(&out[..kept]).number(), None);
        }
    }
}
