//! How a slow node is dealt with, whatever the engine.

mod answer;
mod attempt;
mod breaker;
mod hedge;
mod node;
mod remote;
mod started;
#[cfg(test)]
mod tests;

pub(crate) use remote::{EngineAnswer, Remote};
pub use started::Started;
