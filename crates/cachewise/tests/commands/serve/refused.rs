//! Refused clients, hidden names, and limits of requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::http::{Request, connect, raw};
use super::site::{Site, TOKEN};
use crate::support::{Ended, Scratch, cachewise, until, warm};

const PAGES: [&str; 14] = [
    "/",
    "/metrics",
    "/assets/app.js",
    "/favicon.ico",
    "/api/v1/openapi.json",
    "/api/v1/machine",
    "/api/v1/stretch",
    "/api/v1/totals",
    "/api/v1/history",
    "/api/v1/processes",
    "/api/v1/files",
    "/api/v1/findings",
    "/api/v1/cache",
    "/api/v1/events",
];

pub fn token() {
    let site = Site::at("127.0.0.1:0", &[], Some(TOKEN));
    for path in PAGES {
        let ask = || Request::new(&site.address, path);
        let without = ask().send();
        assert_eq!(without.status, 401, "{path} needs the token");
        assert!(
            without
                .header("WWW-Authenticate")
                .is_some_and(|how| how.starts_with("Basic")),
            "browsers are told to ask for it"
        );
        for wrong in [
            "Bearer a-token-of-enough-characterS",
            "Bearer ",
            "Basic YTpi",
            "a-token-of-enough-characters",
        ] {
            let answer = ask().header("Authorization", wrong).send();
            assert_eq!(answer.status, 401, "{path} does not take {wrong}");
        }
    }
    assert_eq!(site.get("/api/v1/machine").status, 200, "as a bearer");
    // `printf me:a-token-of-enough-characters | base64`
    let basic = "Basic bWU6YS10b2tlbi1vZi1lbm91Z2gtY2hhcmFjdGVycw==";
    let answer = Request::new(&site.address, "/")
        .header("Authorization", basic)
        .send();
    assert_eq!(answer.status, 200, "and as a browser's password");
    assert!(!answer.body.contains(TOKEN), "which it does not tell again");
    let health = Request::new(&site.address, "/healthz").send();
    assert_eq!(
        (health.status, health.body.as_str()),
        (200, "ok\n"),
        "supervisors need none"
    );
}

pub fn other_hosts() {
    let site = Site::new(&["--host", "db7.example"]);
    let with = |host: &str| {
        site.request("/api/v1/machine")
            .header("Host", host)
            .send()
            .status
    };
    for host in [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
    ] {
        assert_eq!(with(host), 421, "{host} is not this server");
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]:80", "db7.example"] {
        assert_ne!(with(host), 421, "{host} is");
    }
    for (request, status, why) in [
        (
            "GET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            400,
            "it must say whom it means",
        ),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            400,
            "and only once",
        ),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            421,
            "a whole address counts as well",
        ),
    ] {
        let answer = raw(&site.address, request.as_bytes());
        assert_eq!(answer.map(|answer| answer.status), Some(status), "{why}");
    }
    let answer = site.get("/");
    let policy = answer
        .header("Content-Security-Policy")
        .expect("there is a policy");
    assert!(
        policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"),
        "a strict one: {policy}"
    );
    assert!(!policy.contains("unsafe"), "without exceptions: {policy}");
    assert_eq!(
        answer.header("X-Content-Type-Options"),
        Some("nosniff"),
        "no guessing"
    );
    assert_eq!(
        answer.header("Referrer-Policy"),
        Some("no-referrer"),
        "nothing is told"
    );
    for method in [
        "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT",
    ] {
        let answer = site.request("/api/v1/machine").method(method).send();
        assert_eq!(answer.status, 405, "{method} would change something");
    }
    let answer = site.request("/metrics").method("POST").send();
    assert!(answer.body.contains("only answers GET"), "it says why");
    let answer = site.request("/api/v1/files?limit=-1").send();
    assert!(
        answer.body.contains("limit: ") && !answer.body.contains("eserialize"),
        "the parameter, in words of its user: {}",
        answer.body
    );
}

