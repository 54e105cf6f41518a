//! The slots of a Redis Cluster: which of 16,384 a key is in.

/// How many slots there are.
pub(super) const SLOTS: u16 = 16_384;

/// Returns the slot of a key without braces.
///
/// The specification of Redis Cluster has it: CRC-16/XMODEM, modulo 16,384.
pub(crate) fn of_key(key: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for byte in key {
        let at = usize::from((crc >> 8) as u8 ^ byte);
        crc = (crc << 8) ^ TABLE[at];
    }
    crc % SLOTS
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        // Lossless: below 256.
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x1021
            };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The check value of CRC-16/XMODEM, which the specification gives too.
        assert_eq!(of_key(b"123456789"), 0x31C3 % SLOTS);
        // As `redis-cli cluster keyslot foo` says.
        assert_eq!(of_key(b"foo"), 12_182);
    }
}
