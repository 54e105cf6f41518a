//! `serve`: metrics, a web page and JSON over HTTP.
//!
//! Three threads: this one watches, because BPF objects belong to the thread that loaded them; one answers requests; one
//! takes the census and reads the residency of sets of files.
//!
//! # Layout
//! - `access`: listening, and the token of clients.
//! - `survey`: residency of files.
//! - this file: checks of the arguments, wiring, and the end.

mod access;
pub mod arguments;
mod survey;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Interval, Measured, Reason};
use cachewise_probe::{Detail, Scope};
use cachewise_sys::{allow_open_files, start_thread};
use cachewise_web::{
    Collector, Cost, Endpoint, Gatherer, Limits, Machine, Names, Options, Server, Survey, Watching,
};

use rustix::time::{ClockId, clock_gettime};

use self::access::Access;

use crate::machine;
use crate::watch::Watch;
use arguments::Serve;
use cachewise_cli::output::{explain, tell};
use cachewise_cli::signals::{self, Caught};

/// Number of control groups with their own metrics if `--collector cgroups` has no `--top-n`.
const TOP_GROUPS: usize = 10;

/// Serves until a signal ends it.
pub fn serve(arguments: Serve) -> Result<ExitCode> {
    let endpoint = access::endpoint(&arguments)?;
    let access = Access::of(&arguments, &endpoint)?;
    let options = Arc::new(options(&arguments, &endpoint, &access)?);
    // Each connection has a descriptor. Where it may not be raised, fewer fit.
    let _ = allow_open_files(u64::MAX);
    // Before anything is loaded: a port that is taken should not cost that.
    let server = Server::bind(&endpoint, &options.limits)
        .map_err(|error| access::why_not(&error, &endpoint))?;
    let address = server
        .address()
        .context("cannot read the address of the server's socket")?;
    #[cfg(feature = "otlp")]
    let server = match arguments.otlp.clone() {
        Some(address) => server.pushing(cachewise_web::Otlp { address, tell }),
        None => server,
    };

    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let kernel = Kernel::new();
    let selected = arguments.selection.select(&kernel)?;
    let probe = cachewise_probe::Options {
        stacks: arguments.stacks,
        ..selected.options(&kernel, Scope::System, Detail::Rows)?
    };
    let machine = |watch: &Watch| -> Result<Machine> {
        Ok(Machine {
            source: Arc::clone(watch.source()),
            version: env!("CARGO_PKG_VERSION"),
            started: machine::timestamp(),
        })
    };
    let labels = arguments.labels.read()?;
    let watch = Watch::open(&probe, Kernel::new())?.labelled(labels);
    let machine = Arc::new(machine(&watch)?);
    for note in &machine.source.backend.notes {
        tell(&format!("note: {note}"));
    }
    let names = options.names.clone();
    let sets = arguments.fileset.clone();
    let survey = Survey::start(move || survey::Files::new(names, sets))
        .context("cannot start the thread that reads residency")?;
    let (gatherer, asking) = Gatherer::new(machine.clone(), options.clone());
    let (end, ending) = tokio::sync::watch::channel(false);
    let answering = start_thread("http", move || {
        server.run(asking, survey, machine, options, ending)
    })
    .context("cannot start the thread of the HTTP server")?;
    start_thread("ending", move || {
        // Either a signal, or the thread for them has ended: both end this.
        let _ = interrupts.recv();
        let _ = end.send(true);
    })
    .context("cannot start the thread that ends the server")?;
    access.announce(&endpoint, address)?;
    gatherer.run(&mut Watched { watch });
    match answering.join() {
        Ok(ended) => ended
            .map(|()| ExitCode::SUCCESS)
            .context("the HTTP server failed"),
        Err(_) => bail!("the thread of the HTTP server panicked"),
    }
}

/// Checks the arguments.
fn options(arguments: &Serve, endpoint: &Endpoint, access: &Access) -> Result<Options> {
    let roots = arguments.root.iter().map(|root| {
        root.canonicalize()
            .with_context(|| format!("cannot find the directory of --root {}", root.display()))
    });
    let roots: Vec<PathBuf> = roots.collect::<Result<_>>()?;
    let names = match access::is_local(endpoint) && roots.is_empty() {
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
        stacks: arguments.stacks,
        token: access.token(),
        public_metrics: arguments.public_metrics,
        hosts: arguments.host.clone(),
        limits: Limits::default(),
    })
}

fn collectors(arguments: &Serve) -> Result<Vec<Collector>> {
    let has_sets = !arguments.fileset.is_empty();
    if arguments.collector.contains(&Collector::Filesets) && !has_sets {
        bail!("the collector filesets has no file set: add one with --fileset NAME=GLOB");
    }
    let mut seen = std::collections::HashSet::new();
    for set in &arguments.fileset {
        if !seen.insert(&set.name) {
            bail!(
                "--fileset {}: two sets have this name: rename one",
                set.name
            );
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

/// The watch, as the server wants it.
struct Watched {
    watch: Watch,
}

impl Watching for Watched {
    fn interval(&mut self) -> Result<Interval, String> {
        self.watch.interval().map_err(|error| explain(&error))
    }

    fn cost(&self) -> Cost {
        let kernel = Kernel::new();
        Cost {
            cpu: clock_gettime(ClockId::ProcessCPUTime)
                .try_into()
                .unwrap_or_default(),
            memory_bytes: match kernel.resident_memory() {
                Ok(memory) => Measured::Exact(memory.0),
                Err(_) => Measured::unknown(Reason::NotReported),
            },
            // The census is in it once it was loaded, by the other thread.
            kernel_memory_bytes: machine::kernel_memory(&kernel),
            kernel_seconds: machine::kernel_seconds(&kernel),
        }
    }

    /// A loop device without a file stays in /sys, and has no size.
    fn has_device(&self, name: &str) -> bool {
        let size = Path::new("/sys/class/block").join(name).join("size");
        let size = std::fs::read_to_string(size).unwrap_or_default();
        !matches!(size.trim(), "" | "0")
    }
}