pub fn garbage() {
    let site = Site::new(&[]);
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X-Y: z\r\n".repeat(200));
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let path = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(1 << 20)
    );
    for (what, bytes) in [
        (
            "no HTTP",
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n"[..],
        ),
        ("no version", b"GET /\r\n\r\n"),
        ("zeros", &[0; 4096]),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        (
            "two lengths",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ),
        (
            "a bad header",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nbad header: x\r\n\r\n",
        ),
        ("many headers", many.as_bytes()),
        ("a long header", long.as_bytes()),
        ("a long path", path.as_bytes()),
    ] {
        let answer = raw(&site.address, bytes);
        // A server that does not read the whole request may lose its answer on the way.
        if let Some(answer) = answer {
            assert!(
                (400..=431).contains(&answer.status),
                "{what} is refused: {}",
                answer.head
            );
        }
    }
    let plain = raw(&site.address, b"garbage\r\n\r\n").expect("so little is read in whole");
    assert_eq!(plain.status, 400, "garbage is");
    assert_eq!(site.get("/healthz").status, 200, "and the next is answered");
}

pub fn port_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it has one").to_string();
    let port = address.rsplit(':').next().expect("it has a port");
    Ended::of(&mut cachewise(["serve", "--listen", &address]))
        .expect(2, "two cannot listen there")
        .says(&address, "it says where")
        .says("another program listens there", "why")
        .says(&format!("ss -tlnp 'sport = :{port}'"), "who that is")
        .says("--listen 127.0.0.1:0", "and what to do instead");
}

pub fn arguments() {
    let serve = |arguments: &[&str]| {
        let mut command = cachewise(["serve"]);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env_remove("CACHEWISE_TOKEN");
        command
    };
    let refuse = |arguments: &[&str], says: &str| {
        Ended::of(&mut serve(arguments))
            .expect(2, "that cannot be served")
            .says(says, "it says why");
    };
    refuse(&["--listen", "0.0.0.0:0"], "without a token");
    refuse(&["--listen", "[::]:0"], "--token-file");
    refuse(&["--listen", "nowhere"], "nowhere");
    refuse(
        &["--listen", "192.0.2.1:0", "--token-file", "/nonexistent"],
        "/nonexistent",
    );
    refuse(&["--token-file", "/nonexistent"], "token file");
    refuse(&["--root", "/nonexistent"], "/nonexistent");
    refuse(&["--collector", "nothing"], "page_cache");
    refuse(&["--collector", "filesets"], "--fileset NAME=GLOB");
    refuse(&["--fileset", "a=relative"], "absolute");
    refuse(&["--fileset", "a=/x", "--fileset", "a=/y"], "two sets");
    refuse(&["--top-n", "0"], "is not from 1 to 1000");
    Ended::of(serve(&["--listen", "0.0.0.0:0"]).env("CACHEWISE_TOKEN", "short"))
        .expect(2, "that can be guessed")
        .says("at least 16", "it says what is needed");
    let scratch = Scratch::new();
    let file = scratch.path("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("the disk has room");
    let allow = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&file, mode).expect("it is ours");
    };
    let name = file.to_string_lossy();
    for mode in [0o644, 0o640, 0o620, 0o604] {
        allow(mode);
        refuse(
            &["--listen", "127.0.0.1:0", "--token-file", &name],
            "chmod 600",
        );
    }
    allow(0o600);
    let site = Site::at("127.0.0.1:0", &["--token-file", &name], None);
    assert_eq!(site.get("/metrics").status, 401, "the file has the token");
    site.end().expect(0, "a signal ends it");
}

/// As many descriptors as this process may have: a connection has one here as well.
fn many_files() {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all).expect("the soft limit may be raised to the hard one");
}

pub fn many_connections() {
    many_files();
    let site = Site::new(&[]);
    let mut open: Vec<TcpStream> = Vec::new();
    // More than there are places, so that some have to make room.
    for number in 0..1200 {
        let mut stream = connect(&site.address);
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
        }
        open.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(site.get("/metrics").status, 200, "who asks is answered");
    }
    assert!(
        site.sockets() < 1100,
        "there is a bound: {}",
        site.sockets()
    );
    let resident = resident_kib(site.pid());
    assert!(
        resident < 200 << 10,
        "and memory is bounded: {resident} KiB"
    );
    drop(open);
    until("the places are free again", || {
        (site.sockets() < 20).then_some(())
    });
    assert_eq!(site.get("/").status, 200, "and all is as before");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("it has memory")
}

/// Each is waited for by a server of its own, so both at once.
pub fn slow_clients() {
    std::thread::scope(|scope| {
        scope.spawn(clients_that_read_nothing_are_disconnected);
        scope.spawn(half_a_head);
    });
}

