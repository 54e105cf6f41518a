//! Where in a program the waits for storage come from: the stacks that a probe sends, unwound, added up and named.
//!
//! A [`Collector`] takes records while the program runs: unwinding needs the files that a process has mapped, and a process
//! that has ended has none. A [`Namer`] looks up symbols at the end of an interval, once for each address, in the files that the
//! collector has kept open; another thread can have it.
//!
//! # Bounds
//! Memory is bounded by the numbers of modules, address spaces, calls and distinct stacks below. Weights beyond them are on
//! stacks without calls, so that sums hold.
//!
//! # Layout
//! - `module`: a mapped file: its segments and unwind information
//! - `space`: the mapped code of an address space
//! - `unwind`: from registers and a copy of the stack to addresses
//! - `table`: equal stacks, added up; `rest`: weights that come in no record
//! - `collector`: these together; `namer`: names for the stacks that it has collected
//! - `perf_map`: names of code that a JIT compiler made
//! - `symbols`: from addresses to functions, files and lines
//! - `library`, `interpreter`: calls that belong to a language, not to the program

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod address;
mod collector;
mod interpreter;
mod library;
mod module;
mod namer;
mod perf_map;
mod rest;
mod space;
mod symbols;
mod table;
mod unwind;

pub use collector::Collector;
pub use namer::{Namer, Unnamed};
