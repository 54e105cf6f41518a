//! The tables of files, processes, control groups and devices.

use std::ffi::OsStr;

use cachewise_model::{ALL_OTHERS, Datum, FileRow, Interval, Measured, Part, TablePlace, escaped};

use super::options::ReportOptions;
use super::ranked::table;
use crate::cell::path_text;
use crate::number::value_text;

/// The most used files.
pub(crate) fn files(interval: &Interval, place: TablePlace, options: ReportOptions<'_>) -> String {
    let rows = interval
        .files
        .iter()
        .map(|file| (interval.of_this(file.row()), file_name(file)))
        .collect();
    table("files", (Part::File, place), rows, interval.page(), options)
}

/// The processes with most page-cache use.
pub(crate) fn processes(
    interval: &Interval,
    place: TablePlace,
    options: ReportOptions<'_>,
) -> String {
    let rows = interval
        .processes
        .iter()
        .map(|process| {
            let row = interval.of_this(process.row());
            let name = match process.is_all_others() {
                true => ALL_OTHERS.to_owned(),
                false => value_text(&row.labels.command.clone().map(Datum::Text)),
            };
            (row, name)
        })
        .collect();
    table(
        "processes",
        (Part::Process, place),
        rows,
        interval.page(),
        options,
    )
}

/// The control groups, if there is more than one: a single one repeats the total.
pub(crate) fn cgroups(
    interval: &Interval,
    place: TablePlace,
    options: ReportOptions<'_>,
) -> String {
    if interval.cgroups.len() < 2 {
        return String::new();
    }
    let rows = interval
        .cgroups
        .iter()
        .map(|cgroup| {
            let name = value_text(&cgroup.path.clone().map(Datum::Text));
            (interval.of_this(cgroup.row()), name)
        })
        .collect();
    table(
        "control groups",
        (Part::Cgroup, place),
        rows,
        interval.page(),
        options,
    )
}

/// The devices, and file systems without one.
pub(crate) fn devices(interval: &Interval, options: ReportOptions<'_>) -> String {
    let named = interval.devices.iter().map(|device| {
        let name = match &device.path {
            Measured::Exact(path) => path_text(path),
            Measured::Estimated(path, _) => format!("~{}", path_text(path)),
            Measured::Missing(_) => device.device.clone(),
        };
        (interval.of_this(device.row()), name)
    });
    table(
        "devices",
        (Part::Device, TablePlace::Recording),
        named.collect(),
        interval.page(),
        options,
    )
}