fn clients_that_read_nothing_are_disconnected() {
    let site = Site::new(&["--interval", "0.01"]);
    let before = site.sockets_at_rest();
    let mut slow: Vec<TcpStream> = (0..4).map(|_| connect(&site.address)).collect();
    for stream in &mut slow {
        stream
            .write_all(site.head("/api/v1/events").as_bytes())
            .expect("it is taken");
    }
    until("they are listened to", || {
        (site.sockets() > before).then_some(())
    });
    // Nothing is read: the server's side fills, waits its time, and lets go.
    until("they are let go", || {
        (site.sockets() <= before).then_some(())
    });
    let resident = resident_kib(site.pid());
    assert!(
        resident < 200 << 10,
        "nothing piled up for them: {resident} KiB"
    );
    assert_eq!(site.get("/metrics").status, 200, "others are served");
    drop(slow);
}

fn half_a_head() {
    let site = Site::new(&[]);
    let mut slow = connect(&site.address);
    slow.write_all(b"GET / HTTP/1.1\r\nX: ")
        .expect("it is taken");
    let mut answer = Vec::new();
    // Returns when the server has waited its time, or fails with the limit of the test.
    let ended = slow.read_to_end(&mut answer);
    let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(
        ended.as_ref().is_ok() || ended.as_ref().is_err_and(reset),
        "half a head is not waited for: {ended:?}"
    );
}

/// Time after which the server disconnects clients that read nothing.
const DISCONNECTED_AFTER: Duration = Duration::from_secs(10);

/// Clients that request large answers and read nothing: the answers of all of them take a bounded part of memory.
pub fn slow_readers() {
    many_files();
    // Two ticks for each point of the past, so that a machine that is busy has as many points.
    let settings = ["--interval", "0.05"];
    let site = Site::new(&settings);
    // A server keeps the rows of a minute, more of them the more the machine does: the same server without slow
    // readers shows how much that takes.
    let other = Site::new(&settings);
    let memory = || [&site, &other].map(|site| resident_kib(site.pid()));
    // The past of the charts is a large answer, and made at once.
    let past = "/api/v1/history";
    let size = until("there is a past", || {
        std::thread::sleep(Duration::from_millis(500));
        let size = [&site, &other].map(|site| site.get(past).body.len());
        let size = size.into_iter().min()?;
        (size > 350 << 10).then_some(size)
    });
    let before = memory();
    let mut slow = Vec::new();
    // 300 answers do not fit. A server that makes them slower than it disconnects clients that read nothing never holds
    // that number at once.
    let began = Instant::now();
    let is_full = (0..300).any(|_| {
        let mut stream = connect(&site.address);
        stream
            .write_all(site.head(past).as_bytes())
            .expect("it is taken");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("it is answered");
        slow.push(stream);
        &status == b"HTTP/1.1 503"
    });
    assert!(
        is_full || began.elapsed() > DISCONNECTED_AFTER,
        "at some time there is no more room"
    );
    assert_eq!(
        site.get("/metrics").status,
        200,
        "small answers always have room"
    );
    let after = memory();
    let [grown, by_itself] = [0, 1].map(|which| after[which].saturating_sub(before[which]));
    // 64 MiB, and the answers that are being made.
    assert!(
        grown.saturating_sub(by_itself) < 96 << 10,
        "{} answers of {size} bytes took {grown} KiB, and {by_itself} KiB is the growth without them",
        slow.len()
    );
    drop(slow);
    until("there is room again", || {
        (site.get(past).status == 200).then_some(())
    });
}

pub fn many_streams() {
    let site = Site::new(&["--interval", "0.1"]);
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut stream = connect(&site.address);
        stream
            .write_all(site.head("/api/v1/events").as_bytes())
            .expect("it is taken");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("it is answered");
        assert_eq!(&first, b"HTTP/1.1 200", "so many live views there may be");
        open.push(stream);
    }
    let answer = site.get("/api/v1/events");
    assert_eq!(
        answer.status, 503,
        "one more is told to wait: {}",
        answer.body
    );
    drop(open);
    until("their places are free again", || {
        let mut stream = connect(&site.address);
        stream
            .write_all(site.head("/api/v1/events").as_bytes())
            .expect("it is taken");
        let mut text = [0; 12];
        stream.read_exact(&mut text).expect("it is answered");
        (&text == b"HTTP/1.1 200").then_some(())
    });
}

