//! [`ObjectState`]: the state of an object in an answer.

use std::time::{Duration, SystemTime};

use reqwest::header::{
    AGE, CONTENT_ENCODING, DATE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MATCH,
    IF_UNMODIFIED_SINCE, LAST_MODIFIED,
};

use crate::origin::Version;

/// After how long a second write gets another `Last-Modified`, which has whole seconds: what it was
/// cut off, and what clocks of file systems lag behind.
const STEP: Duration = Duration::from_secs(2);

/// The validators by which a server distinguishes states of an object, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::origin) struct ObjectState {
    etag: String,
    modified: String,
    /// How the bytes are packed: a server that packs some answers and not others would have two files under one name.
    packed: String,
}

impl ObjectState {
    /// Takes it from the head of an answer; none where nothing there tells one state from the next.
    /// A weak ETag alone does not: the server says that bytes may differ under it.
    pub(in crate::origin) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let state = Self {
            etag: text(headers, &ETAG).trim().to_owned(),
            modified: text(headers, &LAST_MODIFIED).trim().to_owned(),
            packed: match text(headers, &CONTENT_ENCODING).trim() {
                "identity" => String::new(),
                packed => packed.to_ascii_lowercase(),
            },
        };
        (state.is_strong() || state.modified().is_some()).then_some(state)
    }

    /// Takes an ETag and a time that were parsed already.
    pub(in crate::origin) fn new(etag: &str, modified: Option<SystemTime>) -> Option<Self> {
        let state = Self {
            etag: etag.trim().to_owned(),
            modified: modified.map(httpdate::fmt_http_date).unwrap_or_default(),
            packed: String::new(),
        };
        (state.is_strong() || modified.is_some()).then_some(state)
    }

    /// Takes it out of a version that was made of one.
    pub(in crate::origin) fn of_version(version: &Version) -> Option<Self> {
        let mut lines = version.as_str().split('\n').map(str::to_owned);
        Some(Self {
            etag: lines.next()?,
            modified: lines.next()?,
            packed: lines.next().unwrap_or_default(),
        })
    }

    /// Returns the version for keys. Line breaks separate the parts, as no header contains one.
    pub(in crate::origin) fn version(&self) -> Version {
        Version::new(&format!(
            "{}\n{}\n{}",
            self.etag, self.modified, self.packed
        ))
    }

    /// The ETag, if it stands for bytes.
    pub(in crate::origin) fn etag(&self) -> Option<&str> {
        self.is_strong().then_some(self.etag.as_str())
    }

    pub(in crate::origin) fn modified(&self) -> Option<SystemTime> {
        httpdate::parse_http_date(&self.modified).ok()
    }

    fn is_strong(&self) -> bool {
        self.etag.len() > 2 && self.etag.starts_with('"') && self.etag.ends_with('"')
    }

    /// Has the server answer only of this state.
    pub(in crate::origin) fn require(&self, headers: &mut HeaderMap) {
        let (name, value) = match self.etag() {
            Some(etag) => (IF_MATCH, etag),
            None => (IF_UNMODIFIED_SINCE, self.modified.as_str()),
        };
        // It came out of a header, so that it can be one.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }

    /// Returns the time from which every write changes the validators, by this machine's clock.
    ///
    /// This applies to strong ETags too, as nginx derives them from the time in seconds and the
    /// size. The server's clock counts, as `Last-Modified` comes from it.
    pub(in crate::origin) fn keep_from(&self, headers: &HeaderMap) -> Option<SystemTime> {
        let shows_from = self.modified()?.checked_add(STEP)?;
        let now = SystemTime::now();
        match httpdate::parse_http_date(&text(headers, &DATE)) {
            // An intermediate cache reports the age of its copy.
            Ok(there) => match shows_from.duration_since(there + age(headers)) {
                Ok(left) => now.checked_add(left),
                Err(_) => None,
            },
            Err(_) => (shows_from > now).then_some(shows_from),
        }
    }
}

