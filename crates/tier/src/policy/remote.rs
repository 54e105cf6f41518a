//! [`Remote`]: an engine behind the policy.

use crate::block::Block;
use crate::counters::{NodeRow, Totals};
use crate::remote::EngineSettings;
use crate::{BlockKey, Error, Settings};

/// What came of asking the engine for a block.
#[derive(Debug)]
pub(crate) enum Found {
    /// The block.
    Hit(Block),
    /// The node that would have it has not.
    Miss,
    /// It was there, and broken.
    Corrupt,
    /// Nobody answered in time.
    Unknown,
}

/// An engine behind the policy.
#[derive(Debug)]
pub(crate) struct Remote {}

impl Remote {
    pub(crate) async fn open(engine: &EngineSettings, _: &Settings) -> Result<Self, Error> {
        Err(Error::Engine {
            engine: engine.to_string(),
            why: "this build knows no engines".to_owned(),
        })
    }
    pub(crate) async fn get(&self, _: &BlockKey) -> Found {
        Found::Unknown
    }
    pub(crate) fn fill(&self, _: BlockKey, _: Block) {}
    pub(crate) async fn finish_fills(&self) {}
    pub(crate) fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    pub(crate) fn add_to(&self, _: &mut Totals) {}
    pub(crate) fn rows(&self) -> Vec<NodeRow> {
        Vec::new()
    }
}
