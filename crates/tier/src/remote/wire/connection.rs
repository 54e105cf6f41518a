//! [`Connection`]: one conversation with a node, one command at a time; [`Dialer`] makes them.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::buffers::{Buffers, LEAST_READ, longest_reply};
use super::frame::Frame;
use super::tls::Tls;
use crate::policy::Started;
use crate::remote::{Address, EngineSettings, RemoteError};
use crate::{Error, Settings};

/// The parts of a protocol that a connection needs.
pub(in crate::remote) trait Protocol: Send + Sync + 'static {
    /// A reply, understood.
    type Reply: Send;

    /// Measures the reply at the front of a buffer; no value of it may be longer than `longest`.
    fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError>;

    /// Parses a whole reply. Values are not copied.
    fn reply(frame: Bytes) -> Result<Self::Reply, RemoteError>;

    /// Authenticates on a new connection and waits for an answer. It sends at least one command, as
    /// the kernel accepts connections even for a process that hangs.
    fn greet<'a>(
        &'a self,
        connection: &'a mut Connection<Self>,
    ) -> BoxFuture<'a, Result<(), RemoteError>>
    where
        Self: Sized;
}

/// The transport of a connection: TCP or TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Time after which an attempt to connect is made anew where there is more time: a kernel whose queue of connections is full
/// drops requests, and its clients repeat them after a second only.
const CONNECTS_AGAIN: Duration = Duration::from_millis(100);

/// How connections are made.
pub(in crate::remote) struct Dialer<P> {
    protocol: P,
    tls: Option<Tls>,
    /// Within what time a connection stands.
    connect: Duration,
    /// Within what time TLS, the password and the first command are through.
    greet: Duration,
    /// For how long a node that may be busy is waited for.
    pub(super) longest_patience: Duration,
    /// The longest value that makes sense.
    longest: usize,
    buffers: Arc<Buffers>,
    is_opened_in_place: bool,
}

/// The one dialer of an engine.
pub(in crate::remote) type SharedDialer<P> = Arc<Dialer<P>>;

/// One conversation with a node.
pub(in crate::remote) struct Connection<P> {
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    buffers: Arc<Buffers>,
    /// Whether blocks are decrypted where they lie; the opened block then returns the buffer.
    is_opened_in_place: bool,
    longest: usize,
    /// Whether it answered a command before: then its end may be that of an idle connection.
    pub(super) used: bool,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Dialer<P> {
    pub(in crate::remote) fn new(
        protocol: P,
        engine: &EngineSettings,
        cache: &Settings,
        buffers: &Arc<Buffers>,
    ) -> Result<Self, Error> {
        Ok(Self {
            protocol,
            tls: engine.tls.as_ref().map(Tls::new).transpose()?,
            connect: cache.connect,
            // Requests that wait for the connection have deadlines of their own.
            greet: cache.whole.max(cache.busy_patience()),
            longest_patience: cache.busy_patience(),
            longest: longest_reply(cache.block.0),
            buffers: Arc::clone(buffers),
            is_opened_in_place: cache.engine_key.is_some(),
        })
    }

    /// Makes a connection that is ready for commands.
    pub(in crate::remote) async fn dial(&self, to: &Address) -> Result<Connection<P>, RemoteError> {
        self.dial_within(to, Duration::ZERO).await
    }

    /// Makes a connection, and tries for `patience` where that is longer than usual.
    pub(super) async fn dial_within(
        &self,
        to: &Address,
        patience: Duration,
    ) -> Result<Connection<P>, RemoteError> {
        let refused = |error: io::Error| RemoteError::Connect(error.to_string());
        let late = || RemoteError::Connect("no answer in time".to_owned());
        let end = Instant::now() + patience;
        let tcp = loop {
            let connect = TcpStream::connect((to.host.as_str(), to.port));
            match timeout(self.connect.max(patience.min(CONNECTS_AGAIN)), connect).await {
                Ok(tcp) => break tcp.map_err(refused)?,
                Err(_) if Instant::now() < end => {}
                Err(_) => return Err(late()),
            }
        };
        tcp.set_nodelay(true).map_err(refused)?;
        let greeted = async {
            let stream: Box<dyn Stream> = match &self.tls {
                None => Box::new(tcp),
                Some(tls) => Box::new(tls.handshake(tcp, to).await.map_err(refused)?),
            };
            let mut connection = Connection {
                stream,
                buffer: BytesMut::new(),
                buffers: Arc::clone(&self.buffers),
                is_opened_in_place: self.is_opened_in_place,
                longest: self.longest,
                used: false,
                protocol: PhantomData,
            };
            self.protocol.greet(&mut connection).await?;
            Ok(connection)
        };
        timeout(self.greet, greeted).await.map_err(|_| late())?
    }
}

impl<P: Protocol> Connection<P> {
    /// Sends bytes, from all their pieces at once where the system can.
    pub(in crate::remote) async fn send(&mut self, mut bytes: impl Buf) -> Result<(), RemoteError> {
        self.stream.write_all_buf(&mut bytes).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)
    }

    /// Waits for a reply.
    pub(in crate::remote) async fn reply(
        &mut self,
        started: Option<&Started>,
    ) -> Result<P::Reply, RemoteError> {
        loop {
            let needs = match P::measure(&self.buffer, self.longest)? {
                Frame::Whole(len) => {
                    let frame = self.frame(len);
                    let reply = P::reply(frame)?;
                    self.used = true;
                    return Ok(reply);
                }
                Frame::Needs(needs) => needs,
            };
            let more = needs.saturating_sub(self.buffer.len());
            self.buffer.reserve(more.max(LEAST_READ));
            if self.stream.read_buf(&mut self.buffer).await.map_err(lost)? == 0 {
                return Err(RemoteError::Lost("the node closed it".to_owned()));
            }
            if let Some(started) = started {
                started.now();
            }
        }
    }

    /// Takes a whole reply out of the buffer.
    fn frame(&mut self, len: usize) -> Bytes {
        let len = len.min(self.buffer.len());
        if self.is_short(len) {
            // A slice keeps the whole buffer, which has room for the longest block: a short one
            // would take as much memory as that, and count as short.
            let frame = Bytes::copy_from_slice(self.buffer.get(..len).unwrap_or_default());
            if len == self.buffer.len() {
                self.buffer.clear();
            } else {
                self.buffer.advance(len);
            }
            return frame;
        }
        if len == self.buffer.len() {
            let whole = std::mem::take(&mut self.buffer);
            return match self.is_opened_in_place {
                true => whole.freeze(),
                false => self.buffers.lend(whole),
            };
        }
        self.buffer.split_to(len).freeze()
    }

    fn is_short(&self, len: usize) -> bool {
        len < self.longest / 2
    }

    /// Makes room for a value that is expected, so that it comes in one read.
    pub(super) fn expect(&mut self, len: usize) {
        if self.is_short(len) {
            self.buffer.reserve(len);
        } else if self.buffer.capacity() < len && self.buffer.is_empty() {
            self.buffer = self.buffers.take();
        }
    }

    /// Says whether nothing is left of an earlier reply: else the next one would be another's.
    pub(super) fn is_clean(&self) -> bool {
        self.buffer.is_empty()
    }
}

fn lost(error: io::Error) -> RemoteError {
    RemoteError::Lost(error.to_string())
}