/// How long an answer has been in a cache between the server and us.
fn age(headers: &HeaderMap) -> Duration {
    let seconds = text(headers, &AGE).trim().parse::<u32>();
    Duration::from_secs(seconds.unwrap_or_default().into())
}

/// A header as text; empty where there is none, or none that is text.
fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    const WRITTEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    #[test]
    fn what_does_not_tell_states_apart_is_no_state() {
        assert_eq!(ObjectState::from_headers(&head(&[])), None);
        assert_eq!(
            ObjectState::from_headers(&head(&[(ETAG, "W/\"1\"")])),
            None,
            "weak alone"
        );
        assert_eq!(
            ObjectState::from_headers(&head(&[(ETAG, "\"\"")])),
            None,
            "of nothing"
        );
        assert_eq!(
            ObjectState::from_headers(&head(&[(LAST_MODIFIED, "once")])),
            None
        );
        for told in [
            head(&[(ETAG, "\"1\"")]),
            head(&[(LAST_MODIFIED, WRITTEN)]),
            head(&[(ETAG, "W/\"1\""), (LAST_MODIFIED, WRITTEN)]),
        ] {
            let state = ObjectState::from_headers(&told).unwrap();
            assert_eq!(
                ObjectState::of_version(&state.version()),
                Some(state),
                "{told:?}"
            );
        }
    }

    #[test]
    fn packed_bytes_are_another_state() {
        let of = |packing| {
            ObjectState::from_headers(&head(&[(ETAG, "\"1\""), (CONTENT_ENCODING, packing)]))
                .unwrap()
        };
        let plain = ObjectState::from_headers(&head(&[(ETAG, "\"1\"")])).unwrap();
        assert_eq!(of("identity"), plain);
        assert_ne!(of("gzip"), plain);
        assert_ne!(of("gzip").version(), plain.version());
        assert_eq!(
            ObjectState::of_version(&of("gzip").version()),
            Some(of("gzip"))
        );
    }

    #[test]
    fn the_strongest_that_there_is_is_required() {
        let required = |told: &[(HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            ObjectState::from_headers(&head(told))
                .unwrap()
                .require(&mut headers);
            headers
        };
        let both = required(&[(ETAG, "\"1\""), (LAST_MODIFIED, WRITTEN)]);
        assert_eq!(both, head(&[(IF_MATCH, "\"1\"")]));
        // A weak ETag never matches, by the rules of If-Match.
        let weak = required(&[(ETAG, "W/\"1\""), (LAST_MODIFIED, WRITTEN)]);
        assert_eq!(weak, head(&[(IF_UNMODIFIED_SINCE, WRITTEN)]));
    }

    #[test]
    fn what_was_written_within_the_step_is_not_settled_by_the_servers_clock() {
        let left = |told: &[(HeaderName, &str)]| {
            let told = head(told);
            let from = ObjectState::from_headers(&told).unwrap().keep_from(&told);
            from.map(|from| from.duration_since(SystemTime::now()).unwrap_or_default())
        };
        let (written, etag) = ((LAST_MODIFIED, WRITTEN), (ETAG, "\"1\""));
        let same = left(&[written.clone(), etag.clone(), (DATE, WRITTEN)]).unwrap();
        assert!(same > Duration::from_secs(1), "{same:?}");
        let old = [written.clone(), (DATE, WRITTEN), (AGE, "7")];
        let of_a_cache = left(&old).unwrap_or_default();
        assert_eq!(of_a_cache, Duration::ZERO, "in a cache for 7 seconds");
        let later = (DATE, "Sun, 06 Nov 1994 08:49:39 GMT");
        assert_eq!(
            left(&[written.clone(), later]).unwrap_or_default(),
            Duration::ZERO
        );
        assert_eq!(left(&[written]), None, "by our own clock, long ago");
        assert_eq!(left(&[etag]), None, "the ETag is all that there is");
    }
}
