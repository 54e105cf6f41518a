//! The same, in a library.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn touch_in_library(at: *mut u8, len: usize) {
    let memory = unsafe { std::slice::from_raw_parts_mut(at, len) };
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 3); // the library's line
}
