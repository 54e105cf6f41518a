//! Reading the format: a header, types as 32-bit words in the order of their ids, and strings, as the kernel's
//! Documentation/bpf/btf.rst has it.

use super::contents::Contents;

pub(super) const MAGIC: u16 = 0xEB9F;
const WORD: usize = 4;
/// name, info, and size or type
const HEAD: usize = 3 * WORD;

/// A kind of type, by its number in the format.
pub(super) mod kind {
    pub(in super::super) const INT: u32 = 1;
    pub(in super::super) const PTR: u32 = 2;
    pub(in super::super) const ARRAY: u32 = 3;
    pub(in super::super) const STRUCT: u32 = 4;
    pub(in super::super) const UNION: u32 = 5;
    pub(in super::super) const ENUM: u32 = 6;
    pub(in super::super) const FWD: u32 = 7;
    pub(in super::super) const TYPEDEF: u32 = 8;
    pub(in super::super) const VOLATILE: u32 = 9;
    pub(in super::super) const CONST: u32 = 10;
    pub(in super::super) const RESTRICT: u32 = 11;
    pub(in super::super) const FUNC: u32 = 12;
    pub(in super::super) const FUNC_PROTO: u32 = 13;
    pub(in super::super) const VAR: u32 = 14;
    pub(in super::super) const DATASEC: u32 = 15;
    pub(in super::super) const FLOAT: u32 = 16;
    pub(in super::super) const DECL_TAG: u32 = 17;
    pub(in super::super) const TYPE_TAG: u32 = 18;
    pub(in super::super) const ENUM64: u32 = 19;
}

/// One description: the words of its types and its strings.
struct Blob<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Blob<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let word = |at: usize| word_at(bytes, at).ok_or("its header is cut off");
        let magic = bytes.get(..2).ok_or("it is empty")?;
        if magic != MAGIC.to_ne_bytes() {
            return Err("it does not begin as BTF does");
        }
        let header = word(4)?;
        let part = |offset: u32, length: u32| {
            let start = header.checked_add(offset)? as usize;
            bytes.get(start..start.checked_add(length as usize)?)
        };
        Ok(Self {
            types: part(word(8)?, word(12)?).ok_or("its types are cut off")?,
            strings: part(word(16)?, word(20)?).ok_or("its strings are cut off")?,
        })
    }
}

/// The names in a description, each ended by NUL; none where it cannot be read.
pub(super) fn strings(bytes: &[u8]) -> &[u8] {
    Blob::parse(bytes).map_or(&[], |blob| blob.strings)
}

/// Called some 400,000 times by each start. By a pattern, and not by `try_into`: where nothing is optimised, each call in it
/// is a call.
fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..) {
        Some(&[a, b, c, d, ..]) => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Number of bytes after the head of a type of this kind with `count` members.
fn tail(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        kind::INT | kind::VAR | kind::DECL_TAG => WORD,
        kind::ARRAY => 3 * WORD,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 3 * WORD * count,
        kind::ENUM | kind::FUNC_PROTO => 2 * WORD * count,
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT => 0,
        kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

/// Number of bytes of the type at an offset.
fn length_at(types: &[u8], start: usize) -> Option<usize> {
    let info = word_at(types, start + WORD)?;
    Some(HEAD + tail(info >> 24 & 0x1f, info as usize & 0xffff)?)
}

/// A name that a blob uses.
pub(super) struct Name<'n, 'a> {
    blobs: &'n [Blob<'a>],
    pub(super) blob: usize,
    /// Place of its string among those of its blob.
    pub(super) offset: u32,
}

impl<'a> Name<'_, 'a> {
    pub(super) fn text(&self) -> &'a [u8] {
        string_in(self.blobs, self.blob, self.offset)
    }
}

/// The string that a blob has at `offset`: those of the kernel proper come first.
fn string_in<'a>(blobs: &[Blob<'a>], blob: usize, offset: u32) -> &'a [u8] {
    let shared = blobs[0].strings.len();
    let offset = offset as usize;
    let (strings, offset) = if offset < shared {
        (blobs[0].strings, offset)
    } else {
        (blobs[blob].strings, offset - shared)
    };
    let rest = strings.get(offset..).unwrap_or_default();
    let end = memchr::memchr(0, rest).unwrap_or(rest.len());
    &rest[..end]
}

