//! [`BlockForm`]: the form of blocks in an engine, plain or sealed.
//!
//! A sealed block is `cws1`, a random nonce of 24 bytes, the encrypted bytes, and a tag of 16 bytes. The block's own key
//! is a keyed hash (BLAKE3) of the nonce and the block's identity; AES-256-GCM (ring) encrypts under it, with the identity
//! as associated data. As each key encrypts once, GCM's short nonce is constant.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroize;

use crate::block::{Block, Corrupt, LONGEST_ENVELOPE, StoredBlock};
use crate::engine_key::EngineKey;
use crate::remote::Buffers;
use crate::{BlockKey, Settings};

const MAGIC: &[u8; 4] = b"cws1";

/// Length of the random nonce in bytes.
const RANDOM: usize = 24;

/// Bytes before the encrypted ones.
const BEFORE: usize = MAGIC.len() + RANDOM;

/// Length of the tag in bytes.
const TAG: usize = 16;

/// Bytes that sealing adds to a block.
const OVERHEAD: usize = BEFORE + TAG;

const _: () = assert!(
    OVERHEAD <= LONGEST_ENVELOPE,
    "connections take a sealed block"
);

/// The form of blocks in an engine.
#[derive(Clone, Debug)]
pub(crate) enum BlockForm {
    /// Plain bytes with a checksum, under the key of the block.
    Plain,
    /// Encrypted and authenticated bytes, under a keyed hash of the key.
    Sealed(Sealer),
}

/// Seals and opens blocks.
#[derive(Clone, Debug)]
pub(crate) struct Sealer {
    key: EngineKey,
    random: SystemRandom,
    buffers: Arc<Buffers>,
    /// Length from which a block keeps a buffer of its own.
    long: usize,
}

impl BlockForm {
    /// Returns the form that settings require. Opened blocks return their memory to the buffers, from which connections
    /// take it.
    pub(crate) fn new(settings: &Settings, buffers: Arc<Buffers>) -> Self {
        let block = usize::try_from(settings.block.0).unwrap_or(usize::MAX);
        match &settings.engine_key {
            None => Self::Plain,
            Some(key) => Self::Sealed(Sealer {
                key: key.clone(),
                random: SystemRandom::new(),
                buffers,
                long: block / 2,
            }),
        }
    }

    /// Returns the name of a block in the engine. The name of a sealed block reveals nothing without the key.
    pub(crate) fn name(&self, key: &BlockKey) -> BlockKey {
        match self {
            Self::Plain => *key,
            Self::Sealed(sealer) => sealer.name(key),
        }
    }

    /// Returns what the engine stores; `None` if the system has no random numbers.
    pub(crate) fn store(&self, key: &BlockKey, block: &Block) -> Option<StoredBlock> {
        match self {
            Self::Plain => Some(block.stored()),
            Self::Sealed(sealer) => sealer.seal(key, block.bytes()),
        }
    }

    /// Returns the block in what an engine stored under its name, after checking it.
    pub(crate) fn open(&self, key: &BlockKey, stored: Bytes) -> Result<Block, Corrupt> {
        match self {
            Self::Plain => Block::open(key, &stored),
            Self::Sealed(sealer) => Ok(Block::authentic(key, sealer.open(key, stored)?)),
        }
    }
}

impl Sealer {
    fn name(&self, key: &BlockKey) -> BlockKey {
        let hash = blake3::keyed_hash(self.key.names(), key.as_bytes());
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(hash.as_bytes()) {
            *to = *from;
        }
        BlockKey::from_bytes(name)
    }

    /// Returns the cipher of one block, for one nonce.
    fn cipher(&self, key: &BlockKey, random: &[u8]) -> Option<LessSafeKey> {
        let mut hasher = blake3::Hasher::new_keyed(self.key.blocks());
        hasher.update(random).update(key.as_bytes());
        let mut secret = *hasher.finalize().as_bytes();
        let cipher = UnboundKey::new(&AES_256_GCM, &secret);
        secret.zeroize();
        cipher.ok().map(LessSafeKey::new)
    }

    fn seal(&self, key: &BlockKey, bytes: &Bytes) -> Option<StoredBlock> {
        let mut head = [0; BEFORE];
        let (magic, random) = head.split_at_mut(MAGIC.len());
        magic.copy_from_slice(MAGIC);
        self.random.fill(random).ok()?;
        let cipher = self.cipher(key, random)?;
        let mut body = BytesMut::with_capacity(bytes.len().saturating_add(TAG));
        body.extend_from_slice(bytes);
        let tag = cipher.seal_in_place_separate_tag(constant(), identity(key), &mut body);
        body.extend_from_slice(tag.ok()?.as_ref());
        Some(StoredBlock::new(&head, body.freeze()))
    }

    fn open(&self, key: &BlockKey, stored: Bytes) -> Result<Bytes, Corrupt> {
        // In place where nothing else has the bytes.
        let mut buffer = stored.try_into_mut().unwrap_or_else(BytesMut::from);
        let (head, body) = buffer.split_at_mut_checked(BEFORE).ok_or(Corrupt)?;
        let random = head.strip_prefix(MAGIC).ok_or(Corrupt)?;
        let cipher = self.cipher(key, random).ok_or(Corrupt)?;
        let opened = cipher.open_in_place(constant(), identity(key), body);
        let len = opened.map(|bytes| bytes.len()).map_err(|_| Corrupt)?;
        buffer.advance(BEFORE);
        buffer.truncate(len);
        Ok(match len < self.long {
            true => buffer.freeze(),
            false => self.buffers.lend(buffer),
        })
    }
}

