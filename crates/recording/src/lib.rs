//! Recordings: what a machine did over time, on a disk.

#![forbid(unsafe_code)]
