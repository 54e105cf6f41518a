//! Snapshots, histories and options for property tests.

use cachewise_units::{ByteRange, Bytes};
use proptest::prelude::*;

use super::{FileId, FileState, History, Keep, Mode, PlanOptions, Snapshot};

/// Files of a few chunks, some with a second name, some unknown; a history that knows some of them.
pub(super) fn snapshots() -> impl Strategy<Value = (Snapshot, History)> {
    let files = prop::collection::vec(file(), 0..6);
    let headroom = prop::option::of((0..3_000_u64).prop_map(Bytes));
    let reads = prop::collection::vec((0..4_u64, 0..1_000_u64), 0..30);
    (files, headroom, reads).prop_map(|(mut files, headroom, reads)| {
        // Names of one file agree about it.
        for index in 1..files.len() {
            let same = files[..index]
                .iter()
                .find(|file| file.id == files[index].id);
            if let Some(same) = same.cloned() {
                files[index] = same;
            }
        }
        let snapshot = Snapshot {
            files,
            chunk: Bytes(100),
            headroom,
        };
        let mut history = History::default();
        history.begin(&snapshot);
        for (file, offset) in reads {
            history.read(id(file), offset);
        }
        (snapshot, history)
    })
}

fn file() -> impl Strategy<Value = FileState> {
    let size = prop_oneof![Just(0), 1..1_000_u64, (1..10_u64).prop_map(|n| n * 100)];
    let resident = prop_oneof![
        Just(None),
        Just(Some(vec![(0, 1_000)])),
        Just(Some(vec![])),
        prop::collection::vec((1..200_u64, 1..200_u64), 0..5).prop_map(Some),
    ];
    (0..4_u64, size, resident, any::<bool>()).prop_map(|(number, size, gaps, open_elsewhere)| {
        let ranges = gaps.map(|gaps| {
            let mut end = 0;
            let ranges = gaps.into_iter().map(|(gap, len)| {
                let start = end + gap;
                end = start + len;
                ByteRange { start, len }
            });
            ranges.filter(|range| range.start < size).collect()
        });
        FileState {
            id: id(number),
            size: Bytes(size),
            resident: ranges,
            open_elsewhere,
        }
    })
}

fn id(number: u64) -> FileId {
    FileId {
        device: (8, 1),
        number,
    }
}

pub(super) fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Free),
        Just(Mode::Fixed),
        any::<u64>().prop_map(Mode::Shuffle)
    ]
}

pub(super) fn options() -> impl Strategy<Value = PlanOptions> {
    let keep = prop_oneof![Just(Keep::Share), Just(Keep::Keep), Just(Keep::AsFound)];
    (modes(), keep, any::<bool>()).prop_map(|(mode, keep, each_link)| PlanOptions {
        mode,
        keep,
        each_link,
    })
}
