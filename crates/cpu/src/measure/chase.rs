//! Going from one address to the next, where each is known only when the one before has come: the time of a load.

use std::ptr::{NonNull, null_mut};
use std::time::Instant;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Error;

/// Loads between two checks of the count.
const UNROLLED: u64 = 16;

/// Private memory, in small pages unless huge ones are requested.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u8>,
    len: usize,
}

/// Page size of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// The machine's base pages, as most programs have.
    Small,
    /// Huge pages where the kernel has some free.
    Huge,
}

impl Arena {
    /// Maps this number of bytes. The kernel allocates them at the first write.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn new(len: usize, pages: PageKind) -> Result<Arena, Error> {
        let fail = |errno: rustix::io::Errno| Error::NoMemory {
            bytes: len as u64,
            source: errno.into(),
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, nothing of ours is there; it lives until `drop`.
        let start = unsafe { mmap_anonymous(null_mut(), len, protection, MapFlags::PRIVATE) };
        let start = start.map_err(fail)?;
        let advice = match pages {
            PageKind::Small => Advice::LinuxNoHugepage,
            PageKind::Huge => Advice::LinuxHugepage,
        };
        // A kernel without huge pages refuses either, and has small ones.
        // SAFETY: the mapping made above, all of it.
        let _ = unsafe { madvise(start, len, advice) };
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(fail(rustix::io::Errno::NOMEM));
        };
        Ok(Arena { start, len })
    }

    /// How many bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it begins.
    #[must_use]
    pub const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Links these offsets into a circle, in this order; what was linked before is no more.
    ///
    /// Writing goes the way that reading will, so that this is the warming up, too. Returns `None` if there is none,
    /// or one that is not inside.
    pub fn link(&mut self, offsets: impl IntoIterator<Item = usize>) -> Option<Circle<'_>> {
        let mut offsets = offsets.into_iter();
        let first = self.place(offsets.next()?)?;
        let (mut last, mut count) = (first, 1);
        for offset in offsets {
            let next = self.place(offset)?;
            // SAFETY: `place` has checked that both are aligned words inside the mapping, which only `self` has.
            unsafe { last.write(next.cast()) };
            last = next;
            count += 1;
        }
        // SAFETY: as above.
        unsafe { last.write(first.cast()) };
        Some(Circle {
            at: first.cast(),
            count,
            arena: std::marker::PhantomData,
        })
    }

    /// The word at an offset, if it is inside and aligned.
    fn place(&self, offset: usize) -> Option<*mut *mut u8> {
        let word = size_of::<*mut u8>();
        let is_inside = offset.is_multiple_of(word) && offset.checked_add(word)? <= self.len;
        // SAFETY: inside the mapping.
        is_inside.then(|| unsafe { self.start.as_ptr().add(offset) }.cast())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; no circle outlives it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Addresses in memory, each of which has the next.
#[derive(Debug)]
pub struct Circle<'a> {
    at: *mut u8,
    count: usize,
    arena: std::marker::PhantomData<&'a mut Arena>,
}

impl Circle<'_> {
    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Follows about this number of addresses; returns the nanoseconds per load.
    pub fn sample(&mut self, loads: u64) -> f64 {
        let rounds = loads.div_ceil(UNROLLED).max(1);
        let begin = Instant::now();
        self.at = follow(self.at, rounds);
        begin.elapsed().as_secs_f64() * 1e9 / (rounds * UNROLLED) as f64
    }
}

/// Follows 16 addresses this number of times. In assembly, because compilers keep the position in
/// memory or add instructions, which costs one cycle in four.
#[cfg(target_arch = "x86_64")]
fn follow(mut at: *mut u8, rounds: u64) -> *mut u8 {
    // SAFETY: every word reached is one of the circle, which was linked inside a living arena; nothing is written.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 16", "mov {at}, [{at}]", ".endr",
            "dec {rounds}",
            "jnz 2b",
            at = inout(reg) at,
            rounds = inout(reg) rounds => _,
            options(nostack, readonly),
        );
    }
    at
}

#[cfg(target_arch = "aarch64")]
fn follow(mut at: *mut u8, rounds: u64) -> *mut u8 {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 16", "ldr {at}, [{at}]", ".endr",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            at = inout(reg) at,
            rounds = inout(reg) rounds => _,
            options(nostack, readonly),
        );
    }
    at
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn follow(mut at: *mut u8, rounds: u64) -> *mut u8 {
    for _ in 0..rounds * UNROLLED {
        // SAFETY: as above.
        at = unsafe { at.cast::<*mut u8>().read_volatile() };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_comes_back_to_where_it_began() {
        let mut arena = Arena::new(1 << 16, PageKind::Small).unwrap();
        let offsets = (0..48).map(|line| (line * 7 % 48) * 64);
        let mut circle = arena.link(offsets).unwrap();
        let begin = circle.at;
        assert_eq!(circle.count(), 48, "each line once");
        let ns = circle.sample(16);
        assert!(ns > 0.0, "a load takes time");
        assert_ne!(circle.at, begin, "16 of 48 is not all the way");
        circle.sample(32);
        assert_eq!(circle.at, begin, "48 is");
    }

    #[test]
    fn offset_outside_the_arena_is_not_linked() {
        let mut arena = Arena::new(4096, PageKind::Huge).unwrap();
        assert!(arena.link([]).is_none(), "no offsets, no circle");
        for offset in [4096, 4089, 3, usize::MAX - 7] {
            assert!(
                arena.link([0, offset]).is_none(),
                "{offset} is not a word inside"
            );
        }
    }

    #[test]
    fn too_much_memory_is_an_error() {
        let error = Arena::new(1 << 60, PageKind::Small)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot allocate") && error.contains("EiB"),
            "how much: {error}"
        );
    }
}
