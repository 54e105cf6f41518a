//! `tier` and `mount` of an origin over HTTP: lighttpd, which lists by WebDAV, the server of Python, which does not
//! even know parts of files, and servers that break.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::certificate::vouched_for;
use crate::http::{Act, HttpServer, Object, answer};
use crate::mounted::{Mounted, bytes_of, has_fuse, is_mounted, names, number_of, origin, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("http::a_server_with_lists", lighttpd),
        plain("http::a_server_without_lists_or_ranges", python),
        plain("http::https_is_who_it_says", https),
        plain("http::secrets_are_the_environments", secrets),
        plain("http::a_server_that_breaks_ends_in_an_error", broken),
    ]
}

/// Returns a port that stays free until a server listens on it: the kernel hands out ports from 32768 on, and other
/// processes of these tests begin at other numbers.
fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let from = std::process::id().wrapping_mul(8);
    let ports = std::iter::repeat_with(|| from.wrapping_add(TAKEN.fetch_add(1, Relaxed)) % COUNT);
    ports
        .take(COUNT as usize)
        .map(|number| u16::try_from(FIRST + number).expect("a port"))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .expect("a free port")
}

/// A server that runs until it is dropped.
pub struct Server {
    _started: Started,
    pub port: u16,
}

impl Server {
    /// Starts a server on a port and waits until it listens. Returns `None`, with a note, if the
    /// program is missing.
    pub fn start(what: &str, command: impl FnOnce(u16) -> Command) -> Option<Server> {
        let port = free_port();
        let mut command = command(port);
        let program = command.get_program().to_owned();
        let is_there = Command::new(&program)
            .arg("--help")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if let Err(error) = is_there {
            println!("skipped: {what}: {}: {error}", program.display());
            return None;
        }
        let mut started = Started::of(command.stdin(Stdio::null()));
        until("the server listens", || {
            if let Ok(Some(status)) = started.child.try_wait() {
                panic!("the server of {what} ended with {status}");
            }
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Some(Server {
            _started: started,
            port,
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

/// Sets the modification times of all files back by `hours`.
fn age(origin: &Path, hours: u64) {
    for entry in fs::read_dir(origin.join("f")).expect("made").flatten() {
        let long_ago = SystemTime::now() - Duration::from_secs(3_600 * hours);
        let file = fs::File::options().write(true).open(entry.path());
        file.and_then(|file| file.set_modified(long_ago))
            .expect("ours");
    }
}

fn tier(command: &str, arguments: &[&str]) -> Ended {
    Ended::of(cachewise([command]).args(arguments))
}

fn of_json(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out).expect("JSON")
}

/// How many files a document has, and how often a tier had the block.
fn counts(document: &Value, tier: &str) -> (usize, u64) {
    let files = document["files"].as_array().expect("files").len();
    (files, number_of(document, tier, "hits_total"))
}

/// Starts lighttpd, which lists by WebDAV; none, and it is said why, where that cannot be.
pub fn webdav(what: &str, root: &Path, set_up: &Path) -> Option<Server> {
    let module = ["/usr/lib/lighttpd", "/usr/lib64/lighttpd"]
        .map(|directory| Path::new(directory).join("mod_webdav.so"));
    if !module.iter().any(|path| path.exists()) {
        println!(
            "skipped: {what}: lighttpd with mod_webdav is not installed (lighttpd-mod-webdav)"
        );
        return None;
    }
    let root = root.display();
    Server::start(what, |port| {
        let text = format!(
            "server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
            server.modules = (\"mod_webdav\")\nwebdav.activate = \"enable\"\nwebdav.is-readonly = \"enable\"\n\
            mimetype.assign = (\"\" => \"application/octet-stream\")\n"
        );
        fs::write(set_up, text).expect("written");
        let mut command = Command::new("/usr/sbin/lighttpd");
        command.arg("-D").arg("-f").arg(set_up);
        command
    })
}

fn lighttpd() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 3, 300_000);
    write(&origin.join("f/a b&%25 é"), &bytes_of(7, 1_000));
    age(&origin, 3);
    let set_up = scratch.directory().join("lighttpd.conf");
    let root = origin.parent().expect("it has one");
    let Some(server) = webdav("an origin over HTTP with lists", root, &set_up) else {
        return;
    };
    let name = origin.file_name().expect("it has one");
    let url = server.url(&format!("/{}", name.to_str().expect("ours")));

    let part = ["--offset", "100000", "--length", "1000", &url, "f/1"];
    let part = tier("get", &part).expect(0, "a part");
    assert!(part.out == bytes_of(1, 300_000)[100_000..101_000]);
    let odd = tier("get", &[&url, "f/a b&%25 é"]).expect(0, "an odd name");
    assert!(odd.out == bytes_of(7, 1_000));
    tier("get", &[&url, "f/none"])
        .expect(2, "there is none")
        .says("f/none: not found at the origin", "which");
    tier("get", &[&url, "f"])
        .expect(2, "a directory")
        .says("not a file", "why");

    let disk = scratch.directory().join("disk");
    let disk = disk.to_str().expect("ours");
    let with_disk = ["--disk", disk, "--disk-size", "64M", "-o", "json", &url];
    let warmed = tier("warm", &with_disk).expect(0, "all of it, as it lists");
    assert_eq!(counts(&of_json(&warmed), "origin"), (4, 10));
    let again = tier("warm", &with_disk).expect(0, "it is there");
    assert_eq!(counts(&of_json(&again), "origin"), (4, 0), "from the disk");
    let verified = tier("verify", &with_disk).expect(0, "it is the same");
    assert_eq!(counts(&of_json(&verified), "disk"), (4, 10));

    if !has_fuse("a mount of an origin over HTTP") {
        return;
    }
    let mounted = Mounted::new(&scratch, Path::new(&url), &["--revalidate", "1h"]);
    assert_eq!(names(&mounted.directory), ["f"]);
    assert_eq!(names(&mounted.path("f")), ["0", "1", "2", "a b&%25 é"]);
    for number in 0..3 {
        let path = mounted.path(&format!("f/{number}"));
        assert_eq!(fs::metadata(&path).expect("it is there").len(), 300_000);
        assert!(fs::read(&path).expect("it is read") == bytes_of(number, 300_000));
    }
    let looked = mounted.of_operation("lookup", "origin_calls");
    fs::read(mounted.path("f/0")).expect("it is read");
    let looked_now = mounted.of_operation("lookup", "origin_calls");
    assert_eq!(looked_now, looked, "asked once in the time");
    assert_eq!(mounted.calls_of_tier("remote"), 0, "no engine is asked");

    // An open file is one state: its bytes, or none. The server goes on giving out the old file for two seconds, which
    // is there as long as it is replaced, and not written over.
    let replace = |number, hours| {
        write(&origin.join("f/new"), &bytes_of(number, 3_000_000));
        age(&origin, hours);
        fs::rename(origin.join("f/new"), origin.join("f/3")).expect("ours");
    };
    replace(3, 2);
    let open = fs::File::open(mounted.path("f/3")).expect("it is there");
    let mut bytes = [0; 1_000];
    open.read_exact_at(&mut bytes, 0).expect("it is read");
    replace(4, 1);
    let old = bytes_of(3, 3_000_000);
    let places = (1..22_usize).rev().map(|block| block * 131_072);
    let stale = places.into_iter().find_map(|place| {
        std::thread::sleep(Duration::from_millis(200));
        match open.read_exact_at(&mut bytes, place as u64) {
            Ok(()) => assert!(
                bytes == old[place..place + 1_000],
                "the state that was opened"
            ),
            Err(error) => return Some(error),
        }
        None
    });
    let stale = stale.expect("the old state is gone");
    let stale_is = rustix::io::Errno::STALE.raw_os_error();
    assert_eq!(stale.raw_os_error(), Some(stale_is), "{stale}");
    drop(open);
    until("the new state is read", || {
        let read = fs::read(mounted.path("f/3")).ok()?;
        (read == bytes_of(4, 3_000_000)).then_some(())
    });
    let directory = mounted.directory.clone();
    mounted.end().expect(0, "a signal is the usual end");
    assert!(!is_mounted(&directory), "it is unmounted");
}

/// The server that comes with Python.
fn served(what: &str, root: &Path) -> Option<Server> {
    Server::start(what, |port| {
        let mut command = Command::new("python3");
        command
            .args([
                "-m",
                "http.server",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
            ])
            .arg("-d")
            .arg(root);
        command
    })
}

fn python() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 300_000);
    age(&origin, 1);
    let Some(server) = served("an origin over HTTP without lists", &origin) else {
        return;
    };
    let url = server.url("/");
    let part = ["--offset", "250000", "--length", "1000", &url, "f/1"];
    let part = tier("get", &part).expect(0, "a part, out of all of it");
    assert!(part.out == bytes_of(1, 300_000)[250_000..251_000]);
    let warmed = tier("warm", &["-o", "json", &url, "f/0", "f/1"]).expect(0, "what is named");
    assert_eq!(counts(&of_json(&warmed), "origin"), (2, 6));
    tier("warm", &[&url])
        .expect(2, "there is no list")
        .says("does not list directories", "why")
        .says("name files by their paths", "what to do");
    if !has_fuse("a mount of an origin over HTTP without lists") {
        return;
    }
    let mounted = Mounted::new(&scratch, Path::new(&url), &[]);
    let read = fs::read(mounted.path("f/1")).expect("names are found");
    assert!(read == bytes_of(1, 300_000));
    let missing = fs::read(mounted.path("f/none")).expect_err("there is none");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let unlisted = fs::read_dir(mounted.path("f")).expect_err("there is no list");
    let unlisted_is = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    assert_eq!(unlisted.raw_os_error(), Some(unlisted_is), "{unlisted}");
    mounted.end().expect(0, "a signal is the usual end").says(
        "warning: the origin does not list directories",
        "at the start",
    );
}

/// A server over TLS: port, key, certificate, directory.
const TLS_SERVER: &str = "
import functools, http.server, ssl, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[4])
server = http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
";

fn https() {
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 1_000);
    let Some((key, certificate)) = vouched_for(scratch.directory(), "own") else {
        println!("skipped: an origin over https: openssl is not installed");
        return;
    };
    let server = Server::start("an origin over https", |port| {
        let mut command = Command::new("python3");
        command
            .args(["-c", TLS_SERVER, &port.to_string()])
            .args([&key, &certificate, &origin]);
        command
    });
    let Some(server) = server else {
        return;
    };
    let url = server.url("/").replace("http://", "https://");
    let get = |authority: &Path| {
        let mut command = cachewise(["get", &url, "f/0"]);
        Ended::of(command.env("SSL_CERT_FILE", authority))
    };
    let read = get(&certificate).expect(0, "it is vouched for");
    assert!(read.out == bytes_of(0, 1_000));
    // A private key is not a certificate.
    get(&key)
        .expect(2, "nobody is vouched for")
        .says("certificate", "why");
    let mut command = cachewise(["get", &url, "f/0"]);
    Ended::of(&mut command)
        .expect(2, "the system does not know it")
        .says("certificate", "why");
}

