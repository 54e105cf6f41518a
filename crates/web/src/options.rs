//! Options of the server: endpoints, access and limits.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;

use crate::metrics::Collector;
use crate::names::Names;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An address; port 0 is any free one.
    Tcp(SocketAddr),
    /// A Unix socket with mode 0660.
    Unix {
        /// Its name.
        path: PathBuf,
        /// The id of its group; without one it has the group of the process.
        group: Option<u32>,
    },
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// From tick to tick of the live views.
    pub interval: Duration,
    /// The enabled collectors.
    pub collectors: Vec<Collector>,
    /// How many control groups have metrics of their own.
    pub top_groups: usize,
    /// The policy on file names.
    pub names: Names,
    /// Stacks are watched, and the page shows them.
    pub stacks: bool,
    /// The token that clients need.
    pub token: Option<Token>,
    /// Answer `/metrics` without the token.
    pub public_metrics: bool,
    /// Names, besides `localhost`, by which browsers may call this server.
    pub hosts: Vec<String>,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds on what clients can take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Streams of events at once.
    pub streams: usize,
    /// The time for the head of a request, and for the next one on a connection.
    pub head: Duration,
    /// The time for a client to take what is written to it.
    pub write: Duration,
    /// The time for an answer.
    pub answer: Duration,
    /// The size of a request's head.
    pub head_bytes: usize,
    /// The size of a connection's send buffer in the kernel, which bounds unread data.
    pub send_buffer_bytes: usize,
    /// Maximum memory of all large answers until clients have read them.
    pub answers_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1024,
            streams: 32,
            head: Duration::from_secs(10),
            write: Duration::from_secs(10),
            answer: Duration::from_secs(30),
            head_bytes: 16 << 10,
            send_buffer_bytes: 128 << 10,
            answers_bytes: 64 << 20,
        }
    }
}

/// The secret that a client must present.
#[derive(Clone)]
pub struct Token(String);

/// A token that can be guessed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the token needs at least {min} characters, all of them visible ASCII and none a space; it has {0} of those: \
     `head -c 24 /dev/urandom | base64` makes one",
    min = Token::LEAST
)]
pub struct WeakToken(usize);

impl Token {
    /// Fewer characters can be tried out.
    pub const LEAST: usize = 16;

    /// Takes it without the spaces and line feeds around it.
    ///
    /// # Errors
    /// If it is too short, or has characters that no header can carry.
    pub fn new(text: &str) -> Result<Token, WeakToken> {
        let text = text.trim();
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        match text.len() >= Token::LEAST && visible {
            true => Ok(Token(text.to_owned())),
            false => Err(WeakToken(
                text.chars().filter(char::is_ascii_graphic).count(),
            )),
        }
    }

    /// A new one that cannot be guessed: 24 bytes of the kernel's generator.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub fn random() -> io::Result<Token> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Token(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Its characters, for the one place that shows or sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is it; takes as long for a nearly right one as for a wrong one.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_differ_and_fit_into_a_header_and_a_link() {
        let [one, other] = [(); 2].map(|()| Token::random().expect("the kernel has random bytes"));
        assert_ne!(one.reveal(), other.reveal(), "each is new");
        assert!(
            Token::new(one.reveal()).is_ok(),
            "it keeps the rules that given tokens keep"
        );
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        assert!(
            one.reveal().bytes().all(plain),
            "a link and a cookie carry it unchanged"
        );
    }

    #[test]
    fn tokens_are_long_and_stay_secret() {
        assert!(Token::new("short").is_err(), "five characters can be tried");
        assert!(
            Token::new("with a space in the middle").is_err(),
            "no header carries it"
        );
        let token = Token::new("0123456789abcdef\n").expect("sixteen characters");
        assert!(
            token.is(b"0123456789abcdef"),
            "the line feed of a file is not part of it"
        );
        assert!(!token.is(b"0123456789abcdeF"), "each character counts");
        assert!(!token.is(b""), "nothing is not it");
        assert!(
            !format!("{token:?}").contains("0123"),
            "logs do not have it"
        );
    }
}