/// The offset of one type in each run of this many is kept. The others are found from there: few of 126,000 are looked up.
const STRIDE: usize = 16;

/// All types of several descriptions, each of which continues the first.
pub(super) struct Types<'a> {
    blobs: Vec<Blob<'a>>,
    /// By blob: the number of its types, and the offset of each [`STRIDE`]th, in the order of their ids.
    offsets: Vec<(usize, Vec<u32>)>,
    /// Wanted types in order: blob and index in it.
    wanted: Vec<(usize, u32)>,
}

/// A type of one of the blobs.
#[derive(Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) blob: usize,
    pub(super) words: &'a [u8],
}

impl<'a> Type<'a> {
    pub(super) fn word(self, index: usize) -> u32 {
        word_at(self.words, index * WORD).unwrap_or(0)
    }
    pub(super) fn name(self) -> u32 {
        self.word(0)
    }
    pub(super) fn kind(self) -> u32 {
        self.word(1) >> 24 & 0x1f
    }
    pub(super) fn count(self) -> usize {
        self.word(1) as usize & 0xffff
    }
}

impl<'a> Types<'a> {
    /// Reads them once, and notes those that `is_wanted`, by kind and name.
    pub(super) fn new(
        blobs: &'a [Contents],
        is_wanted: impl Fn(u32, Name<'_, 'a>) -> bool,
    ) -> Result<Self, &'static str> {
        let blobs = blobs
            .iter()
            .map(|bytes| Blob::parse(bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let mut all = Vec::with_capacity(blobs.len());
        let mut wanted = Vec::new();
        for (number, blob) in blobs.iter().enumerate() {
            let named = |offset| Name {
                blobs: &blobs,
                blob: number,
                offset,
            };
            let mut offsets = Vec::with_capacity(blob.types.len() / 24 / STRIDE);
            let (mut at, mut count) = (0, 0);
            while at < blob.types.len() {
                let cut_off = "its last type is cut off";
                let name = word_at(blob.types, at).ok_or(cut_off)?;
                let info = word_at(blob.types, at + WORD).ok_or(cut_off)?;
                let kind = info >> 24 & 0x1f;
                let length = tail(kind, info as usize & 0xffff)
                    .ok_or("it has a kind of type that is newer than this program")?;
                if is_wanted(kind, named(name)) {
                    wanted.push((number, count as u32));
                }
                if count % STRIDE == 0 {
                    offsets.push(at as u32);
                }
                count += 1;
                at += HEAD + length;
            }
            if at > blob.types.len() {
                return Err("its last type is cut off");
            }
            all.push((count, offsets));
        }
        Ok(Self {
            blobs,
            offsets: all,
            wanted,
        })
    }

    /// Blob and index of the wanted types, in order; none the next time.
    pub(super) fn take_wanted(&mut self) -> Vec<(usize, u32)> {
        std::mem::take(&mut self.wanted)
    }

    /// Number of types of a blob.
    pub(super) fn len(&self, blob: usize) -> usize {
        self.offsets[blob].0
    }

    pub(super) fn at(&self, blob: usize, index: usize) -> Option<Type<'a>> {
        let (count, offsets) = self.offsets.get(blob)?;
        if index >= *count {
            return None;
        }
        let types = self.blobs[blob].types;
        let mut start = *offsets.get(index / STRIDE)? as usize;
        for _ in 0..index % STRIDE {
            start += length_at(types, start)?;
        }
        let length = length_at(types, start)?;
        Some(Type {
            blob,
            words: types.get(start..start + length)?,
        })
    }

    /// The type that `blob` calls `id`: ids up to the kernel proper's last one are the kernel's.
    pub(super) fn get(&self, blob: usize, id: u32) -> Option<Type<'a>> {
        let index = (id as usize).checked_sub(1)?;
        let shared = self.len(0);
        if index < shared {
            self.at(0, index)
        } else {
            self.at(blob, if blob == 0 { index } else { index - shared })
        }
    }

    /// The string that `blob` has at `offset`.
    pub(super) fn string(&self, blob: usize, offset: u32) -> &'a [u8] {
        string_in(&self.blobs, blob, offset)
    }
}
