//! Arguments of `cachewise serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use cachewise_units::Interval;
use cachewise_web::Collector;
use clap::Args;

/// Where it listens unless told otherwise: a number that the Prometheus wiki's list of ports has free.
const ADDRESS: &str = "127.0.0.1:10029";

/// `cachewise serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "Clients need a token: of a file (--token-file), of the variable CACHEWISE_TOKEN, or, on a loopback \
    address, one made for this run: standard error gets a link with it, once. Programs send it as `Authorization: \
    Bearer TOKEN`; browsers take the link, or ask for it as a password, with any user name. A Unix socket (--socket) \
    needs no token: its mode is 0660.\n\n\
    File names are private data: on a loopback address and a socket all are shown, on any other those under --root \
    only.\n\n\
    Nothing is changed by any request. Ctrl-C ends it, as does SIGTERM.\n\n\
    Examples:\n  \
    cachewise serve\n  \
    cachewise serve --listen 127.0.0.1:0 --no-collector memory --public-metrics\n  \
    cachewise serve --socket /run/cachewise.sock --socket-group adm\n  \
    cachewise serve --top-n 20 --fileset 'pgdata=/var/lib/postgresql/**'\n  \
    cachewise serve --listen 0.0.0.0:10029 --token-file /etc/cachewise/token --root /srv"
)]
pub struct Serve {
    /// Where to listen; with port 0 at any free one, which is printed.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ADDRESS)]
    pub listen: SocketAddr,
    /// Listen on a Unix socket of this name, with mode 0660, and not on an address.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "public_metrics"])]
    pub socket: Option<PathBuf>,
    /// Group of the socket, by its name in /etc/group or its number [default: that of the process].
    #[arg(long, value_name = "GROUP", requires = "socket")]
    pub socket_group: Option<String>,
    /// Answer /metrics without the token; all else needs it.
    #[arg(long)]
    pub public_metrics: bool,
    /// Read the token that clients need from a file with mode 0600.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Show the names of files under this directory; may be given again. On a loopback address it leaves
    /// out all others.
    #[arg(long, value_name = "PATH")]
    pub root: Vec<PathBuf>,
    /// A name, besides localhost, by which browsers may call this server; may be given again.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Give out the metrics of these collectors only: page_cache, memory, vmstat, pressure, devices, cgroups,
    /// filesets.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub collector: Vec<Collector>,
    /// Leave out the metrics of these collectors: node_exporter has memory too.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "collector"
    )]
    pub no_collector: Vec<Collector>,
    /// Metrics by control group, of the N busiest; the others are one series.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub top_n: Option<u16>,
    /// Metrics of how much of these files is cached, under a name; may be given again.
    #[arg(long, value_name = "NAME=GLOB", value_parser = parse_set)]
    pub fileset: Vec<NamedGlob>,
    /// Push the metrics to this OpenTelemetry collector too, at every interval: http://127.0.0.1:4318.
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<cachewise_web::OtlpAddress>,
    /// From tick to tick of the live views: 1, 0.5, 100ms. Scrapes have their own moment.
    #[arg(long, default_value = "1")]
    pub interval: Interval,
}

/// A name for the files of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedGlob {
    pub name: String,
    pub glob: String,
}

fn parse_set(text: &str) -> Result<NamedGlob, String> {
    let Some((name, glob)) = text.split_once('=') else {
        return Err("write NAME=GLOB, such as logs=/var/log/**".into());
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !is_name {
        return Err(format!(
            "`{name}` is no name for a set: letters, digits, `_`, `-` and `.`, beginning with a letter"
        ));
    }
    if !glob.starts_with('/') {
        return Err(format!("`{glob}` must be absolute: begin it with /"));
    }
    Ok(NamedGlob {
        name: name.into(),
        glob: glob.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_a_name_and_an_absolute_pattern() {
        let set = parse_set("pgdata=/var/lib/pg/**=x").expect("a set");
        assert_eq!(
            (set.name.as_str(), set.glob.as_str()),
            ("pgdata", "/var/lib/pg/**=x"),
            "the first = parts them"
        );
        for text in [
            "/var/**",
            "=/var/**",
            "1a=/var/**",
            "a b=/x",
            "a=var/**",
            "a=",
            "a\"=/x",
        ] {
            assert!(parse_set(text).is_err(), "{text} is none");
        }
    }
}
