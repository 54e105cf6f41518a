//! One `redis-server` process.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use super::error::DevClusterError;
use super::keeper::Keeper;
use super::options::{DevClusterOptions, Topology};
use super::until::Until;
use super::wire;

/// Maximum attempts with other ports when another process takes the chosen ones first.
const ATTEMPTS: usize = 5;

/// Maximum bytes of a log to show.
const LAST_WORDS: usize = 400;

/// A server that answers.
#[derive(Debug, Clone, Copy)]
pub struct RedisServer {
    pub port: u16,
    pub pid: u32,
    /// Port for the gossip between the nodes of a cluster.
    pub bus_port: u16,
}

impl RedisServer {
    /// Starts it and waits until it answers.
    pub fn start(
        keeper: &Keeper,
        options: &DevClusterOptions,
        port: Option<u16>,
        directory: &Path,
        until: &Until,
    ) -> Result<Self, DevClusterError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(keeper, options, port, directory, until) {
                Err(DevClusterError::PortInUse { .. }) if port.is_none() && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn try_start(
        keeper: &Keeper,
        options: &DevClusterOptions,
        port: Option<u16>,
        directory: &Path,
        until: &Until,
    ) -> Result<Self, DevClusterError> {
        fs::create_dir_all(directory)
            .map_err(|source| DevClusterError::io("make the directory", directory, source))?;
        let log = directory.join("redis.log");
        let (free, bus_port) = free_ports()?;
        let port = port.unwrap_or(free);
        let mut command = Command::new(&options.server);
        command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for (name, value) in settings(options, port, bus_port) {
            command.arg(format!("--{name}")).arg(value);
        }
        let pid = keeper.start(command).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound {
                let program = options.server.clone();
                return DevClusterError::NoServer { program };
            }
            DevClusterError::io("start", &options.server, source)
        })?;
        let server = Self {
            port,
            pid,
            bus_port,
        };
        until.there(&format!("the server on port {port} answers"), || {
            if let Some((_, status)) = keeper.ended().into_iter().find(|(ended, _)| *ended == pid) {
                let words = last_words(&log);
                return Err(match words.contains("Address already in use") {
                    true => DevClusterError::PortInUse { port },
                    false => DevClusterError::Ended {
                        program: options.server.clone(),
                        status,
                        words,
                    },
                });
            }
            match wire::ask(server.address(), &["INFO", "server"]) {
                Ok(Ok(info)) if process_of(&info) == Some(pid) => Ok(Some(())),
                // It took the port since the check, and gets no other command.
                Ok(Ok(_)) => Err(DevClusterError::PortInUse { port }),
                _ => Ok(None),
            }
        })?;
        Ok(server)
    }

    pub fn address(self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.port)
    }
}

/// Refuses ports on which another program listens, before a server is started. A port that cannot be used for another
/// reason is left to the server, whose log says why.
pub(super) fn check_ports(first: u16, count: usize) -> Result<(), DevClusterError> {
    for port in (first..=u16::MAX).take(count) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(DevClusterError::PortInUse { port });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the process that answers `INFO server`.
fn process_of(info: &str) -> Option<u32> {
    let mut lines = info.lines();
    lines.find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
}

/// Returns the settings that differ from Redis's defaults.
fn settings(options: &DevClusterOptions, port: u16, bus_port: u16) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("port", port.to_string()),
        // Reachable from this machine alone: there is no password.
        ("bind", Ipv4Addr::LOCALHOST.to_string()),
        ("daemonize", "no".into()),
        ("logfile", "redis.log".into()),
        // A cache: nothing is kept, and what is full makes room.
        ("save", String::new()),
        ("appendonly", "no".into()),
        ("maxmemory", options.memory.0.to_string()),
        ("maxmemory-policy", "allkeys-lru".into()),
        // A replica that joins gets its copy at once, without a file.
        ("repl-diskless-sync-delay", "0".into()),
    ];
    if options.topology == Topology::Cluster {
        settings.extend([
            ("cluster-enabled", "yes".to_owned()),
            ("cluster-port", bus_port.to_string()),
            ("cluster-config-file", "nodes.conf".to_owned()),
            (
                "cluster-node-timeout",
                options.node_timeout.as_millis().to_string(),
            ),
            // Until a replica has copied something, no node lists it for clients: a ping is enough, by default each ten seconds.
            ("repl-ping-replica-period", "1".to_owned()),
            // With the default, one node that is gone makes all others refuse.
            ("cluster-require-full-coverage", "no".to_owned()),
        ]);
    }
    settings
}

/// Returns two ports that were free a moment ago.
fn free_ports() -> Result<(u16, u16), DevClusterError> {
    let listen = || -> io::Result<(TcpListener, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    // Both at once, or they could be the same.
    let both = listen().and_then(|one| Ok((one, listen()?)));
    let ((_, port), (_, bus_port)) = both.map_err(|source| {
        DevClusterError::io("find a free port on", Path::new("127.0.0.1"), source)
    })?;
    Ok((port, bus_port))
}

fn last_words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let text = text.trim();
    if text.is_empty() {
        return "none".into();
    }
    let skipped = text.chars().count().saturating_sub(LAST_WORDS);
    text.chars().skip(skipped).collect()
}
