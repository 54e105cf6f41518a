//! `tier dev-cluster`: real servers on this machine, until Ctrl-C.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Datum, Missing, Reason, SCHEMA_VERSION};
use cachewise_tier::dev_cluster::{
    DevCluster, DevClusterError, DevClusterOptions, DevNode, Role, Topology,
};
use cachewise_units::{counted, escaped};
use cachewise_view::{Format, Sheet, SheetCell, SheetColumns, length};
use serde_json::json;

use super::columns::DEV_CLUSTER;
use crate::commands::arguments::DevCluster as Arguments;
use cachewise_cli::host;
use cachewise_cli::interrupt::Interrupt;
use cachewise_cli::output::{Sink, Stream, tell};
use cachewise_cli::sinks::Sinks;

/// The master of a master.
const NO_MASTER: Missing = Missing::NotOffered(Reason::NotApplicable);

/// How often servers that ended are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Runs a cluster until a signal ends it.
pub fn dev_cluster(arguments: &Arguments) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    super::refuse_metrics(&sinks)?;
    let options = DevClusterOptions {
        nodes: arguments.nodes,
        replicas: arguments.replicas,
        topology: match arguments.standalone {
            true => Topology::Standalone,
            false => Topology::Cluster,
        },
        dir: arguments.dir.clone(),
        port: arguments.port,
        memory: arguments.memory,
        node_timeout: arguments.node_timeout.get(),
        server: arguments.server.clone(),
        ..DevClusterOptions::default()
    };
    let interrupt = Interrupt::catch()?;
    let began = Instant::now();
    let cluster = match DevCluster::start_unless(&options, interrupt.flag()) {
        Err(DevClusterError::Interrupted) => {
            return Ok(interrupt.status().unwrap_or(ExitCode::SUCCESS));
        }
        cluster => cluster.context("cannot start a cluster for tests")?,
    };
    let columns = arguments.columns.as_ref();
    super::write(sinks, |sink| text(sink, columns, &cluster))?;
    tell(&format!(
        "{} ready after {}, files in {}; Ctrl-C stops all",
        counted(cluster.nodes().len() as u64, "server"),
        length(began.elapsed()),
        escaped(cluster.directory())
    ));
    let began = Instant::now();
    loop {
        let left = match arguments.duration {
            None => LOOK,
            Some(duration) => duration.get().saturating_sub(began.elapsed()).min(LOOK),
        };
        if left.is_zero() || interrupt.wait_for(left)? {
            break;
        }
        for (node, how) in cluster.ended() {
            tell(&format!(
                "the server on {} (process {}) ended: {how}",
                node.address, node.pid
            ));
        }
    }
    Ok(interrupt.status().unwrap_or(ExitCode::SUCCESS))
}

fn text(sink: &Sink, columns: Option<&SheetColumns>, cluster: &DevCluster) -> Result<String> {
    let sheet = sheet(cluster.nodes()).chosen(columns);
    Ok(match sink.format {
        Format::Table => format!("{}\n{}", cluster.address(), sheet.table(sink.style)),
        Format::Csv => sheet.csv()?,
        Format::Json => format!("{:#}\n", document(cluster)),
        Format::JsonLines => format!("{}\n", document(cluster)),
        Format::OpenMetrics => bail!("dev-cluster has no metrics"),
    })
}

fn role(nodes: &[DevNode], node: &DevNode) -> (&'static str, Option<String>) {
    match node.role {
        Role::Master => ("master", None),
        Role::ReplicaOf(master) => {
            let master = nodes.get(master).map(|master| master.address.to_string());
            ("replica", master)
        }
    }
}

fn sheet(nodes: &[DevNode]) -> Sheet {
    let mut sheet = Sheet::new(&DEV_CLUSTER);
    for node in nodes {
        let (role, master) = role(nodes, node);
        sheet.rows.push(vec![
            SheetCell::text(node.address.to_string()),
            SheetCell::text(role),
            SheetCell::or_missing(master, NO_MASTER, SheetCell::text),
            SheetCell::of(&Datum::Id(node.pid.into())),
        ]);
    }
    sheet
}

fn document(cluster: &DevCluster) -> serde_json::Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "timestamp": host::timestamp(),
        "hostname": host::hostname(&Kernel::new()),
        "page_size_bytes": cachewise_sys::page_size().get(),
        "engine": cluster.address(),
        "directory": cluster.directory().to_string_lossy(),
        "nodes": sheet(cluster.nodes()).json(),
    })
}
