//! An allocator in front of the C library's: every object begins and ends at a multiple of 128 bytes, so that no two
//! of them are in one cache line, nor in two that are fetched together.
//!
//! Preloaded into the program that `cpu sharing` looks at. build.rs compiles it on its own, without Rust's standard
//! library: it must not allocate by itself. Freeing stays the C library's, from which all memory here is.

#![no_std]
// Not part of the crate: it has no documentation that anybody reads.
#![allow(missing_docs)]

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Two lines of 64 bytes, which some CPUs fetch together, or one of 128.
const LINE: usize = 128;

/// The largest page that there is.
const PAGE: usize = 64 << 10;

/// From here on cleared memory is asked of the kernel: to clear it by hand would make pages exist that may never be
/// used.
const LARGE: usize = 4 * PAGE;

/// The file that tells where this was loaded: a `+` for each program, and a line with the microseconds of CPU time
/// that it took when it ends, with a `*` before them if memory was asked of this, and with two if that was often.
const PROOF: &[u8] = b"CACHEWISE_PADDED\0";

const WRITE_APPEND: c_int = 0o1 | 0o2000;
const EINVAL: c_int = 22;
const ENOMEM: c_int = 12;
const MADV_DONTNEED: c_int = 4;

/// Library of programs that run others with a heap of their own, and use this allocator for themselves only.
const MACHINE: &[u8] = b"/libjvm.so\0";

/// Less often than this a C library asks for itself, at the start and for each thread, also where the program has a heap
/// of its own.
const OFTEN: usize = 1000;

/// How often memory was asked of this, up to that: an allocator that is linked into a program comes before it.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Result of getrusage(2): two times in seconds and microseconds, and unused members, with room to spare.
#[repr(C)]
struct Usage {
    time: [c_long; 4],
    rest: [c_long; 28],
}

/// Object that dl_iterate_phdr(3) reports: its address, its name, and unused members.
#[repr(C)]
struct Object {
    address: usize,
    name: *const c_char,
}

type OfObject = unsafe extern "C" fn(*const Object, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(of_object: OfObject, given: *mut c_void) -> c_int;
    fn strstr(text: *const c_char, part: *const c_char) -> *const c_char;
    fn getrusage(who: c_int, usage: *mut Usage) -> c_int;
    fn memalign(alignment: usize, size: usize) -> *mut c_void;
    fn malloc_usable_size(memory: *mut c_void) -> usize;
    fn free(memory: *mut c_void);
    fn memset(memory: *mut c_void, byte: c_int, size: usize) -> *mut c_void;
    fn memcpy(to: *mut c_void, from: *const c_void, size: usize) -> *mut c_void;
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn write(file: c_int, bytes: *const c_void, size: usize) -> isize;
    fn close(file: c_int) -> c_int;
    fn madvise(memory: *mut c_void, size: usize, advice: c_int) -> c_int;
    fn abort() -> !;
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe { abort() }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static ENDED: extern "C" fn() = ended;

extern "C" fn loaded() {
    tell(b"+");
}

extern "C" fn ended() {
    let mut usage = Usage { time: [0; 4], rest: [0; 28] };
    if unsafe { getrusage(0, &raw mut usage) } != 0 {
        return;
    }
    let [user, user_micros, system, system_micros] = usage.time;
    let mut left = (user + system) * 1_000_000 + user_micros + system_micros;
    // From the last digit to the first, between the ends of lines.
    let mut text = [b'\n'; 24];
    let mut at = text.len() - 1;
    while left > 0 && at > 3 {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let has_own_heap = unsafe { dl_iterate_phdr(is_machine, null_mut()) } != 0;
    let asked = ASKED.load(Ordering::Relaxed);
    if asked > 0 && !has_own_heap {
        at -= 1;
        text[at] = b'*';
        if asked >= OFTEN {
            at -= 1;
            text[at] = b'*';
        }
    }
    tell(&text[at - 1..]);
}

unsafe extern "C" fn is_machine(object: *const Object, _: usize, _: *mut c_void) -> c_int {
    unsafe {
        let name = (*object).name;
        (!name.is_null() && !strstr(name, MACHINE.as_ptr().cast()).is_null()).into()
    }
}

fn tell(text: &[u8]) {
    unsafe {
        let path = getenv(PROOF.as_ptr().cast());
        if path.is_null() {
            return;
        }
        let file = open(path, WRITE_APPEND);
        if file >= 0 {
            write(file, text.as_ptr().cast(), text.len());
            close(file);
        }
    }
}

/// The size up to the next line; one that is too large stays so, and is refused below.
fn padded(size: usize) -> usize {
    match size.checked_next_multiple_of(LINE) {
        Some(0) => LINE,
        Some(size) => size,
        None => size,
    }
}

/// Memory that begins and ends at a line.
unsafe fn lines(alignment: usize, size: usize) -> *mut c_void {
    // Written no more than that: else it would be a line that goes to and fro itself.
    if ASKED.load(Ordering::Relaxed) < OFTEN {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
    unsafe { memalign(alignment, padded(size)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    unsafe { lines(LINE, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else {
        // Refused as the C library does, which sets errno.
        return unsafe { memalign(LINE, usize::MAX) };
    };
    let memory = unsafe { malloc(size) };
    if !memory.is_null() {
        unsafe { clear(memory, size) };
    }
    memory
}

/// Makes it all zeros. Pages inside are given back, and come again as zeros when they are touched.
unsafe fn clear(memory: *mut c_void, size: usize) {
    let start = memory.addr();
    let (first, last) = (start.next_multiple_of(PAGE), (start + size) / PAGE * PAGE);
    unsafe {
        let inside = memory.with_addr(first);
        // Locked memory cannot be released.
        if size < LARGE || madvise(inside, last - first, MADV_DONTNEED) != 0 {
            memset(memory, 0, size);
            return;
        }
        memset(memory, 0, first - start);
        memset(memory.with_addr(last), 0, start + size - last);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    if memory.is_null() {
        return unsafe { malloc(size) };
    }
    if size == 0 {
        unsafe { free(memory) };
        return null_mut();
    }
    let has = unsafe { malloc_usable_size(memory) };
    let fits = size <= has && memory.addr().is_multiple_of(LINE);
    // A block that shrinks a lot moves, which releases its unused memory.
    if fits && (has < LARGE || size >= has / 2) {
        return memory;
    }
    let moved = unsafe { malloc(size) };
    if moved.is_null() {
        return if fits { memory } else { moved };
    }
    unsafe {
        memcpy(moved, memory, if size < has { size } else { has });
        free(memory);
    }
    moved
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    unsafe { lines(if alignment < LINE { LINE } else { alignment }, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return EINVAL;
    }
    let memory = unsafe { aligned_alloc(alignment, size) };
    if memory.is_null() {
        return ENOMEM;
    }
    unsafe { *place = memory };
    0
}
