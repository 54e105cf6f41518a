//! Reads one page, and sixteen, at known functions and lines: `reads FILE`.

use std::fs::File;
use std::os::unix::fs::FileExt;

const PAGE: usize = 4096;
const STRIDE: u64 = 64 * PAGE as u64;

#[inline(never)]
fn load_index(file: &File, place: u64) -> usize {
    let mut buffer = [0; PAGE];
    file.read_at(&mut buffer, place).map_or(0, |bytes| bytes + 1) // index
}

#[inline(never)]
fn load_table(file: &File, place: u64) -> usize {
    let mut buffer = vec![0; 16 * PAGE];
    file.read_at(&mut buffer, place).map_or(0, |bytes| bytes + 1) // table
}

fn main() {
    let path = std::env::args_os().nth(1).expect("a file");
    let file = File::open(path).expect("it can be opened");
    let mut sum = 0;
    for place in 0..64 {
        sum += load_index(&file, place * STRIDE);
    }
    for place in 64..80 {
        sum += load_table(&file, place * STRIDE);
    }
    // Mappings are read while a process lives: on a busy machine that takes a while.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(sum, 64 * (PAGE + 1) + 16 * (16 * PAGE + 1), "all of it");
}
