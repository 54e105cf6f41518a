//! Parts that the tests of the probe share: file systems, memory groups, the oracle, calls that read, and memory that ends.
//!
//! Each test target mounts this module at its root and imports the parts that it uses, so that a part finds the
//! others at `crate::`.

#![allow(dead_code, reason = "each target uses a part of the kit")]

pub mod files;
pub mod group;
pub mod image;
pub mod libaio;
pub mod needs;
pub mod oracle;
pub mod partial;
pub mod problem;
pub mod random;
pub mod reader;
pub mod uring;
