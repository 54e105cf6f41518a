//! [`Tls`]: conversations that nobody else hears, with nodes that are who they say.

use std::io;
use std::sync::Arc;

use cachewise_units::escaped;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::Error;
use crate::remote::{Address, TlsSettings};

/// How TLS is spoken with all nodes of an engine.
pub(super) struct Tls {
    connector: TlsConnector,
    server_name: Option<String>,
}

impl Tls {
    /// Reads the certificates.
    pub(super) fn new(settings: &TlsSettings) -> Result<Self, Error> {
        let wrong = |why: String| Error::Setting {
            setting: "TLS",
            why,
        };
        let mut roots = RootCertStore::empty();
        match &settings.authority {
            Some(path) => {
                let name = escaped(path);
                let certificates = CertificateDer::pem_file_iter(path)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| wrong(format!("certificates of {name}: {error}")))?;
                let (taken, _) = roots.add_parsable_certificates(certificates);
                if taken == 0 {
                    return Err(wrong(format!("{name} has no certificate in PEM")));
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                let (taken, _) = roots.add_parsable_certificates(found.certs);
                if taken == 0 {
                    return Err(wrong(
                        "this system has no certificates of authorities: name a file of them"
                            .to_owned(),
                    ));
                }
            }
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            server_name: settings.server_name.clone(),
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
