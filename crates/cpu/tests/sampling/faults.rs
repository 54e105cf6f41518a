//! A program whose page faults are known: how many, and on which line.

use std::io::{Read, Write};
use std::process::Command;

const PAGE: usize = 4096;

unsafe extern "C" {
    fn mmap(at: *mut u8, len: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn madvise(at: *mut u8, len: usize, advice: i32) -> i32;
}

#[cfg(in_library)]
#[link(name = "touching")]
unsafe extern "C" {
    fn touch_in_library(at: *mut u8, len: usize);
}

/// Untouched memory in small pages.
fn fresh(pages: usize, protection: i32) -> &'static mut [u8] {
    let at = unsafe { mmap(std::ptr::null_mut(), pages * PAGE, protection, 0x22, -1, 0) };
    assert!(!at.is_null() && at as isize != -1, "there is memory");
    unsafe { madvise(at, pages * PAGE, 15) };
    unsafe { std::slice::from_raw_parts_mut(at, pages * PAGE) }
}

#[inline(never)]
fn touch(memory: &mut [u8]) {
    memory.iter_mut().step_by(PAGE).for_each(|byte| {
        *byte = 1; // the line
    });
    std::hint::black_box(memory);
}

#[inline(never)]
fn touch_elsewhere(memory: &mut [u8]) {
    for page in memory.chunks_exact_mut(PAGE) {
        page[0] = 2; // the other line
    }
    std::hint::black_box(memory);
}

/// Code that is in no file: writes to pages at the first argument, as many as the second one says.
#[cfg(target_arch = "x86_64")]
fn touch_by_new_code(memory: &mut [u8]) {
    let code = [
        0xc6, 0x07, 0x01, 0x48, 0x81, 0xc7, 0, 0x10, 0, 0, 0x48, 0xff, 0xce, 0x75, 0xf1, 0xc3u8,
    ];
    let place = fresh(1, 7);
    place[..code.len()].copy_from_slice(&code);
    let function: extern "C" fn(*mut u8, usize) = unsafe { std::mem::transmute(place.as_ptr()) };
    function(memory.as_mut_ptr(), memory.len() / PAGE);
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let pages: usize = arguments[2].parse().unwrap();
    let own = || Command::new(std::env::current_exe().unwrap());
    match arguments[1].as_str() {
        "touch" => touch(fresh(pages, 3)),
        "both" => {
            touch(fresh(pages, 3));
            touch_elsewhere(fresh(3 * pages, 3));
        }
        "thread" => std::thread::spawn(move || touch(fresh(pages, 3))).join().unwrap(),
        "children" => {
            for _ in 0..3 {
                assert!(own().args(["touch", &arguments[2]]).status().unwrap().success());
            }
        }
        #[cfg(target_arch = "x86_64")]
        "code" => touch_by_new_code(fresh(pages, 3)),
        #[cfg(in_library)]
        "library" => {
            let memory = fresh(pages, 3);
            unsafe { touch_in_library(memory.as_mut_ptr(), memory.len()) }
        }
        // Each ends at once.
        "many" => {
            for _ in 0..pages {
                assert!(own().args(["nothing", "0"]).status().unwrap().success());
            }
        }
        "nothing" => {}
        "forever" => loop {
            touch(fresh(1, 3));
        },
        // Touches memory after a line on standard input.
        "wait" => {
            println!("ready");
            std::io::stdout().flush().unwrap();
            let _ = std::io::stdin().read(&mut [0]);
            touch(fresh(pages, 3));
        }
        other => panic!("{other}?"),
    }
}