pub fn ends_at_once() {
    let site = Site::new(&["--interval", "0.1"]);
    let mut live = connect(&site.address);
    live.write_all(site.head("/api/v1/events").as_bytes())
        .expect("it is taken");
    let idle = connect(&site.address);
    until("events come", || {
        let mut text = [0; 4096];
        let read = live.read(&mut text).expect("it goes on");
        String::from_utf8_lossy(&text[..read])
            .contains("event: tick")
            .then_some(())
    });
    let ended = site.end().expect(0, "a supervisor ends it");
    assert_eq!(ended.complaints(), "", "without complaint");
    let mut rest = Vec::new();
    live.read_to_end(&mut rest)
        .expect("the live view has its end");
    assert!(
        String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"),
        "an orderly one"
    );
    drop(idle);
}

pub fn names() {
    let scratch = Scratch::new();
    for directory in ["shown", "shown-not", "secret"] {
        std::fs::create_dir(scratch.path(directory)).expect("it can be made");
    }
    let seen = scratch.file("shown/public.dat", 1 << 20);
    let hidden = [
        scratch.file("secret/private.dat", 1 << 20),
        scratch.file("shown-not/private.dat", 1 << 20),
    ];
    // Links out of the root, by name and as a directory.
    symlink(&hidden[0], scratch.path("shown/link.dat")).expect("a link can be made");
    symlink(scratch.path("secret"), scratch.path("shown/way")).expect("a link can be made");
    let root = scratch.path("shown").to_string_lossy().into_owned();
    let site = Site::at(
        "0.0.0.0:0",
        &["--root", &root, "--interval", "0.2", "--top-n", "5"],
        Some(TOKEN),
    );
    let read = || {
        warm(&seen);
        // A command line names files as well.
        let by_name = Command::new("cat")
            .arg(&hidden[0])
            .stdout(Stdio::null())
            .status();
        assert!(by_name.is_ok_and(|ended| ended.success()), "cat reads it");
        for path in [
            "shown/link.dat",
            "shown/way/private.dat",
            "shown-not/private.dat",
        ] {
            warm(&scratch.path(path));
        }
    };
    let seen_name = seen.to_string_lossy().into_owned();
    let files = until("the file is seen", || {
        read();
        let text = site.json("/api/v1/files?seconds=60&limit=5000").to_string();
        text.contains(&seen_name).then_some(text)
    });
    assert!(
        files.contains("allowed roots"),
        "others are told to be hidden"
    );
    let tree = site.json(&format!("/api/v1/cache?path={root}"));
    assert_eq!(
        tree["cache"]["children"][0]["name"], "public.dat",
        "the census names what it may: {tree}"
    );
    for path in PAGES.iter().filter(|path| **path != "/api/v1/events") {
        let body = site.get(path).body;
        assert!(!body.contains("private.dat"), "{path} does not name it");
        assert!(
            !body.contains("shown-not"),
            "{path} does not name its directory"
        );
    }
    let secret = scratch.path("secret").to_string_lossy().into_owned();
    for path in [
        secret.clone(),
        format!("{root}/way"),
        format!("{root}/link.dat"),
        format!("{secret}/private.dat"),
        "/etc".to_owned(),
        format!("{secret}-that-is-not-there"),
    ] {
        let answer = site.get(&format!("/api/v1/cache?path={path}"));
        assert_eq!(answer.status, 404, "{path} is as if it were not there");
    }
    for path in [format!("{root}/../secret"), format!("{root}/%2e%2e/secret")] {
        let answer = site.get(&format!("/api/v1/cache?path={path}"));
        assert_eq!(answer.status, 400, "{path} is no path to ask for");
    }
    // An event, as live views get it.
    let mut live = connect(&site.address);
    live.write_all(site.head("/api/v1/events").as_bytes())
        .expect("it is taken");
    let mut text = String::new();
    until("the file is in an event", || {
        read();
        let mut part = [0; 64 << 10];
        let length = live.read(&mut part).expect("it goes on");
        text += &String::from_utf8_lossy(&part[..length]);
        text.contains("public.dat").then_some(())
    });
    assert!(!text.contains("private.dat"), "others are in none");
}
