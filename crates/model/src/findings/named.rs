//! Names that people use for the subjects of findings: units, containers, pods, and labels of files.

use crate::finding::{Finding, SubjectKind};
use crate::interval::Interval;
use crate::names_of_groups::NamesOfGroups;

/// Names the subjects: a file by its label, a group by its unit or container, a process by that of its group.
pub(super) fn name(interval: &Interval, findings: &mut [Finding]) {
    let groups = NamesOfGroups::of(&interval.cgroups);
    for finding in findings {
        let subject = finding.subject.as_deref();
        finding.name = match finding.kind {
            SubjectKind::Group => {
                let path = subject.and_then(|path| path.to_str());
                let of_path = |path: &str| {
                    let mut all = interval.all_groups();
                    let group = all
                        .find(|group| group.path.as_ref().known().is_some_and(|own| own == path));
                    group.and_then(|group| group.names.shown().known())
                };
                path.and_then(of_path)
            }
            SubjectKind::Process => {
                let mut processes = interval.processes.iter();
                let process = processes.find(|row| row.pid.is_some() && row.pid == finding.pid);
                let group = process.and_then(|row| row.cgroup.as_ref().known());
                group.and_then(|group| groups.shown(group))
            }
            SubjectKind::File => {
                let mut files = interval.files.iter();
                let file =
                    files.find(|file| file.path.as_ref().known().map(AsRef::as_ref) == subject);
                file.and_then(|file| file.label.clone().known())
            }
            SubjectKind::Machine | SubjectKind::Device => None,
        };
    }
}

/// A process, and how many others are like it; `all` has both.
pub(super) fn with_others(pid: u32, all: u64) -> String {
    match all {
        0 | 1 => pid.to_string(),
        2 => format!("{pid} and 1 other process"),
        all => format!("{pid} and {} other processes", all - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::group_names::GroupNames;
    use crate::measured::Measured;

    #[test]
    fn subjects_have_the_names_that_people_use() {
        let mut interval = sample::with_file(1 << 20, &[]);
        interval.files[0].label = Measured::Exact("shop.orders".into());
        let mut group = sample::group("/system.slice/nginx.service", 0);
        group.names = GroupNames {
            unit: Measured::Exact("nginx.service".into()),
            ..GroupNames::none()
        };
        interval.cgroups.push(group);
        let mut process = sample::process(7, &[]);
        process.cgroup = Measured::Exact("/system.slice/nginx.service".into());
        interval.processes.push(process);
        let of = |kind, subject: Option<&str>, pid| Finding {
            kind,
            subject: subject.map(Into::into),
            pid,
            ..Finding::default()
        };
        let mut findings = [
            of(SubjectKind::File, Some("/data"), None),
            of(
                SubjectKind::Group,
                Some("/system.slice/nginx.service"),
                None,
            ),
            of(SubjectKind::Process, None, Some(7)),
            of(SubjectKind::Process, None, Some(8)),
            of(SubjectKind::Machine, None, None),
        ];
        name(&interval, &mut findings);
        let texts = findings.map(|finding| finding.subject_text());
        let expected = [
            "shop.orders (/data)",
            "/system.slice/nginx.service (nginx.service)",
            "in nginx.service",
        ];
        let expected = expected.map(|text| Some(text.to_owned()));
        assert_eq!(texts[..3], expected, "with a label, a unit, and a unit");
        assert_eq!(texts[3..], [None, None], "nothing to name");
    }
}
