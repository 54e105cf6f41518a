//! [`Connection`]: one conversation with a Redis node, one command at a time; [`Dialer`] makes them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::resp::{self, Frame, Reply};
use crate::policy::Started;
use crate::remote::tls::Tls;
use crate::remote::{Address, Credentials, RemoteError};

/// What a connection is over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How connections are made.
pub(super) struct Dialer {
    pub(super) credentials: Option<Credentials>,
    pub(super) tls: Option<Tls>,
    /// Whether replicas are to answer, which they do only when asked to.
    pub(super) of_cluster: bool,
    /// Within what time a connection stands.
    pub(super) connect: Duration,
    /// Within what time TLS, the password and the first command are through.
    pub(super) greet: Duration,
    /// The longest value that makes sense.
    pub(super) longest: usize,
}

/// One conversation with a node.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    longest: usize,
    /// Whether it answered a command before: then its end may be that of an idle connection.
    pub(super) used: bool,
}

impl Dialer {
    /// Makes a connection that is ready for commands.
    pub(super) async fn dial(&self, to: &Address) -> Result<Connection, RemoteError> {
        let refused = |error: io::Error| RemoteError::Connect(error.to_string());
        let late = || RemoteError::Connect("no answer in time".to_owned());
        let tcp = timeout(
            self.connect,
            TcpStream::connect((to.host.as_str(), to.port)),
        )
        .await
        .map_err(|_| late())?
        .map_err(refused)?;
        tcp.set_nodelay(true).map_err(refused)?;
        let greeted = async {
            let stream: Box<dyn Stream> = match &self.tls {
                None => Box::new(tcp),
                Some(tls) => Box::new(tls.handshake(tcp, to).await.map_err(refused)?),
            };
            let mut connection = Connection {
                stream,
                buffer: BytesMut::new(),
                longest: self.longest,
                used: false,
            };
            self.greet(&mut connection).await?;
            Ok(connection)
        };
        timeout(self.greet, greeted).await.map_err(|_| late())?
    }

    /// Says who asks, and that a replica may answer. One command is always sent: a node whose
    /// process hangs still accepts connections, as its kernel does that.
    async fn greet(&self, connection: &mut Connection) -> Result<(), RemoteError> {
        let mut bytes = Vec::new();
        if let Some(Credentials { user, password }) = &self.credentials {
            let password = password.reveal().as_bytes();
            match user {
                Some(user) => {
                    resp::command(&mut bytes, &[b"AUTH", user.as_bytes(), password], None)
                }
                None => resp::command(&mut bytes, &[b"AUTH", password], None),
            }
        }
        let first: &[u8] = if self.of_cluster {
            b"READONLY"
        } else {
            b"PING"
        };
        resp::command(&mut bytes, &[first], None);
        connection.send(Bytes::from(bytes)).await?;
        if self.credentials.is_some()
            && let Reply::Error(why) = connection.reply(None).await?
        {
            // The code alone: some servers repeat what they were sent.
            let code = code_of(&why);
            return Err(RemoteError::Refused(format!("{code} to user and password")));
        }
        match connection.reply(None).await? {
            Reply::Error(why) => Err(RemoteError::Refused(why)),
            _ => Ok(()),
        }
    }
}

/// Returns the word by which Redis names an error.
pub(super) fn code_of(error: &str) -> &str {
    error.split_whitespace().next().unwrap_or("an error")
}

impl Connection {
    /// Sends a command and waits for its reply.
    pub(super) async fn ask(
        &mut self,
        arguments: &[&[u8]],
        started: Option<&Started>,
    ) -> Result<Reply, RemoteError> {
        let mut bytes = Vec::with_capacity(64);
        resp::command(&mut bytes, arguments, None);
        self.send(Bytes::from(bytes)).await?;
        self.reply(started).await
    }

    /// Sends bytes, from all their pieces at once where the system can.
    pub(super) async fn send(&mut self, mut bytes: impl Buf) -> Result<(), RemoteError> {
        self.stream.write_all_buf(&mut bytes).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)
    }

    /// Waits for a reply.
    pub(super) async fn reply(&mut self, started: Option<&Started>) -> Result<Reply, RemoteError> {
        loop {
            let needs = match resp::measure(&self.buffer, self.longest)? {
                Frame::Whole(len) => {
                    let reply = resp::take(&mut self.buffer, len)?;
                    self.used = true;
                    return Ok(reply);
                }
                Frame::Needs(needs) => needs,
            };
            let more = needs.saturating_sub(self.buffer.len());
            self.buffer.reserve(more.max(4 << 10));
            if self.stream.read_buf(&mut self.buffer).await.map_err(lost)? == 0 {
                return Err(RemoteError::Lost("the node closed it".to_owned()));
            }
            if let Some(started) = started {
                started.now();
            }
        }
    }

    /// Makes room for a value that is expected, so that it comes in one read.
    pub(super) fn expect(&mut self, len: usize) {
        self.buffer.reserve(len.min(self.longest));
    }

    /// Says whether nothing is left of an earlier reply: else the next one would be another's.
    pub(super) fn is_clean(&self) -> bool {
        self.buffer.is_empty()
    }
}

fn lost(error: io::Error) -> RemoteError {
    RemoteError::Lost(error.to_string())
}

/// What all connections to an engine share.
pub(super) type SharedDialer = Arc<Dialer>;
