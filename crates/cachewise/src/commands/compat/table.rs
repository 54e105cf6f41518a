//! Supported options of other tools: names, options, and the translation of each.

use std::path::Path;

use cachewise_units::Bytes;

/// Another tool.
pub struct Tool {
    /// The name by which it is called.
    pub name: &'static str,
    /// The project that it belongs to.
    pub of: &'static str,
    /// The command that it becomes, unless an option says otherwise.
    pub command: &'static str,
    /// Arguments that the command always gets.
    pub words: &'static [&'static str],
    /// An option and its value that the command gets unless a translated option sets it.
    pub unless: Option<(&'static str, &'static str)>,
    /// Arguments that replace missing positional arguments.
    pub usual: &'static [&'static str],
    /// How its options are written.
    pub grammar: Grammar,
    /// Its options.
    pub options: &'static [Taken],
}

/// How options are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// `-ab`, `-oVALUE`, `--long=VALUE`, also behind other arguments.
    Getopt,
    /// `-name`, `-name=VALUE`, before all other arguments.
    Go,
}

/// An option of another tool.
pub struct Taken {
    /// Its names, with their dashes.
    pub names: &'static [&'static str],
    /// Name of its value, if it has one.
    pub value: Option<&'static str>,
    /// Its translation.
    pub how: How,
}

