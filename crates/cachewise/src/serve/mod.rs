//! `serve`: metrics, a web page and JSON over HTTP.
//!
//! Three threads: this one watches, as what is loaded into the kernel belongs to the thread that loaded it;
//! one answers requests; one takes the census and looks at sets of files.
//!
//! # Layout
//! - `survey`: what looks at files.
//! - this file: what was typed, checked; wiring, and the end.

mod survey;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::{Context, Result, anyhow, bail};
use cachewise_kstat::Kernel;
use cachewise_model::Stretch;
use cachewise_probe::{Detail, Options as ProbeOptions, Scope};
use cachewise_sys::allow_open_files;
use cachewise_units::{escaped, shell_quoted};
use cachewise_web::{
    Collector, Gatherer, Limits, Machine, Names, Options, Server, Survey, Token, Watching,
};

use crate::cli::Serve;
use crate::machine;
use crate::output::{explain, tell};
use crate::signals::{self, Caught};
use crate::watch::Watch;

/// The variable that the token can be in.
const TOKEN: &str = "CACHEWISE_TOKEN";
/// Control groups with metrics of their own where their collector is asked for without a number.
const TOP_GROUPS: usize = 10;

/// Serves until it is told to end.
pub fn serve(arguments: Serve) -> Result<ExitCode> {
    let options = Arc::new(options(&arguments)?);
    // Each connection has a descriptor. Where it may not be raised, fewer fit.
    let _ = allow_open_files(u64::MAX);
    // Before anything is loaded: a port that is taken should not cost that.
    let server = Server::bind(arguments.listen, &options.limits)
        .map_err(|error| why_not(&error, arguments.listen))?;
    let address = server.address().context("cannot tell where it listens")?;
    #[cfg(feature = "otlp")]
    let server = match arguments.otlp.clone() {
        Some(address) => server.pushing(cachewise_web::Otlp { address, tell }),
        None => server,
    };

    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let kernel = Kernel::new();
    let mut probe = ProbeOptions::new(Scope::System, Detail::Rows);
    probe.cgroup_v1 = machine::uses_cgroup_v1(&kernel);
    let machine = |watch: &Watch| -> Result<Machine> {
        Ok(Machine {
            hostname: machine::hostname(&kernel),
            kernel_release: machine::release(&kernel),
            page_size: cachewise_sys::page_size(),
            backend: watch.backend().clone(),
            version: env!("CARGO_PKG_VERSION"),
            started: machine::timestamp(),
        })
    };
    let watch = Watch::open(&probe, Kernel::new())?;
    let machine = Arc::new(machine(&watch)?);
    for note in &machine.backend.notes {
        tell(&format!("note: {note}"));
    }
    let names = options.names.clone();
    let sets = arguments.fileset.clone();
    let survey = Survey::start(move || survey::Files::new(names, sets))
        .context("cannot start the thread that looks at files")?;
    let (gatherer, asking) = Gatherer::new(machine.clone(), options.clone());
    let (end, ending) = tokio::sync::watch::channel(false);
    let answering = std::thread::Builder::new()
        .name("http".into())
        .spawn(move || server.run(asking, survey, machine, options, ending))
        .context("cannot start the thread that answers")?;
    std::thread::Builder::new()
        .name("ending".into())
        .spawn(move || {
            // Either a signal, or the thread for them has ended: both end this.
            let _ = interrupts.recv();
            let _ = end.send(true);
        })
        .context("cannot start the thread that ends it")?;
    announce(address)?;
    gatherer.run(&mut Watched { watch });
    match answering.join() {
        Ok(ended) => ended
            .map(|()| ExitCode::SUCCESS)
            .context("cannot answer any more"),
        Err(_) => bail!("the thread that answers has failed"),
    }
}

/// Says where it is; who started it with port 0 reads it from here.
fn announce(address: SocketAddr) -> Result<()> {
    let mut out = io::stdout();
    writeln!(
        out,
        "http://{address}/ (metrics: /metrics, JSON: /api/v1/openapi.json); Ctrl-C ends"
    )
    .and_then(|()| out.flush())
    .context("cannot write to standard output")
}

