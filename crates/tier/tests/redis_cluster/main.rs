//! A cache before a real Redis Cluster, in good times and bad.

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod healthy;
mod loading;
mod set_up;
