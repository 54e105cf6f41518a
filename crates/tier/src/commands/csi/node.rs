//! Volumes of this node: mounting, binding and unmounting them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cachewise_tier::mount::{self, MountError, MountState};
use cachewise_units::escaped;
use tonic::Status;

use super::messages::{Empty, Publish, Stage, Unpublish, Unstage};
use super::process::MountProcess;
use super::volume::{Volume, required_path};
use crate::commands::background;

/// The node: what it mounts by, and what it has mounted.
#[derive(Debug)]
pub struct Node {
    name: String,
    program: PathBuf,
    settings: Option<PathBuf>,
    /// The processes that this one has started, by staging path.
    processes: Mutex<HashMap<PathBuf, MountProcess>>,
    /// Volumes with a call under way.
    busy: Mutex<HashSet<String>>,
}

impl Node {
    /// Volumes are mounted by `program`, with this settings file.
    pub fn new(name: String, program: PathBuf, settings: Option<PathBuf>) -> Self {
        Self {
            name,
            program,
            settings,
            processes: Mutex::default(),
            busy: Mutex::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that volumes can be mounted.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without FUSE.
    pub fn check(&self) -> Result<(), Status> {
        mount::device().map_err(|error| Status::failed_precondition(error.to_string()))
    }

    /// `NodeStageVolume`: mounts a volume, once for all pods of the node.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a request or attribute that is wrong, `ALREADY_EXISTS` where another origin is mounted,
    /// `ABORTED` while another call for the volume is under way, `INTERNAL` if it cannot be mounted.
    pub fn stage(&self, request: Stage) -> Result<Empty, Status> {
        let path = required_path("staging_target_path", &request.staging_target_path)?;
        let volume = Volume::new(
            &request.volume_id,
            request.volume_capability.as_ref(),
            request.volume_context,
            request.secrets,
        )?;
        let _busy = self.begin(&request.volume_id)?;
        self.mount(&volume, &path)?;
        Ok(Empty {})
    }

    /// `NodeUnstageVolume`: unmounts a volume and waits for its process to end.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `ABORTED` and `INTERNAL`, as for [`Self::stage`]; `INTERNAL` while programs use it.
    pub fn unstage(&self, request: Unstage) -> Result<Empty, Status> {
        let path = required_path("staging_target_path", &request.staging_target_path)?;
        let _busy = self.begin(&request.volume_id)?;
        leave(&path)?;
        let process = self.processes().remove(&path);
        if let Some(mut process) = process
            && !process.ends().map_err(|error| failed(&path, &error))?
        {
            self.processes().insert(path.clone(), process);
            return Err(Status::internal(format!(
                "{}: unmounted, but a program or another mount uses it still: end it",
                escaped(&path)
            )));
        }
        Ok(Empty {})
    }

    /// `NodePublishVolume`: binds a mounted volume to the directory of a pod. It is mounted again if its process has ended.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `ALREADY_EXISTS`, `ABORTED` and `INTERNAL`, as for [`Self::stage`]; `FAILED_PRECONDITION` for
    /// a pod that may write, or without a staging path.
    pub fn publish(&self, request: Publish) -> Result<Empty, Status> {
        let target = required_path("target_path", &request.target_path)?;
        let volume = Volume::new(
            &request.volume_id,
            request.volume_capability.as_ref(),
            request.volume_context,
            request.secrets,
        )?;
        volume.check_that_nobody_writes(request.readonly)?;
        if request.staging_target_path.is_empty() {
            return Err(Status::failed_precondition(
                "staging_target_path is empty: the volume is to be staged first",
            ));
        }
        let staged = required_path("staging_target_path", &request.staging_target_path)?;
        let _busy = self.begin(&request.volume_id)?;
        self.mount(&volume, &staged)?;
        make_directory(&target)?;
        mount::bind(&staged, &target).map_err(|error| match error {
            MountError::Mounted { .. } => Status::already_exists(error.to_string()),
            error => Status::internal(error.to_string()),
        })?;
        Ok(Empty {})
    }

    /// `NodeUnpublishVolume`: removes the directory of a pod.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `ABORTED` and `INTERNAL`, as for [`Self::stage`].
    pub fn unpublish(&self, request: Unpublish) -> Result<Empty, Status> {
        let target = required_path("target_path", &request.target_path)?;
        let _busy = self.begin(&request.volume_id)?;
        leave(&target)?;
        match fs::remove_dir(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&target, &error)),
            _ => Ok(Empty {}),
        }
    }

    /// Makes sure that a volume is mounted there, by a process that serves it.
    fn mount(&self, volume: &Volume, path: &Path) -> Result<(), Status> {
        make_directory(path)?;
        let internal = |error: MountError| Status::internal(error.to_string());
        match mount::state(path, volume.origin()).map_err(internal)? {
            MountState::Served { is_same: true } => return Ok(()),
            MountState::Served { is_same: false } => {
                return Err(Status::already_exists(format!(
                    "{}: another origin is mounted there",
                    escaped(path)
                )));
            }
            MountState::Foreign => {
                return Err(Status::already_exists(format!(
                    "{}: a file system that is not cachewise's is mounted there",
                    escaped(path)
                )));
            }
            // The new process removes the mount of one that is dead.
            MountState::Free | MountState::Dead => {}
        }
        // Detached, it goes on when this process has ended.
        let mut arguments: Vec<OsString> = vec!["mount".into(), background::DETACHED.into()];
        if let Some(settings) = &self.settings {
            arguments.extend(["--settings".into(), settings.into()]);
        }
        arguments.extend(["--".into(), volume.origin().into(), path.into()]);
        let environment = volume.environment(self.settings.as_deref())?;
        let process = MountProcess::start(&self.program, arguments, environment)
            .map_err(|error| Status::internal(format!("{}: {error:#}", escaped(path))))?;
        self.processes().insert(path.to_owned(), process);
        Ok(())
    }

    /// Takes a volume for one call.
    fn begin(&self, volume_id: &str) -> Result<Busy<'_>, Status> {
        if volume_id.is_empty() {
            return Err(Status::invalid_argument("volume_id is empty"));
        }
        // Ended processes stay in the table of processes until they are waited for.
        self.processes().retain(|_, process| process.is_running());
        if !self.busy().insert(volume_id.to_owned()) {
            return Err(Status::aborted(format!(
                "{volume_id}: another call for this volume is under way"
            )));
        }
        Ok(Busy {
            node: self,
            volume_id: volume_id.to_owned(),
        })
    }

    fn processes(&self) -> MutexGuard<'_, HashMap<PathBuf, MountProcess>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn busy(&self) -> MutexGuard<'_, HashSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A volume with a call under way, until this is dropped.
struct Busy<'a> {
    node: &'a Node,
    volume_id: String,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.node.busy().remove(&self.volume_id);
    }
}

/// Unmounts what is ours on a directory; nothing else.
fn leave(path: &Path) -> Result<(), Status> {
    let internal = |error: MountError| Status::internal(error.to_string());
    if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(());
    }
    match mount::state(path, "").map_err(internal)? {
        MountState::Free => Ok(()),
        MountState::Foreign => Err(Status::internal(format!(
            "{}: a file system that is not cachewise's is mounted there; it is left alone",
            escaped(path)
        ))),
        MountState::Served { .. } | MountState::Dead => mount::detach(path).map_err(internal),
    }
}

fn make_directory(path: &Path) -> Result<(), Status> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> Status {
    Status::internal(format!("{}: {error}", escaped(path)))
}
