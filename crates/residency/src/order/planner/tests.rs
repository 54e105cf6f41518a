use std::collections::HashSet;

use proptest::prelude::*;

use super::super::snapshot::between;
use super::super::{FileId, strategies};
use super::*;

const CHUNK: u64 = 100;

fn id(number: u64) -> FileId {
    FileId {
        device: (8, 1),
        number,
    }
}

fn file(number: u64, size: u64, resident: &[(u64, u64)]) -> FileState {
    let ranges = resident.iter().map(|&(start, end)| between(start, end));
    FileState {
        id: id(number),
        size: Bytes(size),
        resident: Some(ranges.collect()),
        open_elsewhere: false,
    }
}

fn snapshot(files: Vec<FileState>) -> Snapshot {
    Snapshot {
        files,
        chunk: Bytes(CHUNK),
        headroom: None,
    }
}

fn options(mode: Mode, keep: Keep) -> PlanOptions {
    PlanOptions {
        mode,
        keep,
        each_link: false,
    }
}

/// Where the steps begin.
fn order(plan: &Plan) -> Vec<(usize, u64)> {
    let steps = plan.steps();
    steps.map(|step| (step.file, step.range.start)).collect()
}

#[test]
fn free_reads_hits_from_the_newest_then_parts_then_misses() {
    let snapshot = snapshot(vec![
        file(1, 300, &[(100, 300)]),
        file(2, 350, &[(0, 20), (100, 190), (300, 350)]),
    ]);
    let mut history = History::default();
    let free = options(Mode::Free, Keep::Share);
    history.begin(&snapshot);
    assert_eq!(
        order(&plan(&snapshot, &history, &free)),
        [
            (0, 100),
            (0, 200),
            (1, 300),
            (1, 100),
            (1, 0),
            (0, 0),
            (1, 200)
        ],
        "without a history the end with more resident bytes is the newest"
    );
    for offset in [100, 200] {
        history.read(id(1), offset);
    }
    assert_eq!(
        order(&plan(&snapshot, &history, &free))[..3],
        [(0, 200), (0, 100), (1, 300)],
        "what was read last comes first, what never was comes last"
    );
}

#[test]
fn without_a_history_hits_start_at_the_end_that_was_evicted_least() {
    let free = options(Mode::Free, Keep::Share);
    let hits = |files: Vec<FileState>| {
        let plan = plan(&snapshot(files), &History::default(), &free);
        let hits = plan.steps().filter(|step| step.class == RangeClass::Hit);
        hits.map(|step| (step.file, step.range.start))
            .collect::<Vec<_>>()
    };
    let (absent, present) = (file(1, 200, &[]), file(2, 200, &[(0, 200)]));
    assert_eq!(
        hits(vec![
            absent.clone(),
            present.clone(),
            file(3, 100, &[(0, 100)])
        ]),
        [(2, 0), (1, 100), (1, 0)],
        "the first file was evicted: the last reader ended with the last one"
    );
    assert_eq!(
        hits(vec![present, file(3, 100, &[(0, 100)]), absent]),
        [(0, 0), (0, 100), (1, 0)],
        "the last file was evicted: the last reader ended with the first one"
    );
}

#[test]
fn fixed_drops_its_own_misses_only() {
    let shared = FileState {
        open_elsewhere: true,
        ..file(3, 200, &[(0, 100)])
    };
    let unknown = FileState {
        resident: None,
        ..file(4, 100, &[])
    };
    let snapshot = snapshot(vec![file(1, 300, &[(100, 200)]), shared, unknown]);
    let plan = plan(
        &snapshot,
        &History::default(),
        &options(Mode::Fixed, Keep::AsFound),
    );
    let steps: Vec<_> = plan.steps().map(|step| (step.class, step.after)).collect();
    let expected = [
        (RangeClass::Miss, After::Drop),
        (RangeClass::Hit, After::Keep),
        (RangeClass::Miss, After::Drop),
        (RangeClass::Hit, After::Keep),
        // Open elsewhere.
        (RangeClass::Miss, After::Keep),
        (RangeClass::Unknown, After::Keep),
    ];
    assert_eq!(
        steps, expected,
        "hits, the files of others and the unknown stay"
    );
}

