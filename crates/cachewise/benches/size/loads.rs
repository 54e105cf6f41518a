//! The loads: each makes its data in a folder of its own and reads them again and again.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::synthetic::Load as Synthetic;

const PAGE: u64 = 4096;
/// Pages of the data of each load: 208 MiB.
const DATA_PAGES: u64 = 208 << 8;
/// Reads of a synthetic load.
const READS: usize = 300_000;
/// Look-ups of the SQLite load.
const LOOKUPS: usize = 150_000;
const SEED: u64 = 11;

/// The sequences of pages that `pages` reads from one file.
const SYNTHETIC: [&str; 5] = ["zipf-0.6", "zipf-0.9", "zipf-1.1", "loop", "scan-hot-10"];

pub const LOADS: [&str; 8] = [
    SYNTHETIC[0],
    SYNTHETIC[1],
    SYNTHETIC[2],
    SYNTHETIC[3],
    SYNTHETIC[4],
    "sqlite",
    "pgbench",
    "git-grep",
];

/// Starts a server in the folder `$1`, runs transactions that read, and stops it.
const PGBENCH: &str = r#"
set -e
as="setpriv --reuid postgres --regid postgres --init-groups"
$as $2/postgres -D "$1/data" -k "$1" -c listen_addresses= -c shared_buffers=2MB -c autovacuum=off -c fsync=off >"$1/log" 2>&1 &
until $as $2/pg_isready -q -h "$1"; do sleep 0.05; done
$as $2/pgbench -h "$1" -n -S -c 1 -t 50000 --random-seed=11 postgres >/dev/null 2>&1
kill -INT $!
wait $!
"#;

/// Makes the data directory and its tables: 16 units of 15 MiB.
const PGBENCH_DATA: &str = r#"
set -e
chown postgres "$1"
as="setpriv --reuid postgres --regid postgres --init-groups"
$as $2/initdb -D "$1/data" -A trust >/dev/null
$as $2/postgres -D "$1/data" -k "$1" -c listen_addresses= -c autovacuum=off -c fsync=off >"$1/log" 2>&1 &
until $as $2/pg_isready -q -h "$1"; do sleep 0.05; done
$as $2/pgbench -h "$1" -q -i -s 16 postgres 2>/dev/null
kill -INT $!
wait $!
"#;

/// Searches the work tree three times, and three of its sixteen directories four times each time. Nothing is found: status 1. Not
/// a quarter: that would fit exactly into the smallest limit, or not.
const GIT_GREP: &str = r#"
cd "$1/tree"
for round in 1 2 3; do
  git grep -q nothing-matches
  for time in 1 2 3 4; do git grep -q nothing-matches -- d00 d01 d02; done
done
true
"#;

/// A load with its data.
pub struct Load {
    pub name: &'static str,
    folder: PathBuf,
}

impl Load {
    /// Makes the data of a load, unless they are there.
    pub fn prepare(name: &'static str, folder: &Path) -> Outcome<Load> {
        let folder = folder.join(if SYNTHETIC.contains(&name) {
            "pages"
        } else {
            name
        });
        let load = Load { name, folder };
        let done = load.folder.join("done");
        if !done.exists() {
            fs::create_dir_all(&load.folder)?;
            fs::set_permissions(&load.folder, Permissions::from_mode(0o755))?;
            load.make_data()?;
            rustix::fs::sync();
            File::create(done)?;
        }
        Ok(load)
    }

    fn make_data(&self) -> Outcome<()> {
        match self.name {
            "sqlite" => self.make_sqlite(),
            "pgbench" => shell(
                PGBENCH_DATA,
                &[self.folder.as_os_str(), postgres()?.as_os_str()],
            ),
            "git-grep" => self.make_git(),
            _ => {
                let mut file = BufWriter::new(File::create(self.folder.join("file"))?);
                for page in 0..DATA_PAGES {
                    file.write_all(&[page as u8; PAGE as usize])?;
                }
                Ok(file.flush()?)
            }
        }
    }

