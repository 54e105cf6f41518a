//! Messages of the Container Storage Interface (csi.proto, package `csi.v1`): those that a node plugin without a
//! controller gets and sends. Fields that it has no use for are left out, which protobuf allows.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};

/// A request without fields, or a response.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// `GetPluginInfoResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct PluginInfo {
    /// Name of the driver.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Version of the driver.
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

/// `GetPluginCapabilitiesResponse`: none, as there is no controller.
#[derive(Clone, PartialEq, Message)]
pub struct PluginCapabilities {}

/// `ProbeResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Probe {
    /// Whether the plugin can serve.
    #[prost(message, optional, tag = "1")]
    pub ready: Option<bool>,
}

/// `NodeGetInfoResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeInfo {
    /// Name of the node.
    #[prost(string, tag = "1")]
    pub node_id: String,
}

/// `NodeGetCapabilitiesResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeCapabilities {
    /// Calls that the plugin serves beside publishing.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<NodeCapability>,
}

/// `NodeServiceCapability`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeCapability {
    /// A call that the plugin serves.
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<NodeCall>,
}

/// `NodeServiceCapability.RPC`.
#[derive(Clone, PartialEq, Message)]
pub struct NodeCall {
    /// Its kind.
    #[prost(enumeration = "NodeCallKind", tag = "1")]
    pub kind: i32,
}

/// `NodeServiceCapability.RPC.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum NodeCallKind {
    /// No kind.
    Unknown = 0,
    /// `NodeStageVolume` and `NodeUnstageVolume`.
    StageUnstageVolume = 1,
}

/// `VolumeCapability`: how a volume is to be used.
#[derive(Clone, PartialEq, Message)]
pub struct Capability {
    /// Whether as a device or as a directory.
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    /// By whom.
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

/// `VolumeCapability.access_type`.
#[derive(Clone, PartialEq, Oneof)]
pub enum AccessType {
    /// A block device.
    #[prost(message, tag = "1")]
    Block(Empty),
    /// A directory.
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

/// `VolumeCapability.MountVolume`.
#[derive(Clone, PartialEq, Message)]
pub struct MountVolume {
    /// Options, as for mount(8).
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// `VolumeCapability.AccessMode`.
#[derive(Clone, PartialEq, Message)]
pub struct AccessMode {
    /// Its kind.
    #[prost(enumeration = "AccessModeKind", tag = "1")]
    pub mode: i32,
}

/// `VolumeCapability.AccessMode.Mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum AccessModeKind {
    /// No kind.
    Unknown = 0,
    /// One node, which writes.
    SingleNodeWriter = 1,
    /// One node, which only reads.
    SingleNodeReaderOnly = 2,
    /// Several nodes, which only read.
    MultiNodeReaderOnly = 3,
    /// Several nodes, of which one writes.
    MultiNodeSingleWriter = 4,
    /// Several nodes, which write.
    MultiNodeMultiWriter = 5,
    /// One pod of one node, which writes.
    SingleNodeSingleWriter = 6,
    /// Several pods of one node, which write.
    SingleNodeMultiWriter = 7,
}

/// `NodeStageVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Stage {
    /// Name of the volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Directory to mount it on.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// Requested kind of access.
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<Capability>,
    /// Variables of credentials.
    #[prost(map = "string, string", tag = "5")]
    pub secrets: HashMap<String, String>,
    /// Attributes of the volume.
    #[prost(map = "string, string", tag = "6")]
    pub volume_context: HashMap<String, String>,
}

/// `NodeUnstageVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Unstage {
    /// Name of the volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Directory that it is mounted on.
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

/// `NodePublishVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Publish {
    /// Name of the volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Directory that it is mounted on.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// Directory of a pod.
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// Requested kind of access.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<Capability>,
    /// Whether the pod only reads.
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    /// Variables of credentials.
    #[prost(map = "string, string", tag = "7")]
    pub secrets: HashMap<String, String>,
    /// Attributes of the volume.
    #[prost(map = "string, string", tag = "8")]
    pub volume_context: HashMap<String, String>,
}

/// `NodeUnpublishVolumeRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Unpublish {
    /// Name of the volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Directory of a pod.
    #[prost(string, tag = "2")]
    pub target_path: String,
}
