//! Arguments of `cachewise serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use cachewise_cli::settings;
use cachewise_units::Period;
use cachewise_web::Collector;
use clap::Args;

use crate::options::LabelFile;
use crate::selection::Selection;

/// Default address. Its port is unassigned in the list of ports of the Prometheus wiki.
const ADDRESS: &str = "127.0.0.1:10029";

/// Prefix of the settings in the environment, without `_`.
const PREFIX: &str = "CACHEWISE_SERVE";

/// `cachewise serve`. Each flag but the first is a setting.
#[derive(Debug, Args)]
#[command(
    mut_args = |arg| settings::with_variable(PREFIX, arg),
    after_help = "Clients need a token. It is read from --token-file or from the variable CACHEWISE_TOKEN; on a loopback \
    address without either, serve generates one for this run and prints a link with it once, to standard error. Programs \
    send it as `Authorization: Bearer TOKEN`; browsers open the link, or enter the token as a password with any user \
    name. A Unix socket (--socket) needs no token: its mode is 0660.\n\n\
    File names are private data: a loopback address and a socket show all of them, any other address only those under \
    --root.\n\n\
    Requests change nothing. Ctrl-C or SIGTERM ends serve.\n\n\
    Examples:\n  \
    cachewise serve\n  \
    cachewise serve --listen 127.0.0.1:0 --no-collector memory --public-metrics\n  \
    cachewise serve --socket /run/cachewise.sock --socket-group adm\n  \
    cachewise serve --top-n 20 --fileset 'pgdata=/var/lib/postgresql/**'\n  \
    cachewise serve --listen 0.0.0.0:10029 --token-file /etc/cachewise/token --root /srv"
)]
pub struct Serve {
    #[arg(long = settings::FILE, value_name = "FILE", help = settings::FILE_HELP)]
    pub settings: Option<PathBuf>,
    /// Address and port to listen on; port 0 selects a free one and prints it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = ADDRESS)]
    pub listen: SocketAddr,
    /// Listen on a Unix socket with this path and mode 0660 instead of an address.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "public_metrics"])]
    pub socket: Option<PathBuf>,
    /// Group of the socket, by name in /etc/group or by number [default: group of the process].
    #[arg(long, value_name = "GROUP", requires = "socket")]
    pub socket_group: Option<String>,
    /// Serve /metrics without a token; all other paths need it.
    #[arg(long)]
    pub public_metrics: bool,
    /// Read the token from this file, which must have mode 0600.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Show only names of files under this directory; repeat for more directories.
    #[arg(long, value_name = "PATH")]
    pub root: Vec<PathBuf>,
    /// Accept this host name from browsers, besides localhost; repeat for more names.
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Export only these collectors: page_cache, memory, vmstat, pressure, devices, cgroups, filesets.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub collector: Vec<Collector>,
    /// Do not export these collectors, for example memory, which node_exporter exports too.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "collector"
    )]
    pub no_collector: Vec<Collector>,
    /// Export metrics of the N busiest control groups, and of at most N devices [default: no groups, 64 devices]; one series sums
    /// the others.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub top_n: Option<u16>,
    /// Export the cached bytes of the files that match GLOB, under NAME; repeat for more sets.
    #[arg(long, value_name = "NAME=GLOB", value_parser = parse_set)]
    pub fileset: Vec<NamedGlob>,
    /// Also push metrics to this OpenTelemetry collector at every --interval: http://127.0.0.1:4318.
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub otlp: Option<cachewise_web::OtlpAddress>,
    /// Watch the code that waits for storage or evicts, and show its flame graph; see docs/stacks.md.
    #[arg(long)]
    pub stacks: bool,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub labels: LabelFile,
    /// Time between updates of the live views, in seconds or with a unit: 0.5, 100ms; scrapes read current values.
    #[arg(long, default_value = "1")]
    pub interval: Period,
}

impl Serve {
    /// Returns the arguments of this process, with settings of the environment and of a file.
    ///
    /// # Errors
    /// A setting is unknown or invalid.
    pub fn with_settings() -> Result<Self> {
        settings::parsed(PREFIX, std::env::args_os().skip(1).collect())
    }
}

/// A named set of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedGlob {
    pub name: String,
    pub glob: String,
}

fn parse_set(text: &str) -> Result<NamedGlob, String> {
    let Some((name, glob)) = text.split_once('=') else {
        return Err("invalid file set: write NAME=GLOB, for example logs=/var/log/**".into());
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !is_name {
        return Err(format!(
            "invalid name `{name}` of a file set: use letters, digits, `_`, `-` and `.`, beginning with a letter"
        ));
    }
    if !glob.starts_with('/') {
        return Err(format!(
            "invalid glob `{glob}`: write an absolute one, which begins with /"
        ));
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
            "the first = separates name and glob"
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
            assert!(parse_set(text).is_err(), "{text} is refused");
        }
    }
}