/// Translation of an option.
pub enum How {
    /// The same option.
    Same,
    /// These words.
    As(&'static [&'static str]),
    /// These words for commands that only read; none for commands that change the cache.
    Looking(&'static [&'static str]),
    /// This option, with the same value.
    Value(&'static str),
    /// The words that the function makes of its value, and their description.
    Made(&'static str, fn(&str) -> Result<Vec<String>, String>),
    /// This command.
    Command(&'static str),
    /// No words: cachewise always does so. The text says what it does.
    Always(&'static str),
    /// Not supported: the reason, and the replacement.
    Not(&'static str),
}

const fn taken(names: &'static [&'static str], how: How) -> Taken {
    Taken {
        names,
        value: None,
        how,
    }
}

const fn valued(names: &'static [&'static str], value: &'static str, how: How) -> Taken {
    Taken {
        names,
        value: Some(value),
        how,
    }
}

/// The tools, each with its options.
pub const TOOLS: [Tool; 6] = [
    Tool {
        name: "cachestat",
        of: "bcc, libbpf-tools, perf-tools",
        command: "stat",
        words: &[],
        unless: None,
        usual: &[],
        grammar: Grammar::Getopt,
        options: &[
            taken(
                &["-T", "-t", "--timestamp"],
                How::Always("each row has its time"),
            ),
            taken(
                &["-v", "--verbose"],
                How::Not("set CACHEWISE_BPF_LOG=1 to see the kernel's log of the BPF programs"),
            ),
            taken(
                &["-D"],
                How::Not("`cachewise doctor` shows how each number is counted"),
            ),
        ],
    },
    Tool {
        name: "cachetop",
        of: "bcc",
        command: "top",
        words: &[],
        unless: None,
        usual: &["5"],
        grammar: Grammar::Getopt,
        options: &[valued(&["-p", "--pid"], "PID", How::Value("--pid"))],
    },
    Tool {
        name: "pcstat",
        of: "tobert/pcstat",
        command: "files",
        words: &[],
        unless: None,
        usual: &[],
        grammar: Grammar::Go,
        options: &[
            taken(&["-json"], How::As(&["--json"])),
            taken(&["-pps"], How::As(&["--map"])),
            taken(&["-terse"], How::As(&["-o", "csv"])),
            taken(&["-histo"], How::As(&["--histogram"])),
            taken(&["-sort"], How::As(&["--sort", "resident"])),
            valued(&["-pid"], "PID", How::Value("--pid")),
            taken(&["-plain"], How::Always("tables have no lines")),
            taken(&["-unicode"], How::Always("tables have no lines")),
            taken(
                &["-nohdr"],
                How::Not("the first line has the names of the columns; `tail -n +2` drops it"),
            ),
            taken(&["-bname"], How::Not("paths are always shown in full")),
        ],
    },
    Tool {
        name: "vmtouch",
        of: "hoytech/vmtouch",
        command: "files",
        words: &[],
        unless: None,
        usual: &[],
        grammar: Grammar::Getopt,
        options: &[
            taken(&["-t"], How::Command("warm")),
            taken(&["-e"], How::Command("evict")),
            taken(&["-l"], How::Command("lock")),
            taken(&["-v"], How::Looking(&["--histogram"])),
            taken(&["-q"], How::As(&["-o", "/dev/null"])),
            taken(&["-F"], How::As(&["--one-file-system"])),
            valued(&["-i"], "GLOB", How::Value("--exclude")),
            valued(&["-I"], "GLOB", How::Value("--include")),
            valued(
                &["-p"],
                "FROM-TO",
                How::Made("--range FROM:LENGTH, with -t, -e and -l", portion),
            ),
            taken(&["-L"], How::Not("use -l, which locks the named files")),
            taken(
                &["-d"],
                How::Not("run it as a service: systemd-run cachewise lock PATH"),
            ),
            taken(
                &["-w"],
                How::Not("belongs to -d; `cachewise lock` reports when all pages are locked"),
            ),
            valued(
                &["-P"],
                "FILE",
                How::Not("belongs to -d; the service manager knows the process"),
            ),
            valued(
                &["-m"],
                "SIZE",
                How::Not("exclude large files by name, with --exclude"),
            ),
            taken(
                &["-f"],
                How::Not("symbolic links in a directory are not followed; name their targets"),
            ),
            taken(
                &["-h"],
                How::Not("a file with several names is counted once"),
            ),
            valued(&["-b"], "FILE", How::Value("--files-from")),
            taken(&["-0"], How::Same),
            valued(
                &["-o"],
                "kv",
                How::Not("the last line of `cachewise files -o jsonl` has the sums"),
            ),
        ],
    },
    Tool {
        name: "cache-bench",
        of: "hakavlad/cache-bench",
        command: "bench",
        words: &["--format", "cache-bench"],
        unless: None,
        usual: &[],
        grammar: Grammar::Getopt,
        options: &[
            valued(&["-f", "--file"], "FILE", How::Same),
            valued(&["-r", "--read"], "MIB", How::Same),
            valued(&["-w", "--write"], "MIB", How::Same),
            valued(&["-m", "--mmap"], "0|1", How::Same),
            valued(&["-p", "--preread"], "0|1", How::Same),
            valued(
                &["-b", "--bloat", "--bloating"],
                "0|1",
                How::Value("--keep-reads"),
            ),
            valued(&["-c", "--chunk"], "KIB", How::Same),
            valued(&["-i", "--interval"], "SECONDS", How::Same),
            valued(&["-l", "--log"], "LOG", How::Same),
        ],
    },
    Tool {
        name: "fincore",
        of: "util-linux",
        command: "files",
        words: &[],
        unless: Some((
            "--columns",
            "resident_bytes,resident_pages,file_size_bytes,path",
        )),
        usual: &[],
        grammar: Grammar::Getopt,
        options: &[
            taken(&["-J", "--json"], How::As(&["--json"])),
            valued(
                &["-o", "--output"],
                "LIST",
                How::Made("--columns LIST, by our names", columns),
            ),
            taken(
                &["-r", "--raw"],
                How::Not("use --json, or `cachewise files -o csv`, in scripts"),
            ),
            taken(&["-b", "--bytes"], How::Not("--json has sizes in bytes")),
            taken(
                &["-n", "--noheadings"],
                How::Not("the first line has the names of the columns; `tail -n +2` drops it"),
            ),
            taken(
                &["-R", "--recursive"],
                How::Always("directories are always walked"),
            ),
            taken(
                &["-c", "--total"],
                How::Always("a table of several files ends with their sum"),
            ),
            taken(
                &["-C", "--cachestat"],
                How::Always("cachestat(2) is always used if available"),
            ),
        ],
    },
];

/// The columns of `fincore`, and ours.
const COLUMNS: [(&str, &str); 8] = [
    ("PAGES", "resident_pages"),
    ("SIZE", "file_size_bytes"),
    ("FILE", "path"),
    ("RES", "resident_bytes"),
    ("DIRTY_PAGES", "resident_dirty_pages"),
    ("WRITEBACK_PAGES", "resident_writeback_pages"),
    ("EVICTED_PAGES", "shadow_pages"),
    ("RECENTLY_EVICTED_PAGES", "recent_shadow_pages"),
];

fn columns(list: &str) -> Result<Vec<String>, String> {
    let ours = |name: &str| {
        let known = COLUMNS
            .iter()
            .find(|(theirs, _)| theirs.eq_ignore_ascii_case(name));
        known
            .map(|(_, ours)| *ours)
            .ok_or_else(|| format!("unknown column {name:?}: use {}", theirs()))
    };
    let theirs: Result<Vec<&str>, String> = list.split(',').map(|name| ours(name.trim())).collect();
    Ok(vec!["--columns".to_owned(), theirs?.join(",")])
}

fn theirs() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(theirs, _)| *theirs).collect();
    names.join(", ")
}

