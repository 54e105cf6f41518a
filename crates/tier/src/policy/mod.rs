//! How a slow node is dealt with, whatever the engine.

mod answer;
mod attempt;
mod breaker;
mod copies;
mod fills;
mod hedge;
mod held;
mod lease;
mod node;
mod remote;
mod started;
#[cfg(test)]
mod tests;

pub(crate) use held::Lease;
pub(crate) use lease::LeaseOf;
pub(crate) use remote::{EngineAnswer, LeaseAnswer, Remote};
pub use started::Started;
