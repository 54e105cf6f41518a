//! TLS configuration: protocol versions and trusted certificate authorities.

use std::path::Path;
use std::sync::Arc;

use cachewise_units::{Bytes, escaped};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::Error;

/// Maximum size of a file with certificates: those of a system have 0.5 MiB.
const LONGEST: Bytes = Bytes(16 << 20);

/// Reads the certificates of authorities: of a file, or the system's.
///
/// # Errors
/// [`Error::Setting`] where there are none.
pub(crate) fn config(authority: Option<&Path>) -> Result<ClientConfig, Error> {
    let roots = match authority {
        Some(path) => of_file(path)?,
        None => {
            let (roots, failed) = of_system();
            if roots.is_empty() {
                let why = failed.map(|error| format!(" ({error})"));
                return Err(wrong(format!(
                    "this system has no certificates of authorities{}: name a file of them",
                    why.unwrap_or_default()
                )));
            }
            roots
        }
    };
    with(roots)
}

/// The same for clients that may not need TLS: without certificate authorities, no server is
/// trusted.
///
/// # Errors
/// [`Error::Setting`], which is a defect.
pub(crate) fn config_if_any() -> Result<ClientConfig, Error> {
    let (roots, _) = of_system();
    with(roots)
}

fn of_file(path: &Path) -> Result<RootCertStore, Error> {
    let name = escaped(path);
    let failed = |error: &dyn std::fmt::Display| wrong(format!("certificates of {name}: {error}"));
    let read = cachewise_sys::open_input(path)
        .and_then(|file| cachewise_sys::read_input(file, LONGEST))
        .map_err(|error| failed(&error))?;
    let certificates = CertificateDer::pem_slice_iter(&read)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| failed(&error))?;
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(certificates);
    match taken {
        0 => Err(wrong(format!("{name} has no certificate in PEM"))),
        _ => Ok(roots),
    }
}

/// The system's; `SSL_CERT_FILE` and `SSL_CERT_DIR` in the environment name others. With the first of what failed.
fn of_system() -> (RootCertStore, Option<String>) {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let failed = found.errors.first().map(ToString::to_string);
    (roots, failed)
}

fn with(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn wrong(why: String) -> Error {
    Error::Setting {
        setting: "TLS",
        why,
    }
}
