//! Published versions: trees that never change, under a signature.
//!
//! A version is a Merkle tree. Files are cut into blocks of a fixed size; a directory is a list of objects in chunks, with
//! the hashes of the blocks of its files and of the chunks of its directories. Blocks and chunks lie in packs, files of
//! the store of some MiB; a reference is a hash and a place in a pack. A record names the topmost chunk and is signed.
//! A block that was verified from the record down is the published one, wherever it
//! comes from.
//!
//! It is *not* a backup: access control lists are not stored, and a store has no copy of itself.
//!
//! # Layout of a store
//! - `names/NAME/versions/VERSION`, `names/NAME/latest`: records
//! - `packs/XX/ID`: blocks and chunks; `lists/HASH`: the packs of a version; `sparse`: packs that are used in part
//! - `held/`: versions that publishers build on; `names/NAME/serials/`: serials taken, in a bucket
//! - `tmp/`: files that are being written; `lock`: held by `publish` and `gc`; both in a directory only
//!
//! # Layout of the module
//! - `address`: hashes and places; `wire`, `leaf`, `chunk`, `attributes`: chunks as bytes; `tree`: directories of chunks
//! - `keys`, `record`: signatures; `state`: what this machine has seen
//! - `store`: a directory (`folder`) or a prefix of a bucket (`bucket`), as a `place`
//! - `claims`, `pack`, `source` (`local`, `remote`), `walk`, `index`, `publish`: publishing; `gc`, `diff`
//! - `feed`, `packs`, `recent`, `reader`: reading, as an origin

pub(crate) mod address;
pub(crate) mod attributes;
mod bucket;
pub(crate) mod chunk;
mod claims;
mod diff;
mod error;
mod feed;
mod folder;
mod gc;
mod index;
mod keys;
pub(crate) mod leaf;
mod local;
pub(crate) mod meta;
mod pack;
mod packs;
mod place;
mod publish;
mod reader;
mod recent;
mod record;
mod remote;
mod source;
mod stat;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod tree;
mod walk;
mod wire;

pub use address::{Content, Hash, PackId, Ref};
pub use diff::{Change, Difference, compare, record_of};
pub use error::PublishError;
pub use feed::Feed;
pub use gc::{CollectOptions, Collected, collect};
pub use keys::{PublicKey, SecretKey};
pub use publish::{Publication, PublishOptions, publish};
pub use reader::Published;
pub use record::{LATEST, Record, VersionName};
pub use state::{Acceptance, state_directory};
pub use store::Store;
pub use walk::Walked;
