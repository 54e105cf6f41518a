//! `shield`: reads that wait for a page in their middle.

use std::fs;

use crate::shield::{MIB, Shielded, adds_up, left};
use crate::shield_inputs::has;
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![needs_root(
        "pages_before_the_one_that_is_waited_for_are_dropped",
        before_one_that_is_waited_for,
    )]
}

/// Reads eight pages, of which four are up to date, and the device still has the fifth: exit code 3 if it came too early.
/// Then waits until the four are dropped: exit code 4 if they stay.
const OVERTAKES: &str = "
import ctypes, mmap, os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
address = libc.mmap(None, 8 * page, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
def up_to_date():
    pages = ctypes.create_string_buffer(8)
    assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(8 * page), pages) == 0
    return [byte & 1 for byte in pages.raw]
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
os.posix_fadvise(file, 0, 4 * page, os.POSIX_FADV_WILLNEED)
def wait(pages):
    for _ in range(600):
        if sum(up_to_date()[:4]) == pages: return
        time.sleep(0.1)
    sys.exit(4)
wait(4)
os.posix_fadvise(file, 4 * page, page, os.POSIX_FADV_WILLNEED)
if up_to_date() != [1] * 4 + [0] * 4: sys.exit(3)
os.pread(file, 8 * page, 0)
wait(0)
";

/// The kernel tells of no use of the pages that it copies before it waits for another one.
fn before_one_that_is_waited_for() {
    if !has("python3", "pages before one that is waited for") {
        return;
    }
    let shielded = Shielded::new();
    let Some(disk) = Mounted::ext4(&shielded.scratch, 64 * MIB, &[]) else {
        return;
    };
    let file = disk.path("file");
    fs::write(&file, vec![7; 8 * page_size() as usize]).expect("there is room");
    let result = undisturbed(|| {
        evict(&file);
        let Some(_slow) = disk.slow_reads_down(4 * page_size()) else {
            return Some(None);
        };
        let mut command = shielded.command(&["--", "python3", "-c", OVERTAKES]);
        let ended = Ended::of(command.arg(&file));
        (ended.code() != 3).then(|| {
            ended.expect(0, "they are dropped while it runs");
            Some(shielded.read())
        })
    });
    let Some(result) = result else {
        return println!("skipped: shield: pages before one that is waited for: no throttle");
    };
    adds_up(&result);
    assert_eq!(left(&file, &result), 0, "{result:#}");
}
