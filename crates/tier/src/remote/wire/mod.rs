//! Conversations with nodes, whatever they speak: connections, pools of them, TLS.

mod buffers;
mod connection;
mod nodes;
mod pool;
mod tls;

use bytes::Bytes;
use futures_util::future::BoxFuture;

pub(super) use connection::{Connection, Dialer, Shared};
pub(super) use nodes::{Nodes, exchange};
pub(super) use pool::Pool;

use super::RemoteError;

/// How much of a reply there must be before it is worth looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// At least so many bytes in all.
    Needs(usize),
    /// It is there, so many bytes of it.
    Whole(usize),
}

/// What a connection has to know of a protocol.
pub(super) trait Protocol: Send + Sync + 'static {
    /// A reply, understood.
    type Reply: Send;

    /// Measures the reply at the front of a buffer; no value of it may be longer than `longest`.
    fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError>;

    /// Understands a whole reply. Values are not copied.
    fn reply(frame: Bytes) -> Result<Self::Reply, RemoteError>;

    /// Says who asks, on a new connection, and waits for an answer. At least one command: a node
    /// whose process hangs still accepts connections, as its kernel does that.
    fn greet<'a>(
        &'a self,
        connection: &'a mut Connection<Self>,
    ) -> BoxFuture<'a, Result<(), RemoteError>>
    where
        Self: Sized;
}