/// What was typed, checked.
fn options(arguments: &Serve) -> Result<Options> {
    let loopback = arguments.listen.ip().is_loopback();
    let token = token(arguments)?;
    if !loopback && token.is_none() {
        bail!(
            "{} can be reached by other machines, and needs a token: put one into a file (head -c 24 /dev/urandom | \
             base64) and name it with --token-file, or into the variable {TOKEN}; 127.0.0.1 needs none",
            arguments.listen
        );
    }
    let roots = arguments.root.iter().map(|root| {
        root.canonicalize()
            .with_context(|| format!("--root {}: cannot be found", root.display()))
    });
    let roots: Vec<PathBuf> = roots.collect::<Result<_>>()?;
    let names = match loopback && roots.is_empty() {
        true => Names::All,
        false => Names::Under(roots),
    };
    Ok(Options {
        interval: arguments.interval.get(),
        top_groups: match arguments.top_n {
            Some(most) => most.into(),
            None if arguments.collector.contains(&Collector::Cgroups) => TOP_GROUPS,
            None => 0,
        },
        collectors: collectors(arguments)?,
        names,
        token,
        hosts: arguments.host.clone(),
        limits: Limits::default(),
    })
}

fn collectors(arguments: &Serve) -> Result<Vec<Collector>> {
    let has_sets = !arguments.fileset.is_empty();
    if arguments.collector.contains(&Collector::Filesets) && !has_sets {
        bail!("the collector filesets has nothing to give: name a set with --fileset NAME=GLOB");
    }
    let mut seen = std::collections::HashSet::new();
    for set in &arguments.fileset {
        if !seen.insert(&set.name) {
            bail!("--fileset {}: there are two sets of this name", set.name);
        }
    }
    let is_on = |collector: &Collector| match collector {
        _ if !arguments.collector.is_empty() => arguments.collector.contains(collector),
        _ if arguments.no_collector.contains(collector) => false,
        Collector::Cgroups => arguments.top_n.is_some(),
        Collector::Filesets => has_sets,
        collector => Collector::DEFAULT.contains(collector),
    };
    Ok(Collector::ALL.into_iter().filter(is_on).collect())
}

/// Never an argument: every user sees those.
fn token(arguments: &Serve) -> Result<Option<Token>> {
    let (text, from) = match &arguments.token_file {
        Some(path) => (read_token(path)?, path.display().to_string()),
        None => match std::env::var_os(TOKEN) {
            None => return Ok(None),
            Some(token) => match token.into_string() {
                Ok(token) => (token, TOKEN.to_owned()),
                Err(_) => bail!("{TOKEN}: the token is not text"),
            },
        },
    };
    Token::new(&text).map(Some).context(from)
}

fn read_token(path: &Path) -> Result<String> {
    let shown = escaped(path);
    let cannot = || format!("cannot read the token file {shown}");
    // Opened once: its name may come to mean another file.
    let mut file = File::open(path).with_context(cannot)?;
    let mode = file.metadata().with_context(cannot)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!(
            "the token file {shown} is open to others than its owner (mode {:04o}), so that its token may be no secret \
             any more: chmod 600 {}, and put a new token into it",
            mode & 0o7777,
            shell_quoted(path)
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(cannot)?;
    Ok(text)
}

/// Why it cannot listen there, and what to do.
fn why_not(error: &io::Error, address: SocketAddr) -> anyhow::Error {
    let what = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "another program listens there already; `ss -tlnp 'sport = :{}'` shows which; --listen {}:0 takes any free port",
            address.port(),
            host(address)
        ),
        ErrorKind::AddrNotAvailable => {
            "this machine does not have that address; `ip address` lists those that it has".into()
        }
        ErrorKind::PermissionDenied => format!(
            "ports below 1024 are for root; --listen {}:0 takes any free one",
            host(address)
        ),
        _ => "choose another address with --listen".into(),
    };
    anyhow!("cannot listen on {address}: {error}: {what}")
}

fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// The watch, as the server wants it.
struct Watched {
    watch: Watch,
}

impl Watching for Watched {
    fn stretch(&mut self) -> Result<Stretch, String> {
        self.watch.stretch().map_err(|error| explain(&error))
    }
}
