//! A volume as a request describes it: attributes, options, and credentials.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use cachewise_cli::settings;
use cachewise_tier::Setting;
use tonic::Status;

use super::messages::{AccessModeKind, AccessType, Capability};
use crate::commands::background;

/// The attribute that names the origin.
const ORIGIN: &str = "origin";

/// The attribute by which Kubernetes marks a volume that a pod itself describes.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// Prefix of the variables that hold credentials of origins.
const CREDENTIALS: &str = "AWS_";

/// The setting of a directory that only one process can use.
const DISK: &str = "disk";

/// A volume.
#[derive(Debug)]
pub struct Volume {
    id: String,
    origin: String,
    mode: AccessModeKind,
    /// Settings by name.
    settings: Vec<(&'static Setting, String)>,
    secrets: HashMap<String, String>,
}

impl Volume {
    /// Reads a volume from the parts of a request.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an attribute, option or secret that is missing or unknown.
    pub fn new(
        id: &str,
        capability: Option<&Capability>,
        attributes: HashMap<String, String>,
        secrets: HashMap<String, String>,
    ) -> Result<Self, Status> {
        if id.is_empty() {
            return Err(wrong("volume_id is empty"));
        }
        let capability = capability.ok_or_else(|| wrong("volume_capability is missing"))?;
        let options = match &capability.access_type {
            Some(AccessType::Mount(options)) => options.mount_flags.as_slice(),
            Some(AccessType::Block(_)) => {
                return Err(wrong("a volume is a directory, never a block device"));
            }
            None => return Err(wrong("volume_capability has no access type")),
        };
        let mode = capability.access_mode.as_ref();
        let mode = mode.ok_or_else(|| wrong("volume_capability has no access mode"))?;
        // The pod's author would select the files and servers of the node that the mount uses.
        if attributes
            .get(EPHEMERAL)
            .is_some_and(|value| value == "true")
        {
            return Err(wrong(
                "volumes that a pod describes are refused: use a PersistentVolume",
            ));
        }
        let origin = attributes.get(ORIGIN).cloned();
        let origin = origin.filter(|origin| !origin.is_empty());
        let origin = origin.ok_or_else(|| {
            wrong("the attribute origin is missing: a directory, a URL, or NAME@VERSION")
        })?;
        let mut settings = Vec::new();
        for (name, value) in attributes {
            // Kubernetes adds attributes of its own: csi.storage.k8s.io/pod.name and the like.
            if name == ORIGIN || name.contains('/') {
                continue;
            }
            let setting = Setting::find(&name);
            let setting = setting.map_err(|why| wrong(&format!("attribute {name}: {why}")))?;
            settings.push((setting, value));
        }
        for option in options {
            let set = background::setting_of(option);
            let set = set.map_err(|error| wrong(&format!("mount option {option}: {error}")))?;
            settings.extend(set);
        }
        if let Some(name) = secrets.keys().find(|name| !name.starts_with(CREDENTIALS)) {
            return Err(wrong(&format!(
                "secret {name}: only variables {CREDENTIALS}... can be secrets of a volume"
            )));
        }
        Ok(Self {
            id: id.to_owned(),
            origin,
            mode: mode.mode.try_into().unwrap_or(AccessModeKind::Unknown),
            settings,
            secrets,
        })
    }

    /// The origin.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Refuses a user that may write.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION`.
    pub fn check_that_nobody_writes(&self, readonly: bool) -> Result<(), Status> {
        let reads = matches!(
            self.mode,
            AccessModeKind::SingleNodeReaderOnly | AccessModeKind::MultiNodeReaderOnly
        );
        if readonly || reads {
            return Ok(());
        }
        Err(Status::failed_precondition(
            "volumes are read-only: give the volume the access mode ReadOnlyMany, or set readOnly in the pod",
        ))
    }

    /// Returns the variables of the process that mounts it: its settings, and its credentials, which replace those of this
    /// process. Of a directory for blocks that all volumes share each volume gets a part.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if the settings file cannot be read.
    pub fn environment(&self, file: Option<&Path>) -> Result<Environment, Status> {
        let mut set: Vec<(String, OsString)> = Vec::new();
        // Programs of pods run as users of their own.
        set.push((variable("allow_other"), "true".into()));
        let mut disk = shared_disk(file)?;
        for (setting, value) in &self.settings {
            match setting.name {
                DISK => disk = Some(value.clone()),
                name => set.push((variable(name), value.into())),
            }
        }
        if let Some(disk) = disk.filter(|disk| !disk.is_empty()) {
            let part = blake3::hash(self.id.as_bytes()).to_hex();
            set.push((variable(DISK), Path::new(&disk).join(&part[..32]).into()));
        }
        let mut unset = Vec::new();
        if !self.secrets.is_empty() {
            let inherited = std::env::vars_os().map(|(name, _)| name);
            unset.extend(inherited.filter(|name| name.to_string_lossy().starts_with(CREDENTIALS)));
            set.extend(
                self.secrets
                    .iter()
                    .map(|(name, value)| (name.clone(), value.into())),
            );
        }
        Ok(Environment { set, unset })
    }
}

/// Variables of a process: those that are set, and those that are removed before.
#[derive(Debug)]
pub struct Environment {
    /// Names and values.
    pub set: Vec<(String, OsString)>,
    /// Names.
    pub unset: Vec<OsString>,
}

fn variable(name: &str) -> String {
    settings::variable(Setting::PREFIX, name)
}

/// The directory for blocks that the settings of this plugin name.
fn shared_disk(file: Option<&Path>) -> Result<Option<String>, Status> {
    let failed = |error: anyhow::Error| Status::failed_precondition(format!("{error:#}"));
    let of_environment = settings::of_environment(Setting::PREFIX, [DISK]).map_err(failed)?;
    let of_file = match file {
        Some(file) => settings::of_file(file).map_err(failed)?,
        None => Vec::new(),
    };
    let mut given = of_environment.into_iter().chain(of_file);
    let given = given.find(|given| given.name == DISK);
    Ok(given.and_then(|given| given.values.into_iter().next()))
}

/// Returns a path of a request.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is empty or relative, or has `..` in it.
pub fn required_path(field: &str, text: &str) -> Result<PathBuf, Status> {
    let path = PathBuf::from(text);
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() || goes_up {
        return Err(wrong(&format!(
            "{field} is no absolute path without ..: {text:?}"
        )));
    }
    Ok(path)
}

fn wrong(why: &str) -> Status {
    Status::invalid_argument(why)
}
