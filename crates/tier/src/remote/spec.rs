//! [`EngineSettings`]: which engine, where, and how to get in.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::Secret;
use crate::Error;

/// The protocol of the nodes, and the placement of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EngineKind {
    /// Redis Cluster, Valkey: the cluster says.
    RedisCluster,
    /// Redis or Valkey nodes that do not know each other: rendezvous hashing says.
    Redis,
    /// memcached nodes: rendezvous hashing says.
    Memcached,
}

impl EngineKind {
    /// All of them, with the scheme by which each is named.
    pub const ALL: [(&'static str, Self); 3] = [
        ("redis-cluster", Self::RedisCluster),
        ("redis", Self::Redis),
        ("memcached", Self::Memcached),
    ];

    /// Returns the scheme by which it is named.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::RedisCluster => "redis-cluster",
            Self::Redis => "redis",
            Self::Memcached => "memcached",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::RedisCluster | Self::Redis => 6379,
            Self::Memcached => 11_211,
        }
    }
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an address, of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The credentials of this client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user of the ACL; `None` is the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Secret,
}

/// TLS settings of the connections to the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Certificates in PEM that vouch for the nodes; `None` takes the system's.
    pub engine_ca: Option<PathBuf>,
    /// The name that the nodes' certificates have, where it is not that of their addresses.
    pub engine_name: Option<String>,
}

/// Which engine, where, and how to get in.
///
/// As text: `redis-cluster://a:6379,b:6379`. All nodes of `redis` and `memcached`, any of a cluster.
/// `+tls` behind the scheme asks for TLS. There is no room for a password on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// The protocol of the nodes.
    pub kind: EngineKind,
    /// The nodes; of a cluster, the nodes that report its topology.
    pub nodes: Vec<Address>,
    /// Credentials, if the nodes require them.
    pub credentials: Option<Credentials>,
    /// TLS, if any.
    pub tls: Option<TlsSettings>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.tls.is_some() { "+tls" } else { "" };
        write!(f, "{}{tls}://", self.kind.scheme())?;
        for (number, node) in self.nodes.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{node}")?;
        }
        Ok(())
    }
}

impl FromStr for EngineSettings {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // Errors do not repeat the text, which may contain a password.
        let wrong = |why: String| Error::Setting {
            setting: "engine",
            why,
        };
        let form = "the form is redis-cluster://HOST:PORT,HOST:PORT (or redis, memcached; +tls \
                    after the scheme for TLS)";
        let (scheme, nodes) = text
            .split_once("://")
            .ok_or_else(|| wrong(form.to_owned()))?;
        let (scheme, tls) = match scheme.strip_suffix("+tls") {
            Some(scheme) => (scheme, Some(TlsSettings::default())),
            None => (scheme, None),
        };
        let kind = EngineKind::ALL
            .iter()
            .find(|(name, _)| *name == scheme)
            .map(|(_, kind)| *kind)
            .ok_or_else(|| wrong(format!("scheme {scheme:?} is unknown; {form}")))?;
        if nodes.contains('@') {
            return Err(wrong(
                "the URL contains a user or password, and every user of this machine can read \
                 arguments: use the environment or a file"
                    .to_owned(),
            ));
        }
        let nodes = nodes
            .trim_end_matches('/')
            .split(',')
            .map(|node| {
                address(node, kind.default_port())
                    .ok_or_else(|| wrong(format!("{node:?} is not HOST:PORT; {form}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            kind,
            nodes,
            credentials: None,
            tls,
        })
    }
}

fn address(text: &str, default_port: u16) -> Option<Address> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        (host, rest.strip_prefix(':'))
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port != 0)?,
        None => default_port,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    (!host.is_empty() && host.chars().all(plain)).then(|| Address {
        host: host.to_owned(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in [
            "redis-cluster://a:1,b:2",
            "redis+tls://10.0.0.1:6379",
            "memcached://[::1]:11211",
        ] {
            let settings: EngineSettings = text.parse().expect("it is well-formed");
            assert_eq!(settings.to_string(), text);
        }
        let settings: EngineSettings = "memcached://cache"
            .parse()
            .expect("the port may be missing");
        assert_eq!(settings.nodes[0].port, 11_211, "the protocol's own port");
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_repeating_a_password() {
        for text in [
            "",
            "a:1",
            "http://a:1",
            "redis://",
            "redis://a:0",
            "redis://a:x,b",
            "redis://a b",
        ] {
            assert!(text.parse::<EngineSettings>().is_err(), "{text:?}");
        }
        let error = "redis://:hunter2@a:1"
            .parse::<EngineSettings>()
            .expect_err("there is a password in it");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
