//! `cachewise tier csi`, as typed.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// `cachewise tier csi`.
#[derive(Debug, Args)]
#[command(
    after_help = "Kubernetes mounts a PersistentVolume of the driver tier.cachewise by this program, which runs on each node: one mount \
    for all pods of the node. The attributes of a volume are its origin and settings of the mount: \
    origin: s3://bucket/data, memory: 1G. Secrets of a volume are variables AWS_... for its origin. Volumes are read-only.\n\n\
    Exit status: 0 ended by a signal; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise tier csi --endpoint unix:///csi/csi.sock --node-id node-1\n  \
    cachewise tier csi --endpoint unix:///csi/csi.sock --settings /etc/cachewise/settings.toml"
)]
pub struct Csi {
    /// Socket to serve on: unix://PATH.
    #[arg(long, value_name = "ENDPOINT")]
    pub endpoint: String,
    /// Name of this node [default: the name of the host].
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub node_id: Option<String>,
    /// Settings file of all mounts; attributes of a volume override it. Each volume gets a directory of its own below `disk`.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}
