//! The project around the binary: its pages and their commands, its manual, its packages and how they hang together.

#[path = "../support/siblings.rs"]
mod siblings;

mod file_cycles;
mod fuzz;
mod headers;
mod import_rule;
mod layouts;
mod manual;
mod programs;
mod public_types;
mod python;
mod readme;
mod release;
mod start;
mod walkthroughs;
