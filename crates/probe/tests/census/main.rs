//! The census of the page cache, against what the kernel says by other means.
//!
//! Needs root: it makes mounts and loop devices, in mount namespaces of its own threads, so that nothing is
//! left behind. Without root each test prints why it does nothing. `CACHEWISE_TEST_DIR` says where the
//! images of file systems go.
//!
//! # Layout
//! - `stand`: root or not, the namespace, the file systems, and files to be found
//! - `found`: what is listed, with how many pages
//! - `named`: what it is called
//! - `sums`: the whole of it beside `Cached` and `Buffers`
//! - `churn`: what is there is found while inodes and file systems come and go

mod churn;
mod found;
mod named;
mod stand;
mod sums;
