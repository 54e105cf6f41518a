//! The calls of a stack as one text: the numbers of their texts, the innermost first.
//!
//! The text of a call has fields that end with a NUL byte, which neither names nor paths contain: function, file, line, module,
//! marks, code of a reason. Fields that a later version appends are ignored.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cachewise_model::{Frame, Reason};

use crate::names::{NamesIn, NamesOut, reason};
use crate::varint::{Input, Malformed, put};

/// Calls of a stack that are recorded at most; the outer ones are left out.
pub(crate) const MOST_CALLS: usize = 1024;

/// Bytes of a function, a file or a module that are recorded at most, so that a call's text is whole.
const LONGEST_FIELD: usize = 2048;

const KERNEL: u8 = b'k';
const INLINED: u8 = b'i';
const LIBRARY: u8 = b'l';

pub(crate) fn encoded(frames: &[Frame], names: &mut NamesOut) -> Vec<u8> {
    let mut numbers = Vec::new();
    for frame in &frames[..frames.len().min(MOST_CALLS)] {
        put(&mut numbers, names.number(&text(frame)));
    }
    numbers
}

pub(crate) fn decoded(numbers: &[u8], names: &NamesIn) -> Result<Vec<Frame>, Malformed> {
    let mut input = Input(numbers);
    let mut frames = Vec::new();
    while !input.0.is_empty() {
        frames.push(frame(names.text(input.number()?)?)?);
    }
    Ok(frames)
}

fn text(frame: &Frame) -> Vec<u8> {
    let path = |path: &Option<PathBuf>| {
        let path = path.as_deref().map(Path::as_os_str);
        path.map(OsStr::as_bytes).unwrap_or_default().to_owned()
    };
    let marks = [
        (frame.is_kernel, KERNEL),
        (frame.is_inlined, INLINED),
        (frame.is_library, LIBRARY),
    ];
    let marks = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark);
    let line = frame.line.map(|line| line.to_string());
    let fields = [
        frame.function.clone().unwrap_or_default().into_bytes(),
        path(&frame.file),
        line.unwrap_or_default().into_bytes(),
        path(&frame.module),
        marks.collect(),
        frame.unknown.map_or("", Reason::code).as_bytes().to_owned(),
    ];
    let mut text = Vec::new();
    for field in fields {
        let field = field.iter().take(LONGEST_FIELD).filter(|byte| **byte != 0);
        text.extend(field);
        text.push(0);
    }
    text
}

fn frame(text: &[u8]) -> Result<Frame, Malformed> {
    let mut fields = text.split(|byte| *byte == 0);
    let mut next = || fields.next().filter(|field| !field.is_empty());
    let string = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let path = |field: &[u8]| PathBuf::from(OsStr::from_bytes(field));
    let function = next().map(string);
    let file = next().map(path);
    let line = next().map(|digits| string(digits).parse());
    let line = line.transpose();
    let line = line.map_err(|_| Malformed("a call's line is no number"))?;
    let module = next().map(path);
    let marks = next().unwrap_or_default();
    Ok(Frame {
        function,
        file,
        line,
        module,
        is_kernel: marks.contains(&KERNEL),
        is_inlined: marks.contains(&INLINED),
        is_library: marks.contains(&LIBRARY),
        unknown: next().map(reason),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_and_equal_ones_have_one_text() {
        let read = Frame {
            function: Some("filemap_read".into()),
            is_kernel: true,
            is_library: true,
            ..Frame::default()
        };
        let load = Frame {
            function: Some("load<&str>".into()),
            file: Some("src/load.rs".into()),
            line: Some(42),
            module: Some("/usr/bin/program".into()),
            is_inlined: true,
            ..Frame::default()
        };
        let bare = Frame {
            unknown: Some(Reason::NotInFile),
            ..Frame::default()
        };
        let frames = vec![read, load.clone(), bare, load];
        let (mut names, mut back) = (NamesOut::default(), NamesIn::default());
        let numbers = encoded(&frames, &mut names);
        assert_eq!(numbers.len(), 4, "a byte for each call");
        let mut told = Vec::new();
        names.tell(&mut told);
        back.learn(&mut Input(&told)).unwrap();
        assert_eq!(decoded(&numbers, &back), Ok(frames), "as they were");
        assert!(decoded(&[9], &back).is_err(), "a call that was never told");
    }

    #[test]
    fn a_long_name_leaves_the_other_fields_whole() {
        let frame = Frame {
            function: Some("f".repeat(10_000)),
            line: Some(7),
            ..Frame::default()
        };
        let (mut names, mut back) = (NamesOut::default(), NamesIn::default());
        let numbers = encoded(std::slice::from_ref(&frame), &mut names);
        let mut told = Vec::new();
        names.tell(&mut told);
        back.learn(&mut Input(&told)).unwrap();
        let read = &decoded(&numbers, &back).unwrap()[0];
        assert_eq!(read.line, Some(7));
        let name = read.function.as_deref().map(str::len);
        assert_eq!(name, Some(LONGEST_FIELD), "its beginning");
    }
}