/// The name of a file in a table.
fn file_name(file: &FileRow) -> String {
    let Some(number) = &file.number else {
        return ALL_OTHERS.to_owned();
    };
    let name = match &file.path {
        Measured::Exact(path) => path_text(path),
        Measured::Estimated(path, _) => format!("~{}", path_text(path)),
        Measured::Missing(_) => format!("? (inode {} on {})", number.inode, number.device),
    };
    let name = match file.label.as_ref().known() {
        Some(label) => format!("{} ({name})", escaped(OsStr::new(label))),
        None => name,
    };
    if file.deleted {
        format!("{name} (deleted)")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, DeviceRow, Ledger, Reason, System};

    use super::super::sample;
    use super::*;
    use crate::cell::width;
    use crate::style::Style;

    fn options(width: usize, top: usize) -> ReportOptions<'static> {
        ReportOptions {
            style: Style::plain(width),
            top,
            all_checks: false,
            columns: None,
        }
    }

    #[test]
    fn files_show_requested_pages() {
        let expected = [
            "files\n",
            "REQUESTED  REUSE%  MISSED    AHEAD  BEFORE-PG  AFTER-PG       SIZE  PATH\n",
            "  131,072  0.00 %     512  130,560          0   131,072  512.0 MiB  /data/file\n",
        ]
        .concat();
        assert_eq!(
            files(&sample::cold(), TablePlace::Run, options(90, 10)),
            expected,
            "counters in which nothing happened are left out"
        );
    }

    #[test]
    fn devices_show_io_and_numbers_of_file_systems_without_device() {
        let device = |number: &str, path, read| DeviceRow {
            device: number.into(),
            path,
            filesystem: Measured::Exact("ext4".into()),
            ledger: Ledger::default(),
            device_read_bytes: read,
            device_write_bytes: Measured::Exact(0),
            busy: Measured::Exact(0),
        };
        let none = Measured::not_offered(Reason::NoBlockDevice);
        let mut interval = sample::cold();
        interval.devices = vec![
            device(
                "254:0",
                Measured::Exact("/dev/vda".into()),
                Measured::Exact(3 << 30),
            ),
            device("0:31", Measured::not_offered(Reason::NoBlockDevice), none),
        ];
        let text = devices(&interval, options(100, 10));
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(lines[1].contains(&"DEV-READ"), "{text}");
        assert_eq!(lines[2].last(), Some(&"/dev/vda"), "{text}");
        assert!(text.contains("3.0 GiB"), "bytes read: {text}");
        assert!(
            lines[3].contains(&"-") && lines[3].last() == Some(&"0:31"),
            "without a device, reads from it are not 0: {text}"
        );
    }

    #[test]
    fn names_are_shortened_marked_and_escaped() {
        let mut interval = sample::cold();
        let mut nameless = interval.files[0].clone();
        nameless.path = Measured::unknown(Reason::LostEvents);
        let mut deleted = interval.files[0].clone();
        deleted.path = Measured::Exact("/tmp/\u{1b}[2Jx".into());
        deleted.deleted = true;
        let mut long = interval.files[0].clone();
        long.path = Measured::Exact(format!("/{}/end", "x".repeat(100)).into());
        interval.files = vec![nameless, deleted, long];
        let text = files(&interval, TablePlace::Run, options(100, 10));
        assert!(
            text.contains("? (inode 12 on 8:1)"),
            "a file without a name has a number: {text}"
        );
        assert!(
            text.contains(r"/tmp/\x1b[2Jx (deleted)"),
            "escape sequences are escaped: {text}"
        );
        assert!(text.contains("xxx...xxx"), "the middle is omitted: {text}");
        assert!(
            text.lines().all(|line| width(line) <= 100),
            "every line fits: {text}"
        );
    }

    #[test]
    fn columns_are_omitted_for_names() {
        let mut interval = sample::cold();
        interval.files[0].path = Measured::Exact(format!("/{}/end", "x".repeat(100)).into());
        let header = |width| {
            files(&interval, TablePlace::Run, options(width, 10))
                .lines()
                .nth(1)
                .unwrap()
                .to_owned()
        };
        for (width, expected) in [
            (
                120,
                "REQUESTED REUSE% MISSED AHEAD BEFORE-PG AFTER-PG SIZE PATH",
            ),
            (90, "REQUESTED REUSE% MISSED AHEAD BEFORE-PG AFTER-PG PATH"),
            (80, "REQUESTED REUSE% MISSED BEFORE-PG AFTER-PG PATH"),
            (60, "REQUESTED REUSE% MISSED AFTER-PG PATH"),
            (40, "REUSE% MISSED PATH"),
            (30, "REUSE% PATH"),
        ] {
            let words: Vec<String> = header(width)
                .split_whitespace()
                .map(str::to_owned)
                .collect();
            assert_eq!(
                words.join(" "),
                expected,
                "the most requested column stays longest, at {width} columns"
            );
        }
    }

    #[test]
    fn no_line_exceeds_the_terminal() {
        let mut interval = sample::cold();
        for counter in Counter::ALL {
            interval.files[0].ledger.set(*counter, 1_000_000_000);
        }
        interval.files[0].path = Measured::Exact(format!("/{}/end", "x".repeat(100)).into());
        interval.processes[0].ledger = interval.files[0].ledger.clone();
        interval.processes[0].command = Measured::Exact("fifteen letters".into());
        interval.cgroups[0].ledger = interval.files[0].ledger.clone();
        interval.cgroups[0].path = Measured::Exact(format!("/{}", "y".repeat(100)));
        interval.cgroups[0].system =
            System::from_numbers([Measured::Exact(1_000_000); System::IDS.len()]);
        interval.cgroups.push(interval.cgroups[0].clone());
        let mut short = interval.processes[0].clone();
        short.command = Measured::Exact("[".into());
        let mut short_names = interval.clone();
        short_names.processes = vec![short];
        for columns in [30, 40, 60, 80, 120] {
            let text = processes(&short_names, TablePlace::Run, options(columns, 1));
            assert!(
                text.lines().all(|line| width(line) <= columns),
                "neither is the header over short names, at {columns} columns:\n{text}"
            );
            let draws = [files, processes, cgroups].into_iter();
            let draws =
                draws.flat_map(|draw| [(draw, TablePlace::Run), (draw, TablePlace::Recording)]);
            for (draw, place) in draws {
                let text = draw(&interval, place, options(columns, 1));
                assert!(
                    text.lines().all(|line| width(line) <= columns),
                    "every line fits into {columns} columns:\n{text}"
                );
                assert!(
                    columns >= 80 || text.contains("no room for"),
                    "omitted columns are listed at {columns} columns:\n{text}"
                );
            }
        }
    }

    #[test]
    fn overflow_row_has_a_name() {
        let mut interval = sample::cold();
        let mut rest = interval.files[0].clone();
        rest.path = Measured::unknown(Reason::SumOfOthers);
        rest.number = None;
        interval.files.push(rest);
        let mut rest = interval.processes[0].clone();
        (rest.pid, rest.command) = (None, Measured::unknown(Reason::SumOfOthers));
        interval.processes.push(rest);
        for (text, title) in [
            (files(&interval, TablePlace::Run, options(120, 10)), "files"),
            (
                processes(&interval, TablePlace::Run, options(120, 10)),
                "processes",
            ),
        ] {
            assert!(
                text.contains("  (all others)\n"),
                "it is neither a file nor a process without a name: {title}: {text}"
            );
        }
    }

    #[test]
    fn busiest_rows_come_first_and_the_rest_is_counted() {
        let mut interval = sample::cold();
        for place in 0..5u64 {
            let mut file = interval.files[0].clone();
            file.path = Measured::Exact(format!("/small/{place}").into());
            file.ledger = Ledger::default();
            file.ledger.set(Counter::WriteBytes, place + 1);
            interval.files.insert(0, file);
        }
        let text = files(&interval, TablePlace::Run, options(120, 2));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].ends_with("/data/file"),
            "512 MiB come before 5 bytes: {text}"
        );
        assert!(lines[3].ends_with("/small/4"), "5 bytes before 4: {text}");
        assert_eq!(
            lines[4], "and 4 more: --json has all",
            "the rest is counted"
        );
    }

    #[test]
    fn recording_names_the_processes_that_read_from_disk() {
        let mut interval = sample::cold();
        interval.files[0]
            .ledger
            .set(Counter::DirectReadBytes, 512 << 20);
        let text = files(&interval, TablePlace::Recording, options(120, 10));
        let cells: Vec<&str> = text.lines().flat_map(|line| line.split("  ")).collect();
        let words: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        assert!(
            words.contains(&"FETCHED") && words.contains(&"1.0 GiB"),
            "512 MiB through the cache and as much around it: {text}"
        );
    }

    #[test]
    fn processes_show_their_exit() {
        let expected = [
            "processes\n",
            " PID  PPID  REQUESTED  REUSE%  MISSED    AHEAD    CPU   DEV-READ  EXIT  COMMAND\n",
            "4321  4320    131,072  0.00 %     512  130,560  0.300  512.0 MiB  0     dd\n",
        ]
        .concat();
        assert_eq!(
            processes(&sample::cold(), TablePlace::Run, options(80, 10)),
            expected,
            "one line a process"
        );
    }

    #[test]
    fn single_control_group_has_no_table() {
        assert_eq!(
            cgroups(&sample::cold(), TablePlace::Run, options(80, 10)),
            "",
            "it would repeat the total"
        );
        let mut interval = sample::cold();
        interval.cgroups.push(interval.cgroups[0].clone());
        assert!(
            cgroups(&interval, TablePlace::Run, options(80, 10)).contains("/user.slice"),
            "two are"
        );
    }
}
