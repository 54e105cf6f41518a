//! Certificates, by openssl.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes a certificate for 127.0.0.1 that vouches for itself: its key, and the certificate; nothing without openssl.
pub fn vouched_for(directory: &Path, name: &str) -> Option<(PathBuf, PathBuf)> {
    let key = directory.join(format!("{name}.key"));
    let certificate = directory.join(format!("{name}.pem"));
    let curve = "ec_paramgen_curve:P-256";
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", curve])
        .args(["-nodes", "-days", "2", "-subj", "/CN=cachewise test"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    let made = made.ok()?;
    assert!(made.success(), "openssl makes a certificate: {made}");
    Some((key, certificate))
}
