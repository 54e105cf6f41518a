//! Records of the kernel's buffers, as far as they are used here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use perf_event::Record;
use perf_event::data;

use super::object::Identity;
use super::space::{Site, Spaces};

/// `PERF_RECORD_MISC_COMM_EXEC`: the name is new because the program is.
const BY_EXEC: u16 = 1 << 13;

/// Something that happened to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProcessEvent {
    Sample {
        pid: u32,
        address: u64,
    },
    Map {
        pid: u32,
        range: std::ops::Range<u64>,
        offset: u64,
        name: PathBuf,
        identity: Identity,
    },
    Exec {
        pid: u32,
    },
    Fork {
        pid: u32,
        parent: u32,
    },
    Exit {
        pid: u32,
    },
}

/// Content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// At this time, this.
    At(u64, ProcessEvent),
    /// This number of records did not fit into the buffer.
    Lost(u64),
    /// The kernel held sampling up, as it took too much time.
    Throttled,
    /// Nothing that matters.
    Nothing,
    /// It cannot be read.
    Garbled,
}

/// Reads a record.
pub(super) fn said(record: &Record<'_>) -> Said {
    let Ok(parsed) = record.parse_record() else {
        return Said::Garbled;
    };
    // Records other than samples end with the time; in samples it is one of the requested members.
    let bytes = record.to_contiguous();
    let time = bytes
        .last_chunk()
        .map_or(0, |last| u64::from_ne_bytes(*last));
    meaning(parsed, record.misc(), time)
}

fn meaning(parsed: data::Record<'_>, misc: u16, time: u64) -> Said {
    let what = match parsed {
        data::Record::Sample(sample) => {
            let (Some(pid), Some(address), Some(time)) = (sample.pid(), sample.ip(), sample.time())
            else {
                return Said::Garbled;
            };
            return Said::At(time, ProcessEvent::Sample { pid, address });
        }
        data::Record::Mmap2(map) => ProcessEvent::Map {
            pid: map.pid,
            range: map.addr..map.addr.saturating_add(map.len),
            offset: map.pgoff,
            identity: match map.build_id() {
                Some(id) => Identity::BuildId(id.to_owned()),
                None => Identity::Inode(map.ino().unwrap_or(0)),
            },
            name: OsStr::from_bytes(&map.filename).into(),
        },
        data::Record::Comm(comm) if misc & BY_EXEC != 0 => ProcessEvent::Exec { pid: comm.pid },
        data::Record::Fork(fork) => ProcessEvent::Fork {
            pid: fork.pid,
            parent: fork.ppid,
        },
        data::Record::Exit(exit) => ProcessEvent::Exit { pid: exit.pid },
        data::Record::Lost(lost) => return Said::Lost(lost.lost),
        data::Record::LostSamples(lost) => return Said::Lost(lost.lost),
        data::Record::Throttle(_) => return Said::Throttled,
        _ => return Said::Nothing,
    };
    Said::At(time, what)
}

impl ProcessEvent {
    /// Does the same to what is known of the processes; a sample has a place there.
    pub(super) fn apply(self, spaces: &mut Spaces) -> Option<Site> {
        match self {
            ProcessEvent::Sample { pid, address } => return Some(spaces.site(pid, address)),
            ProcessEvent::Map {
                pid,
                range,
                offset,
                name,
                identity,
            } => spaces.map(pid, range, offset, &name, identity),
            ProcessEvent::Exec { pid } => spaces.exec(pid),
            ProcessEvent::Fork { pid, parent } => spaces.fork(pid, parent),
            ProcessEvent::Exit { pid } => spaces.exit(pid),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use perf_event::data::{Comm, Exit, Lost, LostSamples, Record, Throttle};

    use super::*;

    #[test]
    fn lost_and_throttled_samples_are_parsed() {
        let lost = Lost { id: 1, lost: 42 };
        assert_eq!(meaning(Record::Lost(lost), 0, 9), Said::Lost(42), "lost");
        let lost = LostSamples { lost: 5 };
        let lost = Record::LostSamples(lost);
        assert_eq!(meaning(lost, 0, 9), Said::Lost(5), "by the hardware");
        let throttle = Throttle {
            time: 1,
            id: 2,
            stream_id: 3,
        };
        let on = Record::Unthrottle(throttle.clone());
        let throttle = Record::Throttle(throttle);
        assert_eq!(meaning(throttle, 0, 9), Said::Throttled, "held up");
        assert_eq!(meaning(on, 0, 9), Said::Nothing, "counted once");
    }

    #[test]
    fn a_new_name_alone_is_no_new_program() {
        let comm = || {
            Record::Comm(Comm {
                pid: 7,
                tid: 8,
                comm: b"name".into(),
            })
        };
        assert_eq!(meaning(comm(), 0, 9), Said::Nothing, "by prctl(2)");
        let exec = Said::At(9, ProcessEvent::Exec { pid: 7 });
        assert_eq!(meaning(comm(), BY_EXEC, 9), exec, "by exec(3)");
        let exit = Record::Exit(Exit {
            pid: 7,
            ppid: 1,
            tid: 8,
            ptid: 1,
            time: 3,
        });
        let ended = Said::At(9, ProcessEvent::Exit { pid: 7 });
        assert_eq!(meaning(exit, 0, 9), ended, "a thread less");
    }
}
