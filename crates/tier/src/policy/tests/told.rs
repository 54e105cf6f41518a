//! [`Told`]: an engine with a scripted behavior for each node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::sleep;

use crate::BlockKey;
use crate::block::{Block, StoredBlock};
use crate::policy::Started;
use crate::remote::{NodeId, RemoteEngine, RemoteError, Renewal};

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The behavior of a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    /// Its first byte comes after this, and the last one after that.
    Gives(Duration, Duration),
    HasNot(Duration),
    /// Some bytes come this many times, with a pause after each.
    Trickles(u32, Duration),
    /// It gives another block.
    Lies,
    Fails,
    Hangs,
}

pub(super) const QUICK: Does = Does::Gives(ms(1), ms(1));

/// An engine with a scripted behavior for each node.
#[derive(Debug, Default)]
pub(super) struct Told {
    does: Mutex<HashMap<u32, Does>>,
    asked: Mutex<Vec<u32>>,
    pub(super) brought: Mutex<Vec<u32>>,
    pub(super) nodes: u32,
    pub(super) takes_over: bool,
    /// The node outside of the zone of the client, if there is one.
    pub(super) far: Option<u32>,
}

impl Told {
    pub(super) fn new(does: &[Does]) -> Arc<Self> {
        let told = Self {
            nodes: u32::try_from(does.len()).expect("few"),
            ..Self::default()
        };
        for (node, does) in (0..).zip(does) {
            told.now(node, *does);
        }
        Arc::new(told)
    }

    pub(super) fn now(&self, node: u32, does: Does) {
        self.does.lock().expect("unpoisoned").insert(node, does);
    }

    pub(super) fn asked(&self) -> Vec<u32> {
        std::mem::take(&mut self.asked.lock().expect("unpoisoned"))
    }
}

fn sealed(key: &BlockKey) -> Bytes {
    let block = Block::seal(key, Bytes::from_static(b"bytes"));
    Bytes::from([block.header().as_slice(), block.bytes()].concat())
}

impl RemoteEngine for Told {
    fn name(&self, node: NodeId) -> String {
        node.0.to_string()
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn connections(&self, _: NodeId) -> usize {
        0
    }

    fn route(&self, _: &BlockKey, into: &mut Vec<NodeId>) {
        into.extend((0..self.nodes).map(NodeId));
    }

    fn is_near(&self, node: NodeId) -> bool {
        self.far != Some(node.0)
    }

    fn second_takes_over(&self) -> bool {
        self.takes_over
    }

    fn get<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        self.asked.lock().expect("unpoisoned").push(node.0);
        let does = self.does.lock().expect("unpoisoned")[&node.0];
        Box::pin(async move {
            match does {
                Does::Gives(first, last) => {
                    sleep(first).await;
                    started.now();
                    sleep(last - first).await;
                    started.now();
                    Ok(Some(sealed(key)))
                }
                Does::HasNot(after) => {
                    sleep(after).await;
                    started.now();
                    Ok(None)
                }
                Does::Trickles(times, pause) => {
                    for _ in 0..times {
                        started.now();
                        sleep(pause).await;
                    }
                    Ok(Some(sealed(key)))
                }
                Does::Lies => Ok(Some(sealed(&BlockKey::from_bytes([2; 16])))),
                Does::Fails => Err(RemoteError::Connect("refused".to_owned())),
                Does::Hangs => std::future::pending().await,
            }
        })
    }

    fn put<'a>(
        &'a self,
        node: NodeId,
        _: &'a BlockKey,
        _: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        self.brought.lock().expect("unpoisoned").push(node.0);
        let does = self.does.lock().expect("unpoisoned")[&node.0];
        Box::pin(async move {
            match does {
                Does::Hangs => std::future::pending().await,
                _ => Ok(()),
            }
        })
    }

    fn lease<'a>(
        &'a self,
        node: NodeId,
        _: &'a BlockKey,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        let does = self.does.lock().expect("unpoisoned")[&node.0];
        Box::pin(async move {
            match does {
                Does::Hangs => std::future::pending().await,
                _ => Ok(true),
            }
        })
    }

    fn renew_lease<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(std::future::ready(Ok(Renewal::Renewed)))
    }

    fn end_lease<'a>(
        &'a self,
        _: NodeId,
        _: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async { Ok(()) })
    }

    fn refresh(&self) {}

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
