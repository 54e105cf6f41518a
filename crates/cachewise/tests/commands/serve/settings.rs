//! Settings of `serve`: flags, environment variables and keys of a settings file.

use super::http::Request;
use super::site::{Site, TOKEN};
use crate::support::{Ended, Scratch, cachewise};

pub fn flag_overrides_environment_overrides_file() {
    const VARIABLE: &str = "CACHEWISE_SERVE_PUBLIC_METRICS";
    let scratch = Scratch::new();
    let file = scratch.path("serve.toml");
    let text = "public_metrics = true\nlisten = \"127.0.0.1:1\"\ninterval = \"500ms\"\nhost = [\"a.example\", \"b.example\"]\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("plain");
    for (variable, arguments, status) in [
        (None, &["--settings", file][..], 200),
        (Some("false"), &["--settings", file], 401),
        (Some("true"), &[], 200),
        (Some("false"), &["--public-metrics"], 200),
    ] {
        let mut command = cachewise::<_, &str>([]);
        command.envs(variable.map(|value| (VARIABLE, value)));
        // The typed address is not that of the file, at which no port is free for users.
        let site = Site::of(command, "127.0.0.1:0", arguments, Some(TOKEN));
        let answer = Request::new(&site.address, "/metrics").send();
        assert_eq!(answer.status, status, "{variable:?} {arguments:?}");
        if arguments.contains(&"--settings") {
            let host = Request::new(&site.address, "/healthz").header("Host", "b.example");
            assert_eq!(host.send().status, 200, "each of a list counts");
        }
    }
}

pub fn wrong_settings_are_refused_with_their_source() {
    let scratch = Scratch::new();
    let file = scratch.path("serve.toml");
    let serve = |text: &str, variable: (&str, &str)| {
        std::fs::write(&file, text).expect("written");
        let mut command = cachewise(["serve", "--settings"]);
        Ended::of(command.arg(&file).env(variable.0, variable.1)).expect(2, "it is refused")
    };
    let none = ("CACHEWISE_SERVE_LISTEN", "");
    for (text, why) in [
        (
            "lisen = \"127.0.0.1:0\"",
            "serve.toml: lisen: no such setting; there are listen,",
        ),
        (
            "listen = \"here\"",
            "serve.toml: listen: invalid socket address",
        ),
        (
            "interval = \"5 MiB\"",
            "serve.toml: interval: \"5 MiB\" is not an interval",
        ),
        ("top_n = 0", "serve.toml: top_n: 0 is not from 1 to 1000"),
        ("top_n = 1\ntop-n = 2", "serve.toml: top_n is there twice"),
        ("top_n = 1\ntop_n = 2", "duplicate key"),
        (
            "public_metrics = \"yes\"",
            "serve.toml: public_metrics: it is true or false",
        ),
        ("fileset = \"a=b\"", "serve.toml: fileset: "),
        (
            "socket = \"/a\"\npublic_metrics = true",
            "'--public-metrics' cannot be used with '--socket",
        ),
        ("socket_group = \"adm\"", "--socket <PATH>"),
    ] {
        serve(text, none).says(why, text);
    }
    serve("", ("CACHEWISE_SERVE_TOP_N", "many")).says(
        "environment variable CACHEWISE_SERVE_TOP_N: not a whole number",
        "why",
    );
}
