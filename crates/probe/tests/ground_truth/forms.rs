//! Odd requests: unaligned, across and beyond the end, nested in each other, in unusual forms.
//!
//! Margins, each with its reason:
//!
//! - *Reflinks*: copy_file_range at block boundaries on xfs and btrfs shares the blocks. No page is
//!   read, and 0 is expected.
//! - *RWF_DONTCACHE* takes its pages out again while the oracle looks: requests, pages and hits are
//!   exact, and what came in is compared with what went out.

use std::fs::File;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use libtest_mimic::Trial;

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::oracle::{Expected, Folios, Oracle, State, Subject, Touched, page_size};
use crate::problem::{Context, Result};
use crate::random::Random;
use crate::reader::{Access, At, Call, Mapping, Tools, Way, submit};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, FAULTS, Label, READS, known};

/// Not a whole number of pages, so that the last page is a part of one.
const ODD_BYTES: u64 = (4 << 20) + 1234;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "unaligned", unaligned));
        trials.push(trial(kind, "nested", nested));
        trials.push(trial(kind, "io_uring_forms", io_uring_forms));
        trials.push(trial(kind, "into_own_mapping", into_own_mapping));
        trials.push(trial(kind, "dontcache", dontcache));
        trials.push(trial(kind, "many_segments", many_segments));
        if kind.has_reflinks() {
            trials.push(trial(kind, "reflink", reflink));
        }
    }
    let large = FileSystem::XfsLargeBlocks;
    trials.push(trial(large, "unaligned", unaligned));
    trials.push(trial(large, "nested", nested));
    trials
}