/// `FROM-TO`, `-TO`, `FROM-` or `TO` in bytes.
fn portion(text: &str) -> Result<Vec<String>, String> {
    let bytes = |text: &str, otherwise: u64| match text.trim() {
        "" => Ok(otherwise),
        // vmtouch's units are small letters too.
        text => text
            .to_ascii_uppercase()
            .parse::<Bytes>()
            .map(|bytes| bytes.0)
            .map_err(|error| error.to_string()),
    };
    let (from, to) = match text.split_once('-') {
        Some((from, to)) => (bytes(from, 0)?, Some(to).filter(|to| !to.trim().is_empty())),
        None => (0, Some(text)),
    };
    let range = match to {
        None => format!("{from}:"),
        Some(to) => {
            let to = bytes(to, 0)?;
            match to.checked_sub(from) {
                Some(length) if length > 0 => format!("{from}:{length}"),
                _ => return Err(format!("empty range: {to} is not above {from}")),
            }
        }
    };
    Ok(vec!["--range".to_owned(), range])
}

/// The tool of this name, which may be a path and begin with ours.
pub fn tool(name: &Path) -> Option<&'static Tool> {
    let name = name.file_name()?.to_str()?;
    let name = name.strip_prefix("cachewise-").unwrap_or(name);
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_of_vmtouch_are_ranges_of_ours() {
        let range = |text| portion(text).map(|words| words.join(" "));
        assert_eq!(range("4k-8k").as_deref(), Ok("--range 4096:4096"));
        assert_eq!(range("4k-").as_deref(), Ok("--range 4096:"));
        assert_eq!(range("-8k").as_deref(), Ok("--range 0:8192"));
        assert_eq!(range("1M").as_deref(), Ok("--range 0:1048576"));
        for wrong in ["8k-4k", "4k-4k", "-x", "a-b", "0", "-", "--"] {
            let answer = range(wrong);
            let is_whole = answer.as_deref() == Ok("--range 0:");
            assert!(
                answer.is_err() || (wrong == "-" && is_whole),
                "{wrong:?} is no portion: {answer:?}"
            );
        }
    }

    #[test]
    fn every_column_of_ours_exists() {
        for (theirs, ours) in COLUMNS {
            let found = cachewise_model::field(ours);
            assert!(found.is_some(), "{theirs} is {ours}, which is no column");
        }
        assert!(columns("pages,size").is_ok(), "in any case of letters");
        assert!(columns("INODE").is_err(), "others are refused");
    }

    #[test]
    fn no_name_is_there_twice() {
        for tool in &TOOLS {
            let mut names: Vec<_> = tool.options.iter().flat_map(|one| one.names).collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(before, names.len(), "{}: each option once", tool.name);
        }
    }
}
