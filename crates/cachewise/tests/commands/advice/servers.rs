//! Servers: nginx and lighttpd, and PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fault::{Amount, Fault, Subject, note};
use super::healthy::stays_healthy;
use super::kit::*;
use super::memory::{too_small, with_room};
use crate::support::*;

/// A tree of files of one MiB, and what serves them on a socket.
struct Site {
    scratch: Scratch,
    files: Vec<PathBuf>,
}

/// Starts the server `$2` with its settings `$1/conf`, and gets each of the files as often as `$3` says.
const VISITS: &str = "
case $2 in
    nginx) nginx -c $1/conf -p $1 2>/dev/null & ;;
    lighttpd) lighttpd -D -f $1/conf 2>/dev/null & ;;
esac
server=$!
for round in $(seq $3); do
    # Once it listens, each request is answered.
    curl -sSf --retry 50 --retry-all-errors --retry-delay 0 --retry-max-time 60 \\
        --unix-socket $1/socket \"http://site/[0-24].data\" -o /dev/null 2>$1/errors || exit 1
done
kill $server
wait $server
true";

impl Site {
    /// Makes it, if there is such a server.
    fn of(server: &str, test: &str) -> Option<Site> {
        if !has(&[server, "curl"], &format!("advice::{test}")) {
            return None;
        }
        let scratch = Scratch::new();
        let root = scratch.path("root");
        fs::create_dir(&root).expect("a directory");
        let place = scratch.directory().display();
        let settings = match server {
            "nginx" => format!(
                "daemon off; master_process off; user root; pid {place}/pid; error_log stderr;\n\
                 events {{}}\n\
                 http {{ access_log off; sendfile on; client_body_temp_path {place}/body; \
                 proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi; \
                 uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi; \
                 server {{ listen unix:{place}/socket; root {place}/root; }} }}\n"
            ),
            _ => format!(
                "server.document-root = \"{place}/root\"\nserver.bind = \"{place}/socket\"\n\
                 server.pid-file = \"{place}/pid\"\n"
            ),
        };
        fs::write(scratch.path("conf"), settings).expect("a file");
        let name = |number: u32| format!("root/{number}.data");
        let files = (0..25).map(|number| scratch.file(name(number), MIB));
        let files = files.collect();
        Some(Site { scratch, files })
    }

    fn root(&self) -> PathBuf {
        self.scratch.path("root")
    }

    /// The report of a server and its visitor, in this group if there is one.
    fn visited(&self, group: Option<&Group>, server: &str, rounds: &str) -> Report {
        let _ = fs::remove_file(self.scratch.path("socket"));
        let words = [self.scratch.directory(), server.as_ref(), rounds.as_ref()];
        let report = match group {
            Some(group) => report_of_shell_in(group, VISITS, &words),
            None => report_of_shell(VISITS, &words),
        };
        let errors = fs::read_to_string(self.scratch.path("errors")).unwrap_or_default();
        assert!(report.ended.status.success(), "{errors}");
        report
    }
}

/// A server whose files are not resident.
fn cold_site(server: &str) {
    let Some(site) = Site::of(server, &format!("{server}_cold")) else {
        return;
    };
    let root = site.root();
    site.files.iter().for_each(|file| evict(file));
    let files: Vec<&Path> = site.files.iter().map(PathBuf::as_path).collect();
    let fault = Fault {
        scenario: &format!("{server} serves 25 cold files"),
        rules: &["cold_start"],
        subject: Subject::In(&root),
        figure: ("cold_pages", 25 * MIB / page_size()),
        fix: &["cachewise warm"],
        amount: Amount::FetchedBelow(&root),
        factor: 100,
        warm: &files,
    };
    let run = || site.visited(None, server, "1");
    fault.check(run, run);
}

pub fn nginx_cold() {
    cold_site("nginx");
}

pub fn lighttpd_cold() {
    cold_site("lighttpd");
}

pub fn nginx_in_a_small_group() {
    let test = "nginx_in_a_small_group";
    let made = group_of(16 * MIB, &format!("advice::{test}"));
    let Some(((group, limit), site)) = made.zip(Site::of("nginx", test)) else {
        return;
    };
    let root = site.root();
    let run = || {
        site.files.iter().for_each(|file| evict(file));
        site.visited(Some(&group), "nginx", "3")
    };
    let scenario = "nginx serves 25 MiB three times in a group of 16 MiB";
    too_small(&group, &[&limit], scenario, Amount::FetchedBelow(&root))
        .check(run, || with_room(&group, run));
}

pub fn warm_nginx() {
    if let Some(site) = Site::of("nginx", "warm_nginx") {
        stays_healthy("nginx serves 25 resident files", || {
            site.files.iter().for_each(|file| warm(file));
            site.visited(None, "nginx", "2")
        });
    }
}

/// Runs the statements of `$3` on the PostgreSQL server with the data in `$1`, whose programs are in `$2`; as another user,
/// as it refuses root.
const STATEMENTS: &str = "
cd $1
exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '
    set -e
    settings=\"-k $0 -c listen_addresses= -c shared_buffers=${BUFFERS:-1MB} -c fsync=off -c autovacuum=off -c max_connections=5\"
    [ -e $0/data ] || $1/initdb -D $0/data -A trust -U postgres --no-locale --no-sync
    $1/pg_ctl -D $0/data -o \"$settings\" -l $0/log -w start
    echo \"$2\" | $1/psql -h $0 -U postgres -qAt -v ON_ERROR_STOP=1 -f - postgres
    $1/pg_ctl -D $0/data -m fast -w stop