#[test]
fn keep_admits_what_it_is_granted_and_what_there_is_room_for() {
    let mut snapshot = snapshot(vec![file(1, 1_000, &[(900, 1_000)])]);
    let keep = options(Mode::Fixed, Keep::Keep);
    let admitted = |snapshot: &Snapshot| {
        let plan = plan(snapshot, &History::default(), &keep);
        let kept = plan.steps().filter(|step| step.class == RangeClass::Miss);
        let kept = kept.take_while(|step| step.after == After::Keep).count() as u64;
        assert_eq!(
            plan.prediction.admitted,
            Bytes(kept * CHUNK),
            "as many as predicted"
        );
        kept
    };
    assert_eq!(
        admitted(&snapshot),
        4,
        "the first grant, where nobody knows the room"
    );
    snapshot.headroom = Some(Bytes(250));
    assert_eq!(admitted(&snapshot), 2, "no more than there is room for");
}

#[test]
fn there_is_not_always_something_to_gain() {
    let history = History::default();
    let fixed = options(Mode::Free, Keep::Keep);
    let declined = |files: Vec<FileState>| {
        let plan = plan(&snapshot(files), &history, &fixed);
        let in_order = plan
            .steps()
            .is_sorted_by_key(|step| (step.file, step.range.start));
        let kept = plan.steps().all(|step| step.after == After::Keep);
        assert!(
            plan.declined.is_none() || in_order && kept,
            "then all is left as it is"
        );
        plan.declined
    };
    assert_eq!(
        declined(vec![file(1, 300, &[])]),
        Some(DeclineReason::NothingResident),
        "R = 0"
    );
    assert_eq!(
        declined(vec![file(1, 300, &[(0, 400)])]),
        Some(DeclineReason::AllResident),
        "R = S"
    );
    assert_eq!(
        declined(vec![]),
        Some(DeclineReason::AllResident),
        "no files at all"
    );
    let unknown = FileState {
        resident: None,
        ..file(1, 300, &[])
    };
    assert_eq!(
        declined(vec![unknown.clone(), file(3, 0, &[])]),
        Some(DeclineReason::ResidencyUnknown),
        "nobody can know"
    );
    assert_eq!(
        declined(vec![unknown, file(2, 300, &[(0, 300)])]),
        None,
        "of some one can"
    );
}

#[test]
fn a_file_with_two_names_is_read_once_or_twice() {
    let snapshot = snapshot(vec![
        file(1, 300, &[(0, 100)]),
        file(1, 300, &[(0, 100)]),
        file(2, 100, &[]),
    ]);
    let once = options(Mode::Fixed, Keep::Share);
    let plan_once = plan(&snapshot, &History::default(), &once);
    assert_eq!(
        plan_once.prediction.total,
        Bytes(400),
        "the second name adds nothing"
    );
    let each = PlanOptions {
        each_link: true,
        ..once
    };
    let plan_each = plan(&snapshot, &History::default(), &each);
    assert_eq!(plan_each.prediction.total, Bytes(700), "a stream has both");
    assert_eq!(
        snapshot.total(),
        Bytes(400),
        "and the files are what they are"
    );
}

#[test]
fn runs_join_what_is_read_alike() {
    let snapshot = snapshot(vec![file(1, 500, &[(0, 200)]), file(2, 100, &[])]);
    let plan = plan(
        &snapshot,
        &History::default(),
        &options(Mode::Fixed, Keep::AsFound),
    );
    let runs: Vec<_> = plan
        .runs()
        .map(|run| (run.file, run.range, run.class))
        .collect();
    let expected = [
        (0, between(0, 200), RangeClass::Hit),
        (0, between(200, 500), RangeClass::Miss),
        (1, between(0, 100), RangeClass::Miss),
    ];
    assert_eq!(runs, expected, "up to the next class or file");
}

#[test]
fn whole_files_are_ranked_by_the_part_that_is_resident() {
    let snapshot = snapshot(vec![
        file(1, 1_000, &[(0, 500)]),
        file(2, 100, &[(0, 100)]),
        file(3, 0, &[]),
        file(4, 100, &[(0, 100)]),
        file(2, 100, &[(0, 100)]),
    ]);
    let mut history = History::default();
    assert_eq!(
        snapshot.hottest_first(&history),
        [1, 3, 0, 2],
        "the first of equal ones, where the first half has more resident bytes"
    );
    history.begin(&snapshot);
    history.read(id(4), 0);
    assert_eq!(
        snapshot.hottest_first(&history),
        [3, 1, 0, 2],
        "or the newest, if known"
    );
}