    /// A table with a row for each page.
    fn make_sqlite(&self) -> Outcome<()> {
        let mut script = BufWriter::new(File::create(self.folder.join("lookups.sql"))?);
        let load = Synthetic::named("zipf-0.9").ok_or("no such sequence")?;
        for page in load.pages(DATA_PAGES, SEED).take(LOOKUPS) {
            writeln!(script, "SELECT length(v) FROM t WHERE k={};", page + 1)?;
        }
        script.flush()?;
        let made = Command::new("sqlite3")
            .arg(self.folder.join("data"))
            .arg(format!(
                "CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB); INSERT INTO t WITH RECURSIVE n(k) AS \
                 (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < {DATA_PAGES}) SELECT k, randomblob(3600) FROM n;"
            ))
            .status()?;
        made.success()
            .then_some(())
            .ok_or_else(|| "sqlite3 failed".into())
    }

    /// A work tree of 16 directories with 208 files of 64 KiB each, committed.
    fn make_git(&self) -> Outcome<()> {
        let tree = self.folder.join("tree");
        let mut random = fastrand::Rng::with_seed(SEED);
        for directory in 0..16 {
            let directory = tree.join(format!("d{directory:02}"));
            fs::create_dir_all(&directory)?;
            for file in 0..208 {
                let mut text = String::with_capacity(65 << 10);
                while text.len() < 64 << 10 {
                    let line = format!("{:016x} {:016x}\n", random.u64(..), random.u64(..));
                    text.push_str(&line);
                }
                fs::write(directory.join(format!("f{file:03}")), text)?;
            }
        }
        let script = r#"cd "$1/tree"; git init -q; git config core.compression 0; git config gc.auto 0; git add .
            git -c user.name=bench -c user.email=bench@localhost commit -q -m data"#;
        shell(script, &[self.folder.as_os_str()])
    }

    /// The command that runs it.
    pub fn command(&self) -> Outcome<Vec<OsString>> {
        let folder = self.folder.as_os_str();
        let script = |text: &str| {
            [
                "sh".as_ref(),
                "-c".as_ref(),
                text.as_ref(),
                "load".as_ref(),
                folder,
            ]
            .map(OsString::from)
            .to_vec()
        };
        Ok(match self.name {
            "sqlite" => script(r#"exec sqlite3 -readonly "$1/data" <"$1/lookups.sql" >/dev/null"#),
            "pgbench" => {
                let mut words = script(PGBENCH);
                words.push(postgres()?.into_os_string());
                words
            }
            "git-grep" => script(GIT_GREP),
            name => vec![
                std::env::current_exe()?.into_os_string(),
                "--pages".into(),
                name.into(),
                self.folder.join("file").into_os_string(),
            ],
        })
    }

    /// Evicts its data.
    pub fn evict(&self) -> Outcome<()> {
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    let file = File::open(entry.path())?;
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads pages of a file in the order of a sequence, without readahead.
pub fn read_pages(name: &str, file: &str) -> Outcome<()> {
    let load = Synthetic::named(name).ok_or("no such sequence")?;
    let file = File::open(file)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    let mut buffer = [0; PAGE as usize];
    for page in load.pages(DATA_PAGES, SEED).take(READS) {
        file.read_exact_at(&mut buffer, page * PAGE)?;
    }
    Ok(())
}

/// The newest installed server of PostgreSQL.
fn postgres() -> Outcome<PathBuf> {
    let versions =
        fs::read_dir("/usr/lib/postgresql").map_err(|_| "PostgreSQL is not installed")?;
    let mut found: Vec<PathBuf> = versions
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    found.sort();
    found
        .pop()
        .ok_or_else(|| "PostgreSQL is not installed".into())
}

fn shell(script: &str, arguments: &[&std::ffi::OsStr]) -> Outcome<()> {
    let mut command = Command::new("sh");
    command.args(["-c", script, "prepare"]).args(arguments);
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("{status} of: {script}").into())
}
