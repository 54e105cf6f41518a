//! Entries for fuzz targets (`fuzz/`): parsers of bytes from the network and from stores, which have no public interface.

use bytes::Bytes;

use crate::published::chunk::Chunk;

/// Reads replies of Redis, as a connection does; returns whether all bytes were whole replies.
pub fn resp(data: &[u8]) -> bool {
    crate::remote::fuzz_resp(&Bytes::copy_from_slice(data))
}

/// Reads a chunk of a published version; returns whether it is one, whose bytes are those that would be written.
///
/// # Panics
/// If a chunk that was read and written is another one.
pub fn chunk(data: &[u8]) -> bool {
    let Some(chunk) = Chunk::decode(data) else {
        return false;
    };
    let written = chunk.encode();
    assert_eq!(
        Chunk::decode(&written),
        Some(chunk),
        "it is written as it was read"
    );
    written == data
}