#[test]
fn unknown_files_keep_the_order_of_the_caller() {
    let unknown = |number| FileState {
        resident: None,
        ..file(number, 100, &[])
    };
    let mixed = snapshot(vec![
        file(1, 100, &[]),
        unknown(2),
        file(3, 100, &[(0, 50)]),
        unknown(4),
    ]);
    assert_eq!(
        mixed.hottest_first(&History::default()),
        [2, 1, 3, 0],
        "after what is known to be there, before what is known not to be"
    );
    let told = plan(
        &mixed,
        &History::default(),
        &options(Mode::Free, Keep::Share),
    )
    .prediction;
    assert_eq!(
        (told.resident, told.unknown, told.bound),
        (Bytes(50), Bytes(200), Bytes(150)),
        "what may be resident is not said to be missing"
    );
}

proptest! {
    #[test]
    fn every_byte_is_read_exactly_once(
        (snapshot, history) in strategies::snapshots(), options in strategies::options(),
    ) {
        let plan = plan(&snapshot, &history, &options);
        let mut seen: Vec<Vec<ByteRange>> = vec![Vec::new(); snapshot.files.len()];
        for step in plan.steps() {
            seen[step.file].push(step.range);
        }
        let mut names = HashSet::new();
        for (index, file) in snapshot.files.iter().enumerate() {
            let ranges = &mut seen[index];
            if !names.insert(file.id) && !options.each_link {
                prop_assert!(ranges.is_empty(), "file {} is another one's second name", index);
                continue;
            }
            ranges.sort_by_key(|range| range.start);
            prop_assert!(!ranges.is_empty(), "file {} is looked at, even if it is empty", index);
            let mut end = 0;
            for range in ranges {
                prop_assert_eq!(range.start, end, "file {}: neither a gap nor an overlap", index);
                end = range.end();
            }
            prop_assert_eq!(end, file.size.0, "file {}: to its end", index);
        }
    }

    #[test]
    fn the_same_gives_the_same(
        (snapshot, history) in strategies::snapshots(), options in strategies::options(),
    ) {
        let again = plan(&snapshot.clone(), &history.clone(), &options);
        prop_assert_eq!(plan(&snapshot, &history, &options), again, "nothing else goes in");
    }

    #[test]
    fn fixed_is_the_callers_order(
        (snapshot, history) in strategies::snapshots(), options in strategies::options(),
    ) {
        let options = PlanOptions { mode: Mode::Fixed, ..options };
        let plan = plan(&snapshot, &history, &options);
        prop_assert!(
            plan.steps().is_sorted_by_key(|step| (step.file, step.range.start)),
            "file by file, from the first byte to the last"
        );
    }

    #[test]
    fn hits_come_first_and_are_never_dropped(
        (snapshot, history) in strategies::snapshots(), options in strategies::options(),
    ) {
        let plan = plan(&snapshot, &history, &options);
        for step in plan.steps() {
            let file = &snapshot.files[step.file];
            let resident = file.resident_in(step.range);
            let is_hit = resident == Some(Bytes(step.range.len)) && !step.range.is_empty();
            prop_assert_eq!(step.class == RangeClass::Hit, is_hit, "only a full chunk is a hit");
            if step.after == After::Drop {
                prop_assert!(
                    !is_hit && resident.is_some() && !file.open_elsewhere && options.keep != Keep::Share,
                    "{:?} is not ours to drop", step
                );
            }
        }
        if plan.declined.is_none() && options.mode != Mode::Fixed {
            prop_assert!(
                plan.steps().is_sorted_by_key(|step| step.class), "hits, parts, unknown, misses"
            );
        }
    }

    #[test]
    fn the_prediction_adds_up(
        (snapshot, history) in strategies::snapshots(), options in strategies::options(),
    ) {
        let options = PlanOptions { each_link: false, ..options };
        let Prediction { total, resident, unknown, planned_hits, admitted, bound } =
            plan(&snapshot, &history, &options).prediction;
        prop_assert_eq!(total, snapshot.total(), "all files");
        prop_assert_eq!(resident, snapshot.resident(), "what is there");
        prop_assert!(planned_hits <= resident && resident <= total, "parts of the whole");
        prop_assert!(resident + unknown <= total, "nothing is both");
        prop_assert!(
            bound <= total.saturating_sub(resident + unknown),
            "what is there, or may be, need not be read"
        );
        prop_assert!(admitted <= total.saturating_sub(resident), "only misses are admitted");
    }
}
