//! [`Drops`]: number of blocks that foyer did not write to its disk.
//!
//! Only foyer's metrics report them, so this is a registry of metrics that counts these and
//! nothing else.

use std::borrow::Cow;
use std::sync::Arc;

use mixtrics::metrics::{
    BoxedCounter, BoxedCounterVec, BoxedGaugeVec, BoxedHistogramVec, CounterOps, CounterVecOps,
    RegistryOps,
};
use mixtrics::registry::noop::NoopMetricsRegistry;

use crate::counters::Count;

/// The metrics that count an entry which was dropped: (name, label).
const OF_DROPS: [(&str, &str); 3] = [
    // The queue to the flushers is full.
    ("foyer_storage_inner_op_total", "channel_overflow"),
    // The flusher's buffer is full.
    ("foyer_storage_inner_op_total", "buffer_overflow"),
    // The entry is larger than one write, or the flusher had ended.
    ("foyer_storage_block_engine_op_total", "enqueue_skip"),
];

/// Number of blocks that foyer did not write to its disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Drops(Arc<Count>);

impl Drops {
    /// Counts one that foyer was not given.
    pub(super) fn one(&self) {
        self.0.one();
    }

    /// Counts what foyer was given and the disk refused, which no metric of its tells.
    pub(super) fn add(&self, blocks: u64) {
        self.0.add(blocks);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.get()
    }
}

#[derive(Debug)]
struct DropCounters {
    name: Cow<'static, str>,
    drops: Drops,
}

#[derive(Debug)]
struct Counter(Option<Drops>);

impl CounterOps for Counter {
    fn increase(&self, val: u64) {
        if let Some(drops) = &self.0 {
            drops.0.add(val);
        }
    }
}

impl CounterVecOps for DropCounters {
    fn counter(&self, labels: &[Cow<'static, str>]) -> BoxedCounter {
        let of_drops = OF_DROPS
            .iter()
            .any(|(name, label)| self.name == *name && labels.iter().any(|given| given == label));
        Box::new(Counter(of_drops.then(|| self.drops.clone())))
    }
}

impl RegistryOps for Drops {
    fn register_counter_vec(
        &self,
        name: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
    ) -> BoxedCounterVec {
        Box::new(DropCounters {
            name,
            drops: self.clone(),
        })
    }

    fn register_gauge_vec(
        &self,
        name: Cow<'static, str>,
        help: Cow<'static, str>,
        labels: &'static [&'static str],
    ) -> BoxedGaugeVec {
        NoopMetricsRegistry.register_gauge_vec(name, help, labels)
    }

    fn register_histogram_vec(
        &self,
        name: Cow<'static, str>,
        help: Cow<'static, str>,
        labels: &'static [&'static str],
    ) -> BoxedHistogramVec {
        NoopMetricsRegistry.register_histogram_vec(name, help, labels)
    }

    fn register_histogram_vec_with_buckets(
        &self,
        name: Cow<'static, str>,
        help: Cow<'static, str>,
        labels: &'static [&'static str],
        buckets: Vec<f64>,
    ) -> BoxedHistogramVec {
        NoopMetricsRegistry.register_histogram_vec_with_buckets(name, help, labels, buckets)
    }
}