' $1 $2 \"$3\" 2>&1";

/// A PostgreSQL database with one table.
struct Postgres {
    scratch: Scratch,
    programs: PathBuf,
    table: PathBuf,
}

impl Postgres {
    /// Makes it, if there is PostgreSQL.
    fn new(test: &str) -> Option<Postgres> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let places = versions.flatten().map(|version| version.path().join("bin"));
        let programs = places.filter(|place| place.join("initdb").exists()).max();
        let Some(programs) = programs else {
            println!("skipped: advice::{test}: PostgreSQL is not installed");
            return None;
        };
        let scratch = Scratch::new();
        std::os::unix::fs::chown(scratch.directory(), Some(65534), Some(65534))
            .expect("root may give it away");
        let make = "create table t (id int, body text); alter table t alter body set storage plain; \
            insert into t select n, repeat(md5(n::text), 12) from generate_series(1, 80000) n; \
            create index on t (id); vacuum analyze t; checkpoint; select pg_relation_filepath('t')";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", STATEMENTS, "sh"]);
        let shell = shell.arg(scratch.directory()).arg(&programs).arg(make);
        let made = Ended::of(shell).expect(0, "a database");
        let out = made.out();
        let path = out.lines().find(|line| line.starts_with("base/"));
        let path = path.unwrap_or_else(|| panic!("the table's file is named: {out}"));
        let table = scratch.path("data").join(path);
        Some(Postgres {
            scratch,
            programs,
            table,
        })
    }

    fn report(&self, group: Option<&Group>, statements: &str) -> Report {
        let words: [&Path; 3] = [
            self.scratch.directory(),
            &self.programs,
            statements.as_ref(),
        ];
        let report = match group {
            Some(group) => report_of_shell_in(group, STATEMENTS, &words),
            None => report_of_shell(STATEMENTS, &words),
        };
        assert!(report.ended.status.success(), "{}", report.ended.out());
        report
    }
}

/// Rows of the whole table in an order that jumps about, by the index.
const LOOKUPS: &str = "set enable_bitmapscan=off; set enable_seqscan=off; set enable_hashjoin=off; \
    set enable_mergejoin=off; select count(body) from generate_series(1, 3000) n \
    join t on t.id = (n * 7919) % 80000";

pub fn postgres_lookups() {
    let Some(postgres) = Postgres::new("postgres_lookups") else {
        return;
    };
    let table = &postgres.table;
    let run = || postgres.report(None, LOOKUPS);
    evict(table);
    let fault = Fault {
        scenario: "PostgreSQL looks up rows of a cold table",
        rules: &["random_small_reads"],
        subject: Subject::File(table),
        figure: ("read_missed_pages", 1_000),
        fix: &["the file fits into memory", "cat "],
        amount: Amount::Fetched(table),
        factor: 100,
        warm: &[table],
    };
    fault.check(run, run);
}

pub fn postgres_scans_in_a_small_group() {
    let test = "postgres_scans_in_a_small_group";
    let made = group_of(32 * MIB, &format!("advice::{test}"));
    let Some(((group, limit), postgres)) = made.zip(Postgres::new(test)) else {
        return;
    };
    let table = &postgres.table;
    let scan = "select sum(length(body)) from t;";
    let run = || {
        evict(table);
        postgres.report(Some(&group), &scan.repeat(3))
    };
    let scenario = "PostgreSQL scans 35 MB three times in a group of 32 MiB";
    too_small(&group, &[&limit], scenario, Amount::Fetched(table))
        .check(run, || with_room(&group, run));
}

/// Reads the table into the shared buffers, and waits in the session that has mapped all of them.
const BUFFERED: &str = "set max_parallel_workers_per_gather=0;
select count(body) from t;
select pg_backend_pid() \\g pid
\\! touch ready; while [ ! -e done ]; do sleep 0.1; done";

/// A table that is in the shared buffers of PostgreSQL and in the page cache.
pub fn postgres_with_large_buffers() {
    let Some(postgres) = Postgres::new("postgres_with_large_buffers") else {
        return;
    };
    let table = &postgres.table;
    let directory = postgres.scratch.directory();
    let found_with = |buffers: &str| {
        for name in ["ready", "done"] {
            let _ = fs::remove_file(directory.join(name));
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", STATEMENTS, "sh"]).arg(directory);
        shell
            .arg(&postgres.programs)
            .arg(BUFFERED)
            .env("BUFFERS", buffers);
        let server = Started::of(&mut shell);
        until("the session has read the table", || {
            directory.join("ready").exists().then_some(())
        });
        let pid = fs::read_to_string(directory.join("pid")).expect("the session wrote it");
        let found = super::twice::twice(pid.trim().parse().expect("a number"), table);
        fs::write(directory.join("done"), "").expect("a file");
        server.wait().expect(0, "it ends");
        found
    };
    let found = found_with("256MB");
    assert_eq!(found.len(), 1, "the table is in both: {found:?}");
    let twice = number(&found[0]["figures"], "cached_twice_bytes");
    assert!(twice >= 16 * MIB, "{}", found[0]);
    note(&[
        "fault",
        "PostgreSQL with shared buffers of 256 MB",
        "cached_twice",
        "cached_twice",
        "cached_twice_bytes",
        &twice.to_string(),
    ]);
    assert_eq!(
        found_with("1MB").len(),
        0,
        "it does not fit into the buffers"
    );
}
