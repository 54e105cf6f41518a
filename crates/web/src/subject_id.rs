//! [`SubjectId`]: the name of a process, file, control group or device in addresses: `KIND:VALUE`.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use cachewise_model::{FileNumber, FileRow, Part, Row, escaped};

/// A process, command, file, control group or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SubjectId {
    /// A process; without its start, any process of this id.
    Process(u32, Option<u64>),
    /// All processes of a command.
    Command(String),
    /// A file by its path, as it is shown.
    File(String),
    /// A file by its number.
    Inode(FileNumber),
    /// A control group and those below.
    Cgroup(String),
    /// A device by its number or path.
    Device(String),
}

/// A name that is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "a subject is process:PID, process:PID:STARTED, command:NAME, file:PATH, inode:MAJOR:MINOR:INODE, cgroup:PATH or \
     device:MAJOR:MINOR"
)]
pub(crate) struct NoSubject;

impl FromStr for SubjectId {
    type Err = NoSubject;

    fn from_str(text: &str) -> Result<Self, NoSubject> {
        let (kind, value) = text.split_once(':').ok_or(NoSubject)?;
        let owned = || value.to_owned();
        Ok(match kind {
            "process" => {
                let (pid, started) = match value.split_once(':') {
                    Some((pid, started)) => (pid, Some(started.parse().map_err(|_| NoSubject)?)),
                    None => (value, None),
                };
                SubjectId::Process(pid.parse().map_err(|_| NoSubject)?, started)
            }
            "command" => SubjectId::Command(owned()),
            "file" => SubjectId::File(owned()),
            "inode" => {
                let (device, inode) = value.rsplit_once(':').ok_or(NoSubject)?;
                SubjectId::Inode(FileNumber {
                    device: device.to_owned(),
                    inode: inode.parse().map_err(|_| NoSubject)?,
                })
            }
            "cgroup" => SubjectId::Cgroup(owned()),
            "device" => SubjectId::Device(owned()),
            _ => return Err(NoSubject),
        })
    }
}

impl fmt::Display for SubjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubjectId::Process(pid, Some(started)) => write!(f, "process:{pid}:{started}"),
            SubjectId::Process(pid, None) => write!(f, "process:{pid}"),
            SubjectId::Command(name) => write!(f, "command:{name}"),
            SubjectId::File(path) => write!(f, "file:{path}"),
            SubjectId::Inode(FileNumber { device, inode }) => write!(f, "inode:{device}:{inode}"),
            SubjectId::Cgroup(path) => write!(f, "cgroup:{path}"),
            SubjectId::Device(device) => write!(f, "device:{device}"),
        }
    }
}

impl SubjectId {
    /// The subject of a row of a table; none for the sum of all others. `members` is the number of processes in it.
    pub(crate) fn of_row(part: Part, row: &Row, members: usize) -> Option<SubjectId> {
        let labels = &row.labels;
        Some(match part {
            Part::Process if members > 1 => SubjectId::Command(labels.command.clone().known()?),
            Part::Process => SubjectId::Process(labels.pid.known()?, labels.started.known()),
            Part::File => SubjectId::Inode(FileNumber {
                device: labels.device.clone().known()?,
                inode: labels.inode.known()?,
            }),
            Part::Cgroup => SubjectId::Cgroup(labels.cgroup.clone().known()?),
            Part::Device => SubjectId::Device(labels.device.clone().known()?),
        })
    }

    /// Whether a file is this subject. A file without a name has none here either.
    pub(crate) fn is_file(&self, file: &FileRow) -> bool {
        match self {
            SubjectId::File(path) => file
                .path
                .as_ref()
                .known()
                .is_some_and(|known| escaped(known.as_os_str()) == *path),
            SubjectId::Inode(number) => file.number.as_ref() == Some(number),
            _ => false,
        }
    }

    /// Whether a control group is this subject, or below it.
    pub(crate) fn has_group(&self, cgroup: &str) -> bool {
        match self {
            SubjectId::Cgroup(path) => cgroup
                .strip_prefix(path.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            _ => false,
        }
    }

    /// Whether a command is this subject.
    pub(crate) fn is_command(&self, command: &str) -> bool {
        matches!(self, SubjectId::Command(name) if escaped(OsStr::new(command)) == *name || command == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_ids_read_back_as_written() {
        for text in [
            "process:12",
            "process:12:9007199254740993",
            "command:a:b c",
            "file:/a/b:c",
            "inode:254:1:77",
            "cgroup:/a.slice/b:c",
            "device:8:0",
        ] {
            let id: SubjectId = text.parse().expect(text);
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "process",
            "process:x",
            "process:1:x",
            "inode:7",
            "other:1",
        ] {
            assert!(text.parse::<SubjectId>().is_err(), "{text}");
        }
    }

    #[test]
    fn group_has_those_below_and_not_those_that_begin_like_it() {
        let group = SubjectId::Cgroup("/a".into());
        assert!(group.has_group("/a") && group.has_group("/a/b"));
        assert!(!group.has_group("/ab") && !group.has_group("/"));
        assert!(SubjectId::Cgroup("/".into()).has_group("/a"));
    }
}