/// Returns the nonce of GCM, which is constant because each key encrypts once.
fn constant() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Returns the associated data: the identity of the block.
fn identity(key: &BlockKey) -> Aad<[u8; 16]> {
    Aad::from(*key.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(secret: u8) -> BlockForm {
        let mut key = [secret; 32];
        key[0] = 0;
        let settings = Settings {
            engine_key: Some(EngineKey::new(&key)),
            ..Settings::default()
        };
        BlockForm::new(&settings, Buffers::for_blocks(settings.block.0))
    }

    fn stored(form: &BlockForm, key: &BlockKey, bytes: &[u8]) -> Vec<u8> {
        let block = Block::seal(key, Bytes::copy_from_slice(bytes));
        let stored = form.store(key, &block).expect("there are random numbers");
        assert_eq!(stored.total_len(), bytes.len() + OVERHEAD);
        [stored.head().as_ref(), stored.body()].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_flipped_bit_anywhere_is_noticed(
            bytes in prop::collection::vec(any::<u8>(), 0..600), key: [u8; 16], at: prop::sample::Index, bit in 0..8
        ) {
            let (form, key) = (form(1), BlockKey::from_bytes(key));
            let mut kept = stored(&form, &key, &bytes);
            let opened = form.open(&key, Bytes::from(kept.clone())).expect("it is as it was sealed");
            prop_assert_eq!(opened.bytes().as_ref(), bytes.as_slice());
            let at = at.index(kept.len());
            kept[at] ^= 1_u8 << bit;
            prop_assert_eq!(form.open(&key, Bytes::from(kept)), Err(Corrupt));
        }

        #[test]
        fn cut_and_extended_blocks_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), cut: prop::sample::Index) {
            let (form, key) = (form(1), BlockKey::from_bytes([7; 16]));
            let mut kept = stored(&form, &key, &bytes);
            let cut = cut.index(kept.len());
            prop_assert_eq!(form.open(&key, Bytes::from(kept[..cut].to_vec())), Err(Corrupt));
            kept.push(0);
            prop_assert_eq!(form.open(&key, Bytes::from(kept)), Err(Corrupt));
        }
    }

    #[test]
    fn block_of_another_key_tenant_or_form_is_refused() {
        let (mine, theirs) = (form(1), form(2));
        let keys = [1, 2].map(|byte| BlockKey::from_bytes([byte; 16]));
        let kept = Bytes::from(stored(&mine, &keys[0], b"bytes"));
        assert!(mine.open(&keys[0], kept.clone()).is_ok());
        assert_eq!(
            mine.open(&keys[1], kept.clone()),
            Err(Corrupt),
            "another block"
        );
        assert_eq!(
            theirs.open(&keys[0], kept.clone()),
            Err(Corrupt),
            "another tenant"
        );
        assert_eq!(
            BlockForm::Plain.open(&keys[0], kept.clone()),
            Err(Corrupt),
            "a client without a key gets no encrypted bytes"
        );
        let plain = Bytes::from(stored_plain(&keys[0]));
        assert_eq!(
            mine.open(&keys[0], plain),
            Err(Corrupt),
            "a client with a key takes no plain bytes"
        );
    }

    fn stored_plain(key: &BlockKey) -> Vec<u8> {
        let block = Block::seal(key, Bytes::from_static(b"bytes"));
        let stored = block.stored();
        [stored.head().as_ref(), stored.body()].concat()
    }

    #[test]
    fn names_and_bytes_differ_by_tenant_and_by_write() {
        let (mine, theirs) = (form(1), form(2));
        let key = BlockKey::from_bytes([1; 16]);
        let names = [&BlockForm::Plain, &mine, &theirs].map(|form| form.name(&key));
        assert_eq!(names[0], key, "plain blocks keep their names");
        assert!(names[1] != names[0] && names[2] != names[0] && names[1] != names[2]);
        assert_eq!(mine.name(&key), names[1], "a name is stable");
        assert_ne!(
            stored(&mine, &key, b"bytes"),
            stored(&mine, &key, b"bytes"),
            "equal blocks do not look equal"
        );
    }

    /// Blocks in engines stay readable: with another form, change the magic bytes.
    #[test]
    fn form_of_sealed_blocks_is_stable() {
        let (form, key) = (form(1), BlockKey::from_bytes([1; 16]));
        assert_eq!(
            form.name(&key).to_string(),
            "9349d6453347a4d2de40da08b07a7cbf"
        );
        let kept = b"cws1\xeb\xdafR(\xeaY>\xc1o\xcfk\xdd\xf0\x0e\xb2\xf7\x1e\xcd\x91\xc2^\x9f\xad2~\xad\xc8\xe8\xfd\x94\x0c>\xbd%DC\x9e\"\xeb\x0f\x99lkx";
        let opened = form.open(&key, Bytes::from_static(kept));
        assert_eq!(opened.expect("it was sealed so").bytes().as_ref(), b"bytes");
    }
}
