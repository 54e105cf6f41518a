//! URLs: what may be one of an origin, and those of what is below it.

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::Error;
use crate::remote::Secret;

/// Characters that a URL contains unencoded; all others become `%` and two digits.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn wrong(why: &str) -> Error {
    Error::Setting {
        setting: "origin",
        why: why.to_owned(),
    }
}

/// Parses an origin's URL as a directory. Errors do not show it, as it may contain a password.
pub(super) fn base(text: &str) -> Result<Url, Error> {
    let mut url = Url::parse(text).map_err(|error| wrong(&format!("not a URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "a user or a password in the URL is seen by everybody on this machine, and not taken: \
             leave it out, and set CACHEWISE_TIER_ORIGIN_AUTHORIZATION in the environment",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong(
            "a URL with ? or # has nothing below it: name the directory, and files as paths",
        ));
    }
    if !url.path().ends_with('/') {
        let with_slash = format!("{}/", url.path());
        url.set_path(&with_slash);
    }
    Ok(url)
}

/// The URL of a path of plain names.
pub(super) fn below(base: &Url, path: &Path) -> Url {
    let mut names = base.path().to_owned();
    for (place, name) in path.iter().enumerate() {
        if place > 0 {
            names.push('/');
        }
        names.extend(percent_encode(name.as_encoded_bytes(), PLAIN));
    }
    let mut url = base.clone();
    url.set_path(&names);
    url
}

/// Returns whether the path of a URL is that of another one with a slash at its end, after decoding. The hosts may differ:
/// a server may not know its name outside.
pub(super) fn is_with_slash(url: &Url, of: &Url) -> bool {
    let path = |url: &Url| -> Vec<u8> { percent_decode_str(url.path()).collect() };
    path(url).strip_suffix(b"/") == Some(path(of).as_slice())
}

/// Returns the header that is sent with each request.
pub(super) fn authorization(secret: &Secret) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| Error::Setting {
        setting: "authorization",
        why: "it cannot be a header: it has line breaks, or letters that are not ASCII".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_what_they_are() {
        let base = base("HTTP://Example.org:80/some%20data").unwrap();
        assert_eq!(base.as_str(), "http://example.org/some%20data/");
        let url = |path: &str| below(&base, Path::new(path)).to_string();
        assert_eq!(url(""), base.as_str());
        assert_eq!(url("a/b.bin"), format!("{base}a/b.bin"));
        assert_eq!(url("50%/a b?c#d"), format!("{base}50%25/a%20b%3Fc%23d"));
        assert_eq!(url("%2e%2e/x"), format!("{base}%252e%252e/x"), "no way up");
        assert_eq!(url("é"), format!("{base}%C3%A9"));
    }

    #[test]
    fn a_slash_at_the_end_is_known_however_it_is_written() {
        let base = base("http://host/x").unwrap();
        let asked = below(&base, Path::new("a (b)+é"));
        let is = |text: &str| is_with_slash(&asked.join(text).unwrap(), &asked);
        assert!(is("http://internal:8080/x/a%20(b)+%c3%a9/"));
        assert!(is("/x/a (b)%2Bé/"));
        assert!(!is("/x/a%20(b)+é"));
        assert!(!is("/y/a%20(b)+é/"));
        assert!(!is("/x/a%20(b)+é//"));
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in [
            "http://me:geheim@host/",
            "https://geheim@host/x",
            "http://host/?token=geheim",
            "http://host/#geheim",
            "http://me:geheim@ho st/",
            "http://me:geheim@host:99999/",
        ] {
            let said = base(url).unwrap_err().to_string();
            assert!(!said.contains("geheim"), "{said}");
            assert!(said.starts_with("origin: "), "{said}");
        }
    }
}