/// One reader's case: prepared, read by `work` beside the oracle, and compared exactly.
fn exactly(
    room: &mut Room,
    label: Label,
    subject: &Subject,
    state: State,
    folios: Folios,
    mut work: impl FnMut(Oracle, &mut Tools, Random) -> Result<Expected>,
) {
    let label = label.prepared(state, folios);
    let measured = room.stand.measure(
        &label,
        subject,
        Evictions::Spoil,
        || subject.prepare(state, folios, &mut Random::named(&label.line())),
        |touched, tools| {
            work(
                Oracle::new(subject, touched),
                tools,
                Random::named(&label.line()),
            )
        },
    );
    match measured {
        Ok(done) => {
            let comparison = Comparison::of_reads(&done.expected, done.inserted, &done.ledger);
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
}

/// The states in which odd requests are tried.
const PREPARED: [(State, Folios); 4] = [
    (State::Cold, Folios::Large),
    (State::Cold, Folios::Small),
    (State::Half, Folios::Small),
    (State::Warm, Folios::Large),
];

/// The calls that read at an offset, without those that docs/counting.md calls inexact on this file system.
fn calls_of(room: &Room) -> impl Iterator<Item = Call> + use<> {
    let kind = room.kind;
    Call::ALL.into_iter().filter(move |call| {
        *call != Call::Mmap && !(kind == FileSystem::XfsLargeBlocks && *call == Call::IoUringAsync)
    })
}

/// readv-like calls into more pieces than a small array has, up to the 1,024 that the kernel takes.
fn many_segments(room: &mut Room) -> Result<()> {
    let subject = room.file("segments", 4 << 20)?;
    for (state, folios) in PREPARED {
        for (segments, length, order) in [
            (17, 100, "17 pieces"),
            (500, 4, "500 pieces"),
            (1024, 1000, "1024 pieces"),
        ] {
            let label = Label::new(room.kind.name(), "preadv, many segments")
                .size(segments * length)
                .order(order);
            exactly(room, label, &subject, state, folios, |mut oracle, _, _| {
                let file = File::open(subject.path()).context("open for reading")?;
                let mut memory = vec![0; (segments * length) as usize];
                let mut pieces: Vec<_> = memory
                    .chunks_mut(length as usize)
                    .map(std::io::IoSliceMut::new)
                    .collect();
                for offset in [0, 12_345, 3 << 20] {
                    oracle.request(offset, segments * length, || {
                        rustix::io::preadv(&file, &mut pieces, offset)
                            .map(|got| got as u64)
                            .context("preadv")
                    })?;
                }
                Ok(oracle.expected())
            });
        }
    }
    Ok(())
}

/// Every call with ranges that begin and end anywhere, beyond the end of the file too.
fn unaligned(room: &mut Room) -> Result<()> {
    let subject = room.file("odd", ODD_BYTES)?;
    for call in calls_of(room) {
        for (state, folios) in PREPARED {
            let way = room.way(call, folios);
            let label = Label::new(room.kind.name(), format!("{}, unaligned", call.name()));
            let in_sequence = label.clone().size(100_003).order("sequential");
            exactly(
                room,
                in_sequence,
                &subject,
                state,
                folios,
                |mut oracle, tools, _| {
                    let mut reader = way.open(subject.path(), tools)?;
                    let mut offset = 0;
                    loop {
                        let at = At::Position(offset);
                        let got =
                            oracle.request(offset, 100_003, || reader.request(at, 100_003))?;
                        if got == 0 {
                            return Ok(oracle.expected());
                        }
                        offset += got;
                    }
                },
            );

            let tiny = label.clone().size(100).order("sequential");
            exactly(
                room,
                tiny,
                &subject,
                state,
                folios,
                |mut oracle, tools, _| {
                    let mut reader = way.open(subject.path(), tools)?;
                    for request in 0..500 {
                        let offset = request * 100;
                        oracle
                            .request(offset, 100, || reader.request(At::Position(offset), 100))?;
                    }
                    Ok(oracle.expected())
                },
            );

            let anywhere = label.clone().order("random");
            exactly(
                room,
                anywhere,
                &subject,
                state,
                folios,
                |mut oracle, tools, mut random| {
                    let mut reader = way.open(subject.path(), tools)?;
                    for _ in 0..150 {
                        let offset = random.below(ODD_BYTES + 10_000);
                        let length = 1 + random.below(150_000);
                        let at = At::Offset(offset);
                        oracle.request(offset, length, || reader.request(at, length))?;
                    }
                    Ok(oracle.expected())
                },
            );

            let end = label.order("at the end");
            exactly(
                room,
                end,
                &subject,
                state,
                folios,
                |mut oracle, tools, _| {
                    let mut reader = way.open(subject.path(), tools)?;
                    // The last byte, across the end, at the end, far beyond it, and the last page again.
                    let last_page = ODD_BYTES / page_size() * page_size();
                    let ranges = [
                        (ODD_BYTES - 1, 1),
                        (ODD_BYTES - 5000, 20_000),
                        (ODD_BYTES, 4096),
                        (ODD_BYTES + (1 << 20), 4096),
                        (last_page, page_size()),
                        (last_page - page_size(), 2 * page_size()),
                    ];
                    for (offset, length) in ranges {
                        let at = At::Offset(offset);
                        oracle.request(offset, length, || reader.request(at, length))?;
                    }
                    Ok(oracle.expected())
                },
            );
        }
    }
    Ok(())
}

/// Requests that look like the rest of the one before: the same end, a later beginning. The kernel's
/// events for both are alike, and one that counts events takes them for one request.
fn nested(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    let page = page_size();
    let calls = [
        Call::Pread,
        Call::Read,
        Call::Preadv2,
        Call::Sendfile,
        Call::Splice,
        Call::CopyFileRange,
        Call::IoUring,
        Call::IoUringAsync,
    ];
    for call in calls_of(room).filter(|call| calls.contains(call)) {
        for (state, folios) in PREPARED {
            let way = room.way(call, folios);
            let label = Label::new(room.kind.name(), format!("{}, nested", call.name()));
            let same_end = label.clone().order("same end");
            exactly(
                room,
                same_end,
                &subject,
                state,
                folios,
                |mut oracle, tools, mut random| {
                    let mut reader = way.open(subject.path(), tools)?;
                    for _ in 0..40 {
                        let base = random.below(8) << 20;
                        for step in 0..8 {
                            let (offset, length) = (base + step * 8 * page, (64 - step * 8) * page);
                            let at = At::Offset(offset);
                            oracle.request(offset, length, || reader.request(at, length))?;
                        }
                    }
                    Ok(oracle.expected())
                },
            );

            // In a few pages, which are one event, and in more than one event can name.
            for pages in [1, 5, 40] {
                let again = label.clone().size(pages * page).order("the same again");
                exactly(
                    room,
                    again,
                    &subject,
                    state,
                    folios,
                    |mut oracle, tools, mut random| {
                        let mut reader = way.open(subject.path(), tools)?;
                        for _ in 0..40 {
                            let offset = random.below(1500) * page;
                            for _ in 0..3 {
                                let at = At::Offset(offset);
                                let length = pages * page;
                                oracle.request(offset, length, || reader.request(at, length))?;
                            }
                        }
                        Ok(oracle.expected())
                    },
                );
            }
        }
    }
    Ok(())
}

/// The forms of an io_uring read beside the plain one.
fn io_uring_forms(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    let name = room.kind.name();
    for (state, folios) in PREPARED {
        let open = || -> Result<File> {
            let file = File::open(subject.path()).context("open for reading")?;
            rustix::fs::fadvise(&file, 0, None, folios.advice()).context("fadvise")?;
            Ok(file)
        };
        let size = 64 << 10;

        let label = Label::new(name, "io_uring, file position")
            .size(size)
            .order("sequential");
        exactly(
            room,
            label,
            &subject,
            state,
            folios,
            |mut oracle, tools, _| {
                let file = open()?;
                let mut ring = IoUring::new(8).context("io_uring_setup")?;
                let buffer = tools.buffer.slice(size).as_mut_ptr();
                for request in 0..subject.bytes() / size {
                    let fd = types::Fd(file.as_raw_fd());
                    let read = opcode::Read::new(fd, buffer, size as u32).offset(u64::MAX);
                    // SAFETY: `submit` waits for the completion; buffer and file live longer.
                    let call = || unsafe { submit(&mut ring, &[read.build()]) };
                    oracle.request(request * size, size, call)?;
                }
                Ok(oracle.expected())
            },
        );

        let label = Label::new(name, "io_uring, readv")
            .size(size)
            .order("random");
        exactly(
            room,
            label,
            &subject,
            state,
            folios,
            |mut oracle, tools, mut random| {
                let file = open()?;
                let mut ring = IoUring::new(8).context("io_uring_setup")?;
                let (first, second) = tools.buffer.slice(size).split_at_mut(10_000);
                let pieces = [first, second].map(|piece| libc::iovec {
                    iov_base: piece.as_mut_ptr().cast(),
                    iov_len: piece.len(),
                });
                for _ in 0..100 {
                    let offset = random.below(subject.bytes());
                    let fd = types::Fd(file.as_raw_fd());
                    let read = opcode::Readv::new(fd, pieces.as_ptr(), 2).offset(offset);
                    // SAFETY: `submit` waits for the completion; pieces, buffer and file live longer.
                    let call = || unsafe { submit(&mut ring, &[read.build()]) };
                    oracle.request(offset, size, call)?;
                }
                Ok(oracle.expected())
            },
        );

        let label = Label::new(name, "io_uring, registered file")
            .size(size)
            .order("random");
        exactly(
            room,
            label,
            &subject,
            state,
            folios,
            |mut oracle, tools, mut random| {
                let file = open()?;
                let mut ring = IoUring::new(8).context("io_uring_setup")?;
                let files = [file.as_raw_fd()];
                ring.submitter()
                    .register_files(&files)
                    .context("register a file")?;
                let buffer = tools.buffer.slice(size).as_mut_ptr();
                for _ in 0..100 {
                    let offset = random.below(subject.bytes());
                    let read =
                        opcode::Read::new(types::Fixed(0), buffer, size as u32).offset(offset);
                    // SAFETY: `submit` waits for the completion; buffer and file live longer.
                    let call = || unsafe { submit(&mut ring, &[read.build()]) };
                    oracle.request(offset, size, call)?;
                }
                Ok(oracle.expected())
            },
        );

        let label = Label::new(name, "io_uring, registered buffer")
            .size(size)
            .order("random");
        exactly(
            room,
            label,
            &subject,
            state,
            folios,
            |mut oracle, tools, mut random| {
                let file = open()?;
                let mut ring = IoUring::new(8).context("io_uring_setup")?;
                let buffer = tools.buffer.slice(size).as_mut_ptr();
                let whole = [libc::iovec {
                    iov_base: buffer.cast(),
                    iov_len: size as usize,
                }];
                // SAFETY: the buffer belongs to the test stand and outlives the ring.
                unsafe { ring.submitter().register_buffers(&whole) }
                    .context("register a buffer")?;
                for _ in 0..100 {
                    let offset = random.below(subject.bytes());
                    let fd = types::Fd(file.as_raw_fd());
                    let read = opcode::ReadFixed::new(fd, buffer, size as u32, 0).offset(offset);
                    // SAFETY: `submit` waits for the completion; buffer and file live longer.
                    let call = || unsafe { submit(&mut ring, &[read.build()]) };
                    oracle.request(offset, size, call)?;
                }
                Ok(oracle.expected())
            },
        );

        // Eight requests in one call. Without readahead they cannot insert each other's pages, so the
        // residency before all of them is also the residency before each.
        if folios == Folios::Small || state == State::Warm {
            for (flags, how) in [
                (squeue::Flags::empty(), "batch of 8"),
                (squeue::Flags::ASYNC, "async batch of 8"),
            ] {
                let label = Label::new(name, format!("io_uring, {how}"))
                    .size(size)
                    .order("random");
                exactly(
                    room,
                    label,
                    &subject,
                    state,
                    folios,
                    |mut oracle, tools, mut random| {
                        let file = open()?;
                        let mut ring = IoUring::new(8).context("io_uring_setup")?;
                        let buffer = tools.buffer.slice(8 * size);
                        for _ in 0..40 {
                            // One request in each eighth of the file: they do not overlap.
                            let eighth = subject.bytes() / 8;
                            let mut entries = Vec::new();
                            let mut wanted = 0;
                            for (slot, piece) in (0..8).zip(buffer.chunks_mut(size as usize)) {
                                let offset = slot * eighth + random.below(eighth - size);
                                wanted += oracle.announce(offset, size)?;
                                let fd = types::Fd(file.as_raw_fd());
                                let read = opcode::Read::new(fd, piece.as_mut_ptr(), size as u32);
                                entries.push(read.offset(offset).build().flags(flags));
                            }
                            // SAFETY: `submit` waits for all; buffer and file live longer.
                            let got = unsafe { submit(&mut ring, &entries)? };
                            assert_eq!(got, wanted, "each request of the batch reads all it can");
                        }
                        Ok(oracle.expected())
                    },
                );
            }
        }
    }
    Ok(())
}

/// read(2) into a private mapping of the same file: the copy faults in the middle of a request, and
/// the pages that the fault inserts do not belong to the request.
fn into_own_mapping(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    let size = 64 << 10;
    let label = Label::new(room.kind.name(), "pread into its own mapping")
        .size(size)
        .state("cold");
    let half = subject.bytes() / 2;
    let measured = room.stand.measure(
        &label,
        &subject,
        Evictions::Spoil,
        || subject.evict(),
        |(), _| {
            let file = File::open(subject.path()).context("open for reading")?;
            let mut mapping = Mapping::new(&file, subject.bytes(), Access::Private, Folios::Large)?;
            for offset in (0..half).step_by(size as usize) {
                let buffer = mapping.slice(half + offset, size);
                rustix::io::pread(&file, buffer, offset).context("pread")?;
            }
            Ok(())
        },
    );
    match measured {
        Ok(done) => {
            let ledger = &done.ledger;
            let faults = [Counter::FaultMissPages, Counter::FaultReadaheadPages];
            let reads = [Counter::ReadMissedPages, Counter::ReadaheadPages];
            let sum = |counters: [Counter; 2]| counters.iter().map(|one| ledger[*one]).sum::<u64>();
            let comparison = Comparison::new()
                .exact("requests", half / size, ledger[Counter::ReadRequests])
                .exact(
                    "pages",
                    half / page_size(),
                    ledger[Counter::ReadRequestedPages],
                )
                .exact("bytes", half, ledger[Counter::ReadRequestedBytes])
                .exact(
                    "brought in by reads and faults",
                    done.inserted,
                    sum(reads) + sum(faults),
                )
                .silently("inserted", done.inserted, known(ledger.inserted_pages()));
            room.judge(label, comparison);
        }
        Err(problem) => room.failed(&label, &problem),
    }
    Ok(())
}

/// preadv2 with RWF_DONTCACHE (6.14 and later).
fn dontcache(room: &mut Room) -> Result<()> {
    const RWF_DONTCACHE: u32 = 0x80;
    let subject = room.file("data", 8 << 20)?;
    let size = 64 << 10;
    let flags = rustix::io::ReadWriteFlags::from_bits_retain(RWF_DONTCACHE);
    for (state, folios) in PREPARED {
        let label = Label::new(room.kind.name(), "preadv2, RWF_DONTCACHE")
            .size(size)
            .order("sequential")
            .prepared(state, folios);
        let mut is_refused = false;
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || subject.prepare(state, folios, &mut Random::named(&label.line())),
            |touched, tools| {
                let file = File::open(subject.path()).context("open for reading")?;
                rustix::fs::fadvise(&file, 0, None, folios.advice()).context("fadvise")?;
                let mut oracle = Oracle::new(&subject, touched);
                for offset in (0..subject.bytes()).step_by(size as usize) {
                    oracle.request(offset, size, || {
                        let mut pieces = [std::io::IoSliceMut::new(tools.buffer.slice(size))];
                        let got = rustix::io::preadv2(&file, &mut pieces, offset, flags);
                        is_refused = got == Err(rustix::io::Errno::OPNOTSUPP);
                        Ok(got.context("preadv2")? as u64)
                    })?;
                }
                Ok(oracle.expected())
            },
        );
        match measured {
            Ok(done) => {
                let (expected, ledger) = (done.expected, &done.ledger);
                let comparison = Comparison::new()
                    .exact("requests", expected.requests, ledger[Counter::ReadRequests])
                    .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
                    .silently("bytes", expected.bytes, ledger[Counter::ReadRequestedBytes])
                    .exact("hits", expected.hits, known(ledger.hits()))
                    .exact("misses", expected.misses, ledger[Counter::ReadMissedPages])
                    .exact("inserted", done.inserted, known(ledger.inserted_pages()));
                room.judge(label, comparison);
            }
            Err(_) if is_refused => {
                room.note(format!(
                    "left out: {} takes no RWF_DONTCACHE here",
                    room.kind
                ));
                return Ok(());
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

/// copy_file_range where the file system shares the blocks instead.
fn reflink(room: &mut Room) -> Result<()> {
    let subject = room.file("data", 8 << 20)?;
    for (state, folios) in PREPARED {
        let way = Way {
            sink_offset: 0,
            ..room.way(Call::CopyFileRange, folios)
        };
        let label = Label::new(room.kind.name(), "copy_file_range, reflinks")
            .size(1 << 20)
            .order("sequential")
            .prepared(state, folios);
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Spoil,
            || subject.prepare(state, folios, &mut Random::named(&label.line())),
            |_: Touched, tools| {
                let mut reader = way.open(subject.path(), tools)?;
                for offset in (0..subject.bytes()).step_by(1 << 20) {
                    reader.request(At::Position(offset), 1 << 20)?;
                }
                Ok(())
            },
        );
        match measured {
            Ok(done) => {
                let comparison = Comparison::new()
                    .exact("pages", 0, done.ledger[Counter::ReadRequestedPages])
                    .silently(
                        "inserted",
                        done.inserted,
                        known(done.ledger.inserted_pages()),
                    )
                    .nothing_else(&done.ledger, &READS)
                    .nothing_else(&done.ledger, &FAULTS);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}
