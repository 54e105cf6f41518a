//! How clients get in: the token that a server makes, the cookie for it, the Unix socket, the packaged service.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::http::Request;
use super::site::{Site, TOKEN};
use crate::support::{Ended, Scratch, Started, cachewise};

/// A shell that runs what follows with standard error in a file.
fn into_file(file: &std::path::Path, arguments: &[&str]) -> Started {
    let mut command = Command::new("sh");
    command
        // For this user alone: a token is made for no other file.
        .args(["-c", r#"umask 077; exec "$@" 2>"$0""#])
        .arg(file)
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .args(arguments)
        .env_remove("CACHEWISE_TOKEN")
        .stdin(Stdio::null());
    Started::of(&mut command)
}

pub fn made_token_is_shown_once_and_needed() {
    let scratch = Scratch::new();
    let errors = scratch.path("stderr");
    let mut server = into_file(&errors, &["serve", "--listen", "127.0.0.1:0"]);
    let line = server.line().expect("it says where it listens");
    let line = String::from_utf8(line).expect("it prints text");
    let address = line
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .expect("an address");
    let link = || std::fs::read_to_string(&errors).expect("it can be read");
    let said = link();
    let token = said
        .split_once(&format!("open http://{address}/login#token="))
        .and_then(|(_, rest)| rest.lines().next())
        .expect("standard error has a link with the token");
    assert_eq!(token.len(), 32, "24 bytes cannot be guessed: {token}");
    assert!(!line.contains(token), "standard output has none");
    let ask = |path: &str| Request::new(address, path);
    for path in ["/", "/metrics", "/api/v1/machine"] {
        assert_eq!(ask(path).send().status, 401, "{path} needs it");
        let bearer = format!("Bearer {token}");
        let answer = ask(path).header("Authorization", &bearer).send();
        assert_eq!(answer.status, 200, "{path} is given for it");
        assert!(!answer.body.contains(token), "{path} does not repeat it");
    }
    assert_eq!(ask("/login").send().status, 200, "the link can be opened");
    server.signal(Signal::TERM);
    server.wait().expect(0, "a signal ends it");
    assert_eq!(link().matches(token).count(), 1, "it is printed once");
}

pub fn cookie_replaces_the_token_until_the_server_ends() {
    let site = Site::new(&[]);
    let enter = |token: &str| {
        Request::new(&site.address, "/login")
            .method("POST")
            .header("Authorization", &format!("Bearer {token}"))
            .send()
    };
    let refused = enter("another-token-of-enough-characters");
    assert_eq!(refused.status, 403, "a wrong token gets no cookie");
    assert_eq!(refused.header("Set-Cookie"), None);
    assert_eq!(
        refused.header("WWW-Authenticate"),
        None,
        "and the browser does not ask over the page"
    );
    let cookie_of = |answer: super::http::Answer| {
        let cookie = answer.header("Set-Cookie").expect("a cookie").to_owned();
        let (pair, attributes) = cookie.split_once(';').expect("it has attributes");
        for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(attributes.contains(attribute), "{attribute}: {attributes}");
        }
        pair.to_owned()
    };
    let cookie = cookie_of(enter(TOKEN));
    assert!(!cookie.contains(TOKEN), "the cookie is another secret");
    let port = site.address.rsplit(':').next().expect("a port");
    assert!(
        cookie.starts_with(&format!("cachewise-{port}=")),
        "servers on other ports have other cookies: {cookie}"
    );
    let with = |site: &Site, cookie: &str| {
        let request = Request::new(&site.address, "/api/v1/machine");
        request.header("Cookie", cookie).send().status
    };
    assert_eq!(with(&site, &cookie), 200, "it is as good as the token");
    assert_eq!(with(&site, &format!("{cookie}x")), 401, "to the character");
    let other = Site::new(&[]);
    let port = other.address.rsplit(':').next().expect("a port");
    let (_, secret) = cookie.split_once('=').expect("a name and a value");
    assert_eq!(
        with(&other, &format!("cachewise-{port}={secret}")),
        401,
        "another server does not take it"
    );
}

pub fn public_metrics_open_that_page_alone() {
    let site = Site::new(&["--public-metrics"]);
    let status = |path: &str| Request::new(&site.address, path).send().status;
    assert_eq!(status("/metrics"), 200, "Prometheus needs no token");
    for path in [
        "/",
        "/metrics/",
        "/%6detrics",
        "/api/v1/totals",
        "/api/v1/events",
    ] {
        assert_eq!(status(path), 401, "{path} needs it");
    }
}

pub fn journal_gets_no_token() {
    let run = |more: &[&str]| {
        let mut command = Command::new("sh");
        // The value that systemd sets: the device and inode of standard error.
        command
            .args([
                "-c",
                r#"JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec "$0" "$@""#,
            ])
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(more)
            .env_remove("CACHEWISE_TOKEN")
            .stdin(Stdio::null());
        command
    };
    let refused = Ended::of(&mut run(&[])).expect(2, "the journal would keep the token");
    assert!(!refused.err().contains("token="), "{}", refused.err());
    refused.says("--token-file", "it says what to do instead");
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let mut to_log = Command::new("sh");
    to_log
        .args(["-c", r#"umask 022; exec "$@" 2>"$0""#])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env_remove("CACHEWISE_TOKEN");
    Ended::of(&mut to_log).expect(2, "others can read that file");
    let said = std::fs::read_to_string(&log).expect("it is there");
    assert!(
        said.contains("--token-file") && !said.contains("token="),
        "{said}"
    );
    let mut served = Started::of(run(&[]).env("CACHEWISE_TOKEN", TOKEN));
    let line = served.line().expect("it says where it listens");
    let line = String::from_utf8_lossy(&line).into_owned();
    assert!(line.contains("http://127.0.0.1:"), "it serves: {line}");
    served.signal(Signal::TERM);
    served.wait().expect(0, "with a token it serves");
}

pub fn socket_is_for_its_group() {
    let scratch = Scratch::new();
    let path = scratch.path("socket");
    let name = path.to_string_lossy().into_owned();
    let own = rustix::process::getegid().as_raw();
    // Root may give it to any group, others to their own.
    let group = if rustix::process::geteuid().is_root() {
        65534
    } else {
        own
    };
    let start = |token: Option<&str>| {
        let mut command = cachewise(["serve", "--socket", &name, "--socket-group"]);
        command.arg(group.to_string()).stdin(Stdio::null());
        command.env_remove("CACHEWISE_TOKEN");
        command.envs(token.map(|token| ("CACHEWISE_TOKEN", token)));
        let mut started = Started::of(&mut command);
        let line = started.line().expect("it says where it listens");
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.starts_with(&format!("unix:{name}: curl ")), "{line}");
        started
    };
    let status = |more: &str| {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        let head = format!(
            "GET /api/v1/machine HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        text.split(' ').nth(1).map(str::to_owned).expect("a status")
    };
    let server = start(None);
    let found = path.symlink_metadata().expect("the socket is there");
    assert_eq!(
        found.permissions().mode() & 0o7777,
        0o660,
        "others stay out"
    );
    assert_eq!(found.gid(), group, "the group is the one that was named");
    assert_eq!(status(""), "200", "who may connect needs no token");
    Ended::of(&mut cachewise(["serve", "--socket", &name]))
        .expect(2, "two cannot listen there")
        .says("another program listens there", "it says why");
    server.signal(Signal::TERM);
    let ended = server.wait().expect(0, "a signal ends it");
    assert!(!ended.err().contains("token"), "none was made");
    assert!(!path.exists(), "the name is gone");

    // One that is killed leaves its name, and the next server takes it.
    let killed = start(Some(TOKEN));
    assert_eq!(status(""), "401", "a token that was given is needed");
    assert_eq!(status(&format!("Authorization: Bearer {TOKEN}\r\n")), "200");
    drop(killed);
    assert!(path.exists(), "kill -9 leaves the name");
    drop(start(None));
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::write(&path, "data").expect("there is room");
    Ended::of(&mut cachewise(["serve", "--socket", &name]))
        .expect(2, "a file is not replaced")
        .says("a file of that name exists", "it says why");
    Ended::of(&mut cachewise([
        "serve",
        "--socket",
        &name,
        "--socket-group",
        "no-such-group",
    ]))
    .expect(2, "there is no group of this name")
    .says("/etc/group", "it says where it looked");
}

/// A line of the packaged unit with our program and a directory of ours.
fn unit_line(key: &str, state: &std::path::Path) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = root.join("packaging/serve/cachewise-serve.service");
    let text = std::fs::read_to_string(unit).expect("the unit is there");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .unwrap_or_else(|| panic!("the unit has {key}"));
    value
        .replace("/var/lib/cachewise", &state.to_string_lossy())
        .replace("/usr/bin/cachewise", env!("CARGO_BIN_EXE_cachewise"))
}

pub fn packaged_service_makes_a_private_token_and_needs_it() {
    let scratch = Scratch::new();
    let state = scratch.directory();
    for bound in ["MemoryMax", "TasksMax"] {
        assert!(!unit_line(bound, state).is_empty(), "{bound} is set");
    }
    let file = state.join("serve.token");
    let prepare = || {
        let mut command = Command::new("sh");
        command.args(["-c", &unit_line("ExecStartPre", state)]);
        Ended::of(&mut command).expect(0, "the token can be made");
        std::fs::read_to_string(&file).expect("it is there")
    };
    let token = prepare();
    assert_eq!(prepare(), token, "a later start keeps it");
    let mode = file.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "only the service reads it");
    let token = token.trim();
    assert_eq!(token.len(), 32, "24 bytes cannot be guessed");
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec {}", unit_line("ExecStart", state))])
        .env("CACHEWISE_SERVE", "--listen 127.0.0.1:0")
        .env_remove("CACHEWISE_TOKEN")
        .stdin(Stdio::null());
    let mut server = Started::of(&mut command);
    let line = server.line().expect("it says where it listens");
    let line = String::from_utf8(line).expect("it prints text");
    let address = line
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .expect("an address");
    let ask = || Request::new(address, "/metrics");
    assert_eq!(ask().send().status, 401, "other users learn nothing");
    let bearer = format!("Bearer {token}");
    let answer = ask().header("Authorization", &bearer).send();
    assert_eq!(answer.status, 200, "clients with the token do");
    server.signal(Signal::TERM);
    let ended = server.wait().expect(0, "a signal ends it");
    assert!(
        !ended.out().contains(token) && !ended.err().contains(token),
        "the journal has no token"
    );
}
