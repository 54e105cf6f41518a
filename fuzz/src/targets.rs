//! Fuzz targets: each takes bytes from outside and must neither panic nor run for long.
//!
//! `fuzz_targets/` gives them to libFuzzer; `crates/cachewise/tests/project/fuzz.rs` to seeded mutations of the corpus.

use std::io::Write;

/// A target and its name, which is that of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 5] = [
    ("chunk", chunk),
    ("matrix", matrix),
    ("recording", recording),
    ("resp", resp),
    ("snapshot", snapshot),
];

/// A chunk of a published version: a list of objects, with or without extended attributes, or references.
pub fn chunk(data: &[u8]) {
    let _ = cachewise_tier::fuzzing::chunk(data);
}

/// A matrix file (TOML) and the runs that it means.
pub fn matrix(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(plan) = cachewise_bench::matrix::Plan::parse(&text) {
        for trial in plan.trials() {
            let _ = plan
                .arm(&trial.arm)
                .and_then(|arm| plan.workload(arm, &trial.workload, trial.repeat));
        }
    }
}

/// A recording, as it is and with sums that match: behind a wrong sum nothing is read.
pub fn recording(data: &[u8]) {
    for bytes in [data, &*summed(data)] {
        let Ok(mut file) = tempfile::NamedTempFile::new() else {
            return;
        };
        if file.write_all(bytes).is_err() {
            return;
        }
        if let Ok(mut reader) = cachewise_recording::Reader::open(file.path()) {
            while let Ok(Some(_)) = reader.next() {}
            let _ = (reader.problems(), reader.told());
        }
    }
}

/// The same bytes with the sums of each frame made anew.
fn summed(data: &[u8]) -> Vec<u8> {
    const HEAD: usize = 16;
    const MARK: &[u8] = &[0xca, 0xc4, 0xe5];
    let mut bytes = data.to_vec();
    let mut at = 0;
    while at + HEAD <= bytes.len() {
        let Some(length) = frame_length(&bytes[at..], MARK) else {
            at += 1;
            continue;
        };
        let end = (at + HEAD).saturating_add(length).min(bytes.len());
        let sum = crc32fast::hash(&bytes[at + HEAD..end]);
        bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[at..at + 12]);
        bytes[at + 12..at + HEAD].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    bytes
}

/// The length of the frame that begins here, if one does.
fn frame_length(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let length = bytes.starts_with(mark).then(|| bytes.get(4..8))??;
    Some(u32::from_le_bytes(length.try_into().ok()?) as usize)
}

/// Replies of Redis, with every length that a connection may have read so far.
pub fn resp(data: &[u8]) {
    let _ = cachewise_tier::fuzzing::resp(data);
}

/// A snapshot of residency, and every file in it.
pub fn snapshot(data: &[u8]) {
    if let Ok(reader) = cachewise_residency::snapshot::Reader::new(data) {
        for entry in reader {
            if entry.is_err() {
                return;
            }
        }
    }
}
