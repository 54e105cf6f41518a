//! How much memory does a load on the page cache need? A miss-ratio curve from its accesses.
//!
//! An [`Estimator`] takes accesses (file, pages, read or write) and simulates memories of many sizes at once. Its
//! [`Curve`] has the miss ratio of each, the requested pages that are not there by the requested ones, and the pages that
//! devices deliver, with readahead.
//!
//! ```
//! use cachewise_curve::{Access, Estimator, Kind};
//! use cachewise_units::{PageSize, Pages};
//!
//! let page_size = PageSize::new(4096).expect("a power of two");
//! let mut estimator = Estimator::new(page_size, Estimator::MAX_PAGES);
//! // A program reads 10,000 pages in turn, again and again.
//! for _ in 0..10 {
//!     for first in 0..10_000 {
//!         estimator.access(&Access { file: 1, first, pages: 1, kind: Kind::Read, reader: None });
//!     }
//! }
//! let curve = estimator.curve(None);
//! assert_eq!(curve.footprint, Pages(10_000));
//! assert_eq!(curve.floor, Some(0.1), "the first round finds nothing");
//! // Each page is evicted just before its next use, unless all fit.
//! let half = curve.points.iter().find(|point| point.memory >= Pages(5_000)).expect("a size");
//! assert_eq!(half.miss_ratio, Some(1.0));
//! ```
//!
//! # Policy
//! The [`Policy`] is that of the kernel. With two lists, as in mm/vmscan.c and mm/workingset.c: pages enter the inactive
//! list, a second read activates them, an evicted page that returns within the length of the active list is activated at
//! once, and the active list shrinks while the inactive one is shorter than inactive_is_low() wants it. With the
//! generations of MGLRU: pages enter the oldest or second oldest generation, the oldest one is evicted, and pages of tiers
//! that refault more than pages read once move on to the next.
//!
//! A memory is what pages of files have: that of a group without the memory of programs and of the kernel. A [`Reader`] has
//! the kernel read ahead, in folios of several pages where its file may have them. Plain LRU stands beside it. Not
//! simulated: dirty pages that reclaim passes over, accessed bits of mapped pages.
//!
//! # Space
//! Bounded, whatever the load: at most the number of pages that [`Estimator::new`] allows is simulated. A load that uses more
//! is sampled by a hash of its pages, at a rate that falls (SHARDS), and the sizes are scaled by the rate.
//! [`Curve::rate`] says how far.
//!
//! # Layout
//! - `access`: accesses, and the sample of them
//! - `pages`: slots of pages; `stack`: plain LRU of all sizes
//! - `cache`: the page cache of one size; `folios`: its folios; `lists` and `generations`: the kernel's
//!   policies of eviction; `readahead`: its readahead
//! - `memory`: the sizes that are simulated
//! - `estimator`: from accesses to a curve
//! - `curve`: the result, its knee and its end

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod access;
mod cache;
mod curve;
mod estimator;
mod folios;
mod generations;
mod lists;
mod memory;
mod pages;
mod readahead;
mod stack;

pub use access::{Access, Kind, Rate, Reader};
pub use cache::Policy;
pub use curve::{BEND, Curve, ENOUGH, Point, STEEP};
pub use estimator::{Estimator, Given};
