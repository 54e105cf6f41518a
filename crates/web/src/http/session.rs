//! Browsers: the token once, in a link's fragment, for a cookie.
//!
//! Browsers do not send fragments, so that no log and no history of a proxy has the token; and the cookie is another
//! secret, which ends with this server. Cookies go to every port of a host: a token in one would reach the servers of
//! other users.

use axum::http::{HeaderMap, header};

use crate::options::Token;

/// The cookie of a browser that has logged in.
pub(crate) struct Session {
    name: String,
    secret: Token,
}

impl Session {
    /// A new one; the name has the port, as a browser may see several servers on one host.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub(super) fn new(port: Option<u16>) -> std::io::Result<Session> {
        Ok(Session {
            name: port.map_or_else(|| "cachewise".into(), |port| format!("cachewise-{port}")),
            secret: Token::random()?,
        })
    }

    /// Whether a request has its cookie.
    pub(super) fn is_of(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(name, value)| name == self.name && self.secret.is(value.as_bytes()))
    }

    pub(super) fn cookie(&self) -> String {
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict",
            self.name,
            self.secret.reveal()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cookie_of_this_server_is_accepted() {
        let session = Session::new(Some(10029)).expect("the kernel has random bytes");
        let other = Session::new(Some(10029)).expect("the kernel has random bytes");
        let sent = |cookies: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookies.parse().expect("a header"));
            headers
        };
        let pair = |session: &Session| {
            let cookie = session.cookie();
            let (pair, _) = cookie.split_once(';').expect("it has attributes");
            pair.to_owned()
        };
        assert!(session.is_of(&sent(&pair(&session))), "its own");
        let among = format!("a=b; {}; c=d", pair(&session));
        assert!(session.is_of(&sent(&among)), "among others");
        assert!(
            !session.is_of(&sent(&pair(&other))),
            "not that of another run"
        );
        assert!(
            !session.is_of(&sent("cachewise-10029=")),
            "not an empty one"
        );
        let renamed = pair(&session).replace("10029", "10030");
        assert!(!session.is_of(&sent(&renamed)), "not under another name");
        assert!(
            session.cookie().contains("HttpOnly; SameSite=Strict"),
            "scripts and other sites cannot use it"
        );
    }
}
