//! The library, from outside. `cargo test -p cachewise-residency --test library walk::` runs the tests of a module.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

mod baseline;
mod evict;
mod lock;
mod order;
mod questions;
mod refused;
mod snapshot;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/unprivileged.rs"]
mod unprivileged;
mod walk;
mod warm;
