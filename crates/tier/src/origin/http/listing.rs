//! The lists of WebDAV (RFC 4918, section 9.1): which names are in a directory, and of which kind.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;

use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use reqwest::Url;

use crate::origin::{Entry, Kind};

/// The PROPFIND body: requests the kind only, so that the server need not open files.
pub(super) const QUESTION: &[u8] = b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\
    <D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/></D:prop></D:propfind>";

/// A server's list of a directory.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Whether the object is a directory.
    pub is_collection: bool,
    /// The entries of the directory.
    pub entries: Vec<Entry>,
}

/// Reads an answer about `of`. Names of other directories are left out.
pub(super) fn parse(xml: &[u8], of: &Url) -> io::Result<Listed> {
    let wrong = |why: String| {
        let why = format!("the server's list cannot be read: {why}");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    let mut reader = Reader::from_reader(xml);
    let mut listed = Listed::default();
    let (mut href, mut is_collection, mut is_in_href, mut depth) = (String::new(), false, false, 0);
    loop {
        let event = reader.read_event();
        match event.map_err(|error| wrong(error.to_string()))? {
            Event::Start(tag) => {
                depth += 1;
                match tag.local_name().as_ref() {
                    b"response" => (href, is_collection) = (String::new(), false),
                    b"href" => is_in_href = true,
                    b"collection" => is_collection = true,
                    _ => {}
                }
            }
            Event::Empty(tag) if tag.local_name().as_ref() == b"collection" => {
                is_collection = true;
            }
            Event::End(tag) => {
                depth -= 1;
                match tag.local_name().as_ref() {
                    b"href" => is_in_href = false,
                    b"response" => take(&mut listed, &href, is_collection, of),
                    _ => {}
                }
            }
            Event::Text(text) if is_in_href => {
                let text = text.decode().map_err(|error| wrong(error.to_string()))?;
                href.push_str(&text);
            }
            Event::GeneralRef(reference) if is_in_href => {
                let letter = letter(&reference).ok_or_else(|| wrong("an unknown entity".into()))?;
                href.push(letter);
            }
            Event::Eof if depth > 0 => return Err(wrong("it ends early".into())),
            Event::Eof => return Ok(listed),
            _ => {}
        }
    }
}

/// The letter that an entity of XML stands for.
fn letter(reference: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(letter)) = reference.resolve_char_ref() {
        return Some(letter);
    }
    let name = reference.decode().ok()?;
    resolve_predefined_entity(&name)?.chars().next()
}

/// Takes one response into the list.
fn take(listed: &mut Listed, href: &str, is_collection: bool, of: &Url) {
    // Whole URLs are written by some, of a host that they are not known by here.
    let Ok(url) = of.join(href.trim()) else {
        return;
    };
    let bytes = |path: &str| -> Vec<u8> { percent_decode_str(path).collect() };
    let (path, directory) = (bytes(url.path()), bytes(of.path()));
    let name = |path: &[u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    if name(&path) == name(&directory) {
        listed.is_collection |= is_collection;
        return;
    }
    let Some(rest) = path.strip_prefix(directory.as_slice()) else {
        return;
    };
    let name = name(rest);
    let is_plain = !name.is_empty() && name != b"." && name != b"..";
    if !is_plain || name.contains(&b'/') || name.contains(&0) {
        return;
    }
    let kind = match is_collection {
        true => Kind::Directory,
        false => Kind::File,
    };
    listed
        .entries
        .push(Entry::new(OsString::from_vec(name), kind));
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    fn parsed(xml: &str) -> io::Result<Listed> {
        parse(
            xml.as_bytes(),
            &Url::parse("http://host/dav/d%20d/").unwrap(),
        )
    }

    #[test]
    fn names_and_kinds_are_read_whatever_the_prefix() {
        // As lighttpd writes it; the second answer as others do, with a whole URL.
        let listed = parsed(
            "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">
            <D:response><D:href>/dav/d%20d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>
            </D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
            <response xmlns=\"DAV:\"><href>http://other/dav/d%20d/a&amp;b&#33;%2525</href>
            <propstat><prop><resourcetype/></prop></propstat></response>
            <x:response><x:href> /dav/d%20d/sub/ </x:href><x:collection></x:collection></x:response>
            <D:response><D:href>/dav/else</D:href></D:response>
            <D:response><D:href>/dav/d%20d/sub/deeper</D:href></D:response>
            <D:response><D:href>/dav/d%20d/%2e%2e/%2e%2e/up</D:href></D:response>
            <D:response><D:href>/dav/d%20d/one%2ftwo</D:href></D:response>
            </D:multistatus>",
        )
        .unwrap();
        assert!(listed.is_collection);
        let expected = [
            Entry::new("a&b!%25", Kind::File),
            Entry::new("sub", Kind::Directory),
        ];
        assert_eq!(listed.entries, expected);
    }

    proptest! {
        #[test]
        fn whatever_a_server_names_only_plain_names_come_of_it(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "/dav/d%20d/", "/", "a", ".", "..", "%2e%2e", "%2f", "%00", "%", "\\", "?", "#", ":", "//", "http://host",
                    "&amp;", "&#47;", "&#46;", " ", "é", "%ff", "<![CDATA[x]]>", "<href>b</href>",
                ]),
                0..12,
            ),
        ) {
            let href = format!("/dav/d%20d/{}", parts.concat());
            for href in [href, parts.concat()] {
                let xml = format!("<m><response><href>{href}</href></response></m>");
                let listed = parsed(&xml).expect("it is XML");
                for entry in listed.entries {
                    let bytes = entry.name.as_encoded_bytes();
                    prop_assert!(!bytes.contains(&0), "{:?}", entry.name);
                    let mut names = Path::new(&entry.name).components();
                    let name = names.next();
                    prop_assert_eq!(name, Some(Component::Normal(&entry.name)));
                    prop_assert_eq!(names.next(), None);
                }
            }
        }
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        for xml in [
            "<D:multistatus><D:response><D:href>/dav/d%20d/x</D:href>",
            "<a></b>",
            "<D:href>&nonsense;</D:href>",
        ] {
            let error = parsed(xml).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{xml}");
        }
        assert!(!parsed("no XML at all").unwrap().is_collection);
    }
}
