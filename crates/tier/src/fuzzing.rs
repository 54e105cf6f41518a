//! Entries for fuzz targets (`fuzz/`): parsers of bytes from the network, which have no public interface.

use bytes::Bytes;

/// Reads replies of Redis, as a connection does; returns whether all bytes were whole replies.
pub fn resp(data: &[u8]) -> bool {
    crate::remote::fuzz_resp(&Bytes::copy_from_slice(data))
}
