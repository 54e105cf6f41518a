//! `tier csi`: a node plugin for Kubernetes, by the Container Storage Interface 1.13. Each volume is a mount.
//!
//! # Layout
//! - this file: the socket, and the end by a signal
//! - `calls`: requests and the functions that answer them; `messages`: their fields
//! - `node`: staging, publishing and their reversal
//! - `volume`: attributes, options and secrets of a volume; `process`: the process that serves its mount

mod calls;
mod messages;
mod node;
mod process;
mod volume;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cachewise_cli::host;
use cachewise_cli::interrupt::Interrupt;
use cachewise_cli::output::tell;
use cachewise_kstat::Kernel;
use cachewise_units::escaped;
use tokio::net::UnixListener;

use crate::commands::arguments::Csi;
use node::Node;

/// Time for calls under way after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest wait for a signal at once.
const LOOK: Duration = Duration::from_secs(3600);

/// Serves until a signal. Mounts go on.
pub fn csi(arguments: &Csi) -> Result<ExitCode> {
    let path = socket_of(&arguments.endpoint)?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "volumes are mounted for all users of this node: run csi as root"
    );
    if let Some(settings) = &arguments.settings {
        cachewise_cli::settings::of_file(settings)?;
    }
    let name = match &arguments.node_id {
        Some(name) => name.clone(),
        None => host::hostname(&Kernel::new()),
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    let interrupt = Interrupt::catch()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_io()
        .enable_time()
        .build()
        .context("cannot start threads")?;
    remove_dead(&path)?;
    let guard = runtime.enter();
    let listener = UnixListener::bind(&path)
        .with_context(|| format!("cannot make the socket {}", escaped(&path)))?;
    drop(guard);
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&path, private)
        .with_context(|| format!("cannot protect the socket {}", escaped(&path)))?;
    let node = Arc::new(Node::new(name, program, arguments.settings.clone()));
    let router = calls::router(&node);
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        // Dropped or sent: it is over.
        let _ = ended.await;
    });
    let serving = runtime.spawn(async { server.await });
    tell(&format!(
        "{}: node {} of the driver {}; Ctrl-C ends it, and mounts go on",
        escaped(&path),
        node.name(),
        calls::DRIVER
    ));
    while !interrupt.wait_for(LOOK)? {}
    drop(end);
    let served = runtime.block_on(async { tokio::time::timeout(PATIENCE, serving).await });
    if let Ok(Ok(Err(error))) = served {
        tell(&format!("{}: {error}", escaped(&path)));
    }
    runtime.shutdown_timeout(PATIENCE);
    remove(&path)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of a socket, written as a path or as `unix://PATH`.
fn socket_of(endpoint: &str) -> Result<PathBuf> {
    let path = endpoint
        .strip_prefix("unix:")
        .map_or(endpoint, |path| path.strip_prefix("//").unwrap_or(path));
    ensure!(
        !path.is_empty() && !path.contains("://"),
        "--endpoint {endpoint}: write unix://PATH, the path of a socket"
    );
    Ok(path.into())
}

/// Removes the socket of a plugin that has ended.
fn remove_dead(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    ensure!(
        found.file_type().is_socket(),
        "{} is there and is not a socket: remove it, or name another --endpoint",
        escaped(path)
    );
    ensure!(
        UnixStream::connect(path).is_err(),
        "{}: another plugin serves there: end it first",
        escaped(path)
    );
    remove(path)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove the socket {}", escaped(path)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_paths_of_sockets() {
        for (endpoint, path) in [
            ("unix:///csi/csi.sock", "/csi/csi.sock"),
            ("unix:/csi/csi.sock", "/csi/csi.sock"),
            ("/csi/csi.sock", "/csi/csi.sock"),
            ("csi.sock", "csi.sock"),
        ] {
            assert_eq!(socket_of(endpoint).expect(endpoint), Path::new(path));
        }
        for endpoint in ["", "unix://", "tcp://127.0.0.1:1"] {
            socket_of(endpoint).expect_err(endpoint);
        }
    }
}