fn secrets() {
    let object = Object::new(bytes_of(0, 1_000));
    let server = HttpServer::start(move |asked| match asked.header("authorization") {
        Some("Bearer geheim") => object.answer(asked),
        _ => Act::Answer(answer("401 Unauthorized", &[], b"who?")),
    });
    let url = server.url("/");
    let mut command = cachewise(["get", &url, "x"]);
    command.env_remove("CACHEWISE_ORIGIN_AUTHORIZATION");
    command.env_remove("CACHEWISE_TIER_ORIGIN_AUTHORIZATION");
    Ended::of(&mut command)
        .expect(2, "nobody")
        .says("the origin refuses access", "why");
    command.env("CACHEWISE_ORIGIN_AUTHORIZATION", "Bearer wrong geheim");
    let refused = Ended::of(&mut command).expect(2, "somebody else");
    assert!(!refused.err().contains("geheim"), "{}", refused.err());
    for variable in [
        "CACHEWISE_ORIGIN_AUTHORIZATION",
        "CACHEWISE_TIER_ORIGIN_AUTHORIZATION",
    ] {
        command.env(variable, "Bearer geheim");
        let read = Ended::of(&mut command).expect(0, "it is known");
        assert!(read.out == bytes_of(0, 1_000), "{variable}");
        command.env("CACHEWISE_ORIGIN_AUTHORIZATION", "Bearer wrong geheim");
    }
    for (origin, why) in [
        (
            "http://me:geheim@127.0.0.1:1/",
            "CACHEWISE_TIER_ORIGIN_AUTHORIZATION",
        ),
        (
            "https://geheim@127.0.0.1:1/",
            "CACHEWISE_TIER_ORIGIN_AUTHORIZATION",
        ),
        ("http://127.0.0.1:1/?token=geheim", "?"),
        (
            "ftp://me:geheim@127.0.0.1:1/",
            "the scheme ftp is not supported",
        ),
        ("s3://key:geheim@bucket/", "AWS_ACCESS_KEY_ID"),
    ] {
        let refused = tier("get", &[origin, "x"]).expect(2, "a secret in an argument");
        let said = refused.says(why, origin).err();
        assert!(!said.contains("geheim"), "{said}");
    }
}

