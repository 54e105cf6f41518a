//! [`Tls`]: encrypted connections to authenticated nodes.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::Error;
use crate::remote::{Address, TlsSettings};
use crate::tls;

/// How TLS is spoken with all nodes of an engine.
pub(super) struct Tls {
    connector: TlsConnector,
    server_name: Option<String>,
}

impl Tls {
    /// Reads the certificates.
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, Error> {
        let config = tls::config(settings.engine_ca.as_deref())?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            server_name: settings.engine_name.clone(),
        })
    }

    /// Makes sure of a node, over a connection that stands.
    pub(super) async fn handshake(
        &self,
        tcp: TcpStream,
        to: &Address,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = self.server_name.as_ref().unwrap_or(&to.host);
        let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
        self.connector.connect(name, tcp).await
    }
}
