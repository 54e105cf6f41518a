//! Where `serve` listens, and the token that its clients need.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use cachewise_units::{escaped, shell_quoted};
use cachewise_web::{Endpoint, Token};
use rustix::fs::{FileType, fstat};

use super::arguments::Serve;
use cachewise_cli::output::tell;

/// The variable that the token can be in.
const TOKEN: &str = "CACHEWISE_TOKEN";
const GROUPS: &str = "/etc/group";

/// The token, and where it comes from.
pub(super) enum Access {
    /// The file system decides who may connect.
    Open,
    Given(Token),
    /// Made for this run; it has to be shown.
    Made(Token),
}

impl Access {
    /// The token that was given; on the loopback address one is made otherwise.
    pub(super) fn of(arguments: &Serve, endpoint: &Endpoint) -> Result<Access> {
        if let Some(token) = given(arguments)? {
            return Ok(Access::Given(token));
        }
        match endpoint {
            Endpoint::Unix { .. } => Ok(Access::Open),
            Endpoint::Tcp(address) if !address.ip().is_loopback() => bail!(
                "cannot serve on {address} without a token, as other machines can reach it: write one to a file (head \
                 -c 24 /dev/urandom | base64) and name it with --token-file, or set the variable {TOKEN}; for \
                 127.0.0.1 one is generated"
            ),
            Endpoint::Tcp(_) if stderr_is_a_log() => bail!(
                "cannot generate a token, as it would be printed to a log: name a file with --token-file, set the \
                 variable {TOKEN}, or use --socket"
            ),
            Endpoint::Tcp(_) => Token::random()
                .map(Access::Made)
                .context("cannot generate a token: the kernel returned no random bytes"),
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Access::Open => None,
            Access::Given(token) | Access::Made(token) => Some(token.clone()),
        }
    }

    /// Prints where it is on standard output, for scripts too, and a token that was made on standard error, once.
    pub(super) fn announce(&self, endpoint: &Endpoint, address: Option<SocketAddr>) -> Result<()> {
        const PAGES: &str = "(metrics: /metrics, JSON: /api/v1/openapi.json); Ctrl-C ends";
        let line = match (endpoint, address) {
            (Endpoint::Unix { path, .. }, _) => format!(
                "unix:{}: curl --unix-socket {} http://localhost/ {PAGES}",
                escaped(path),
                shell_quoted(path)
            ),
            (Endpoint::Tcp(address), bound) => {
                let address = bound.unwrap_or(*address);
                if let Access::Made(token) = self {
                    tell(&format!(
                        "open http://{address}/login#token={}",
                        token.reveal()
                    ));
                }
                format!("http://{address}/ {PAGES}")
            }
        };
        let mut out = io::stdout();
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .context("cannot write to standard output")
    }
}

/// Whether standard error is kept where others can read it: the journal of systemd, or a file that is not private.
fn stderr_is_a_log() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    fstat(io::stderr().as_fd()).is_ok_and(|stat| {
        let is_open_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_mode & 0o077 != 0;
        is_open_file || stream == format!("{}:{}", stat.st_dev, stat.st_ino)
    })
}

pub(super) fn endpoint(arguments: &Serve) -> Result<Endpoint> {
    let Some(path) = arguments.socket.clone() else {
        return Ok(Endpoint::Tcp(arguments.listen));
    };
    let group = arguments
        .socket_group
        .as_deref()
        .map(group_id)
        .transpose()?;
    Ok(Endpoint::Unix { path, group })
}

/// Whether only this machine can reach it.
pub(super) fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Tcp(address) => address.ip().is_loopback(),
        Endpoint::Unix { .. } => true,
    }
}

fn group_id(group: &str) -> Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups =
        std::fs::read_to_string(GROUPS).with_context(|| format!("cannot read {GROUPS}"))?;
    id_in(&groups, group).with_context(|| {
        format!(
            "--socket-group {group}: {GROUPS} has no group of this name; write its number instead"
        )
    })
}

/// The id of a group in the text of /etc/group.
fn id_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        found.then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Never an argument: every user sees those.
fn given(arguments: &Serve) -> Result<Option<Token>> {
    let (text, from) = match &arguments.token_file {
        Some(path) => (read_token(path)?, path.display().to_string()),
        None => match std::env::var_os(TOKEN) {
            None => return Ok(None),
            Some(token) => match token.into_string() {
                Ok(token) => (token, TOKEN.to_owned()),
                Err(_) => bail!("{TOKEN}: the token is not text"),
            },
        },
    };
    Token::new(&text).map(Some).context(from)
}

fn read_token(path: &Path) -> Result<String> {
    let shown = escaped(path);
    let cannot = || format!("cannot read the token file {shown}");
    // Opened once: its name may come to mean another file.
    let mut file = File::open(path).with_context(cannot)?;
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!(
            "other users can read or write the token file {shown} (mode {:04o}), so the token may be known: chmod 600 \
             {}, and write a new token to it",
            mode & 0o7777,
            shell_quoted(path)
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(cannot)?;
    Ok(text)
}

/// Why it cannot listen there, and what to do.
pub(super) fn why_not(error: &io::Error, endpoint: &Endpoint) -> anyhow::Error {
    match endpoint {
        Endpoint::Tcp(address) => why_not_address(error, *address),
        Endpoint::Unix { path, .. } => {
            let what = match error.kind() {
                ErrorKind::AddrInUse => {
                    "another program listens there: stop it, or choose another path"
                }
                ErrorKind::AlreadyExists => {
                    "a file of that name exists: choose another path, or remove it"
                }
                ErrorKind::NotFound => "create its directory first",
                ErrorKind::PermissionDenied => {
                    "the directory must be writable, and only root and members of a group may give a socket to it"
                }
                _ => "choose another path with --socket",
            };
            anyhow!("cannot listen on {}: {error}: {what}", escaped(path))
        }
    }
}

fn why_not_address(error: &io::Error, address: SocketAddr) -> anyhow::Error {
    let what = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "another program listens there: `ss -tlnp 'sport = :{}'` shows it; --listen {}:0 selects a free port",
            address.port(),
            host(address)
        ),
        ErrorKind::AddrNotAvailable => {
            "this machine does not have that address; `ip address` lists its addresses".into()
        }
        ErrorKind::PermissionDenied => format!(
            "ports below 1024 need root; --listen {}:0 selects a free port",
            host(address)
        ),
        _ => "choose another address with --listen".into(),
    };
    anyhow!("cannot listen on {address}: {error}: {what}")
}

fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let groups = "root:x:0:\nadm:x:4:syslog,me\nadmin:x:110:\nbroken:x\n";
        assert_eq!(id_in(groups, "adm"), Some(4));
        assert_eq!(id_in(groups, "admin"), Some(110));
        for none in ["ad", "x", "broken", "", "adm:x"] {
            assert_eq!(id_in(groups, none), None, "{none:?} is no group");
        }
    }
}