/// Tests a server that answers every GET in one way, and all else correctly. The read of three
/// blocks must fail after at most `most_gets` GET requests.
pub fn ends_in_an_error(
    what: &str,
    act: &Act,
    why: &str,
    most_gets: usize,
    command: impl FnOnce(&HttpServer) -> Command,
) {
    // Far beyond the deadline of each call: only a hang reaches it.
    const BOUND: Duration = Duration::from_secs(60);
    let (object, act) = (Object::new(bytes_of(0, 300_000)), act.clone());
    let server = HttpServer::start(move |asked| match asked.method.as_str() {
        "GET" => act.clone(),
        _ => object.answer(asked),
    });
    let begun = Instant::now();
    Ended::of(&mut command(&server))
        .expect(2, what)
        .says(why, what);
    assert!(begun.elapsed() < BOUND, "{what}: {:?}", begun.elapsed());
    let asked = server.asked();
    let gets = asked.iter().filter(|asked| asked.method == "GET").count();
    assert!(gets <= most_gets, "{what}: {gets} times: {asked:?}");
}

/// Transient errors are retried for each block; permanent ones are not.
pub const ONCE: usize = 3;
pub const AGAIN: usize = 9;

fn broken() {
    let answered = |status: &str| Act::Answer(answer(status, &[], b""));
    for (what, act, why, most) in [
        (
            "hangs",
            Act::Hang(Vec::new()),
            "no answer within 1000 ms",
            AGAIN,
        ),
        ("is broken", answered("500 No"), "500", AGAIN),
        ("refuses", answered("403 No"), "refuses access", ONCE),
        (
            "talks nonsense",
            Act::Answer(b"what\r\n\r\n".to_vec()),
            "read at the origin",
            AGAIN,
        ),
        (
            "has changed",
            answered("412 No"),
            "changed at the origin",
            ONCE,
        ),
    ] {
        ends_in_an_error(what, &act, why, most, |server| {
            cachewise(["get", "--read-deadline", "1", &server.url("/"), "x"])
        });
    }
}
