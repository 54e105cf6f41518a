//! The behaviour of a field over time.

/// Behaviour of a field over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Grows; rows show the increase, metrics end with `_total`.
    Counter,
    /// A state, or a number that cannot be summed.
    Gauge,
    /// A name.
    Label,
}
