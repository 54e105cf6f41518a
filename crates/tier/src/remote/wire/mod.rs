//! Connections to nodes, whatever their protocol: pools of them, buffers, TLS.

mod buffers;
mod connection;
mod frame;
mod nodes;
mod pool;
mod tls;

pub(crate) use buffers::Buffers;
pub(super) use connection::{Connection, Dialer, Protocol, SharedDialer};
pub(super) use frame::Frame;
pub(super) use nodes::{Nodes, exchange};
pub(super) use pool::Pool;
