//! [`RuntimeState`]: names of containers, from the files that runtimes keep about them.
//!
//! | runtime | file | has |
//! |---|---|---|
//! | Docker | `containers/ID/config.v2.json` of its data root | `Name`, labels of Kubernetes |
//! | containerd | `io.containerd.runtime.v2.task/NAMESPACE/ID/config.json` | annotations of Kubernetes and nerdctl |
//! | podman, CRI-O | `DRIVER-containers/ID/userdata/config.json` of the storage | annotations of Kubernetes |
//! | podman | `DRIVER-containers/containers.json` there | names |
//! | podman | `libpod/bolt_state.db` or `db.sql` there | names of pods |

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use cachewise_model::{Missing, Reason};
use cachewise_sys::{ErrorKind, open_quietly};
use serde_json::Value;

/// Larger files are not state of one container.
const LARGEST: u64 = 64 << 20;

const DOCKER: [&str; 2] = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
const CONTAINERD: [&str; 4] = [
    "run/containerd",
    "run/k3s/containerd",
    "run/k0s/containerd",
    "var/snap/microk8s/common/run/containerd",
];
/// Namespaces of containerd to look into where its directory cannot be listed.
const NAMESPACES: [&str; 3] = ["k8s.io", "default", "moby"];
const STORAGE: [&str; 2] = ["var/lib/containers/storage", "run/containers/storage"];
const DRIVERS: [&str; 4] = ["overlay", "vfs", "btrfs", "zfs"];

/// Databases of podman below its storage, with its pods: BoltDB before version 5, then SQLite.
const DATABASES: [&str; 3] = ["libpod/bolt_state.db", "db.sql", "db.sql-wal"];

/// The container of a pod's namespaces, by the name that Kubernetes gives it.
const SANDBOX: &str = "POD";

/// A container as its runtime knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerNames {
    pub(crate) name: Option<String>,
    /// `NAMESPACE/NAME`.
    pub(crate) pod: Option<String>,
    /// The UID of the Kubernetes pod.
    pub(crate) pod_uid: Option<String>,
    /// The reason if there is no pod.
    pub(crate) no_pod: Reason,
}

/// The files of one machine, below a root directory.
#[derive(Debug)]
pub(crate) struct RuntimeState {
    root: PathBuf,
    docker: Vec<PathBuf>,
    storage: Vec<PathBuf>,
    /// Home directories by user.
    homes: HashMap<u32, PathBuf>,
}

/// Reading state of one moment: lists of names are read once.
pub(crate) struct Reading<'a> {
    state: &'a RuntimeState,
    lists: HashMap<PathBuf, HashMap<String, String>>,
}

impl RuntimeState {
    /// The directories that the runtimes are configured to use, below `root`.
    pub(crate) fn of(root: &Path) -> RuntimeState {
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        let mut docker: Vec<PathBuf> = DOCKER.iter().map(|path| below(path)).collect();
        if let Ok(config) = json(&below("etc/docker/daemon.json"))
            && let Some(path) = config["data-root"].as_str()
        {
            docker.insert(0, below(path));
        }
        let mut storage: Vec<PathBuf> = STORAGE.iter().map(|path| below(path)).collect();
        if let Ok(config) = text(&below("etc/containers/storage.conf"))
            && let Ok(config) = config.parse::<toml::Table>()
            && let Some(settings) = config.get("storage")
        {
            let path = |key| settings.get(key).and_then(toml::Value::as_str);
            let paths = [path("graphroot"), path("runroot")].into_iter().flatten();
            storage.extend(paths.map(below));
        }
        RuntimeState {
            homes: homes(&below("etc/passwd")),
            root: root.to_owned(),
            docker,
            storage,
        }
    }

    pub(crate) fn read(&self) -> Reading<'_> {
        Reading {
            state: self,
            lists: HashMap::new(),
        }
    }

    /// The directories of a runtime, and that of the user in whose group the container is.
    fn directories(&self, of_root: &[PathBuf], user: Option<u32>, own: &str) -> Vec<PathBuf> {
        let home = user.and_then(|user| self.homes.get(&user));
        let home = home.map(|home| self.root.join(home).join(own));
        home.into_iter().chain(of_root.iter().cloned()).collect()
    }
}

impl Reading<'_> {
    /// Looks a container up by its id.
    ///
    /// # Errors
    /// The reason why nothing is known of it: the files may not be read, or there are none.
    pub(crate) fn container(
        &mut self,
        id: &str,
        user: Option<u32>,
    ) -> Result<ContainerNames, Missing> {
        let mut denied = false;
        let mut of = |path: &Path| match json(path) {
            Ok(found) => Some(found),
            Err(is_denied) => {
                denied |= is_denied;
                None
            }
        };
        let state = self.state;
        for directory in state.directories(&state.docker, user, ".local/share/docker") {
            if let Some(config) = of(&directory.join("containers").join(id).join("config.v2.json"))
            {
                return Ok(of_docker(&config));
            }
        }
        for directory in CONTAINERD {
            let tasks = state
                .root
                .join(directory)
                .join("io.containerd.runtime.v2.task");
            for namespace in namespaces(&tasks) {
                if let Some(spec) = of(&tasks.join(namespace).join(id).join("config.json")) {
                    return Ok(of_spec(&spec, Reason::NoPod));
                }
            }
        }
        for directory in state.directories(&state.storage, user, ".local/share/containers/storage")
        {
            for driver in DRIVERS {
                let containers = directory.join(format!("{driver}-containers"));
                let path = containers.join(id).join("userdata/config.json");
                let Some(spec) = of(&path) else { continue };
                // podman keeps the names of its pods elsewhere.
                let mut found = of_spec(&spec, Reason::NotInRuntimeState);
                for list in ["containers.json", "volatile-containers.json"] {
                    if found.name.is_none() {
                        found.name = self.listed(containers.join(list), id);
                    }
                }
                return Ok(found);
            }
        }
        Err(Missing::Unknown(match denied {
            true => Reason::RuntimeStateDenied,
            false => Reason::RuntimeStateNotFound,
        }))
    }

    /// The name of a pod of podman by its id.
    ///
    /// A database has the JSON text of a pod's settings in one piece, at least its beginning: podman writes the id and the
    /// name first. A pod is never renamed, so a copy that is no longer in use has the right name too.
    ///
    /// # Errors
    /// The reason why it is unknown.
    pub(crate) fn pod(&self, id: &str, user: Option<u32>) -> Result<String, Missing> {
        let state = self.state;
        let mut why = Reason::RuntimeStateNotFound;
        for directory in state.directories(&state.storage, user, ".local/share/containers/storage")
        {
            for database in DATABASES {
                match bytes(&directory.join(database)) {
                    Ok(database) => match name_of_pod(&database, id) {
                        Some(name) => return Ok(name),
                        None => why = Reason::NotInRuntimeState,
                    },
                    Err(true) => return Err(Missing::Unknown(Reason::RuntimeStateDenied)),
                    Err(false) => {}
                }
            }
        }
        Err(Missing::Unknown(why))
    }

    /// The name of a container in a list of the storage.
    fn listed(&mut self, list: PathBuf, id: &str) -> Option<String> {
        let names = self.lists.entry(list).or_insert_with_key(|list| {
            let list = json(list).unwrap_or_default();
            let containers = list.as_array().into_iter().flatten();
            containers
                .filter_map(|container| {
                    Some((string(&container["id"])?, string(&container["names"][0])?))
                })
                .collect()
        });
        names.get(id).cloned()
    }
}

/// The name behind a pod's id in a database of podman.
fn name_of_pod(database: &[u8], id: &str) -> Option<String> {
    let beginning = format!("{{\"id\":\"{id}\",\"name\":\"").into_bytes();
    let place = database
        .windows(beginning.len())
        .position(|bytes| bytes == beginning)?;
    let name = &database[place + beginning.len()..];
    let end = name.iter().position(|byte| *byte == b'"')?;
    let name = std::str::from_utf8(&name[..end]).ok()?;
    // The names that podman accepts.
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_allowed)).then(|| name.to_owned())
}

fn of_docker(config: &Value) -> ContainerNames {
    let mut found = of_labels(&config["Config"]["Labels"], Reason::NoPod);
    if found.name.is_none() {
        let name = string(&config["Name"]);
        found.name = name.map(|name| name.trim_start_matches('/').to_owned());
    }
    found
}

/// A container by its OCI runtime specification.
fn of_spec(spec: &Value, no_pod: Reason) -> ContainerNames {
    let annotations = &spec["annotations"];
    let mut found = of_labels(annotations, no_pod);
    if found.name.is_none() && annotations["io.kubernetes.cri.container-type"] == "sandbox" {
        found.name = Some(SANDBOX.to_owned());
    }
    found
}

fn of_labels(labels: &Value, no_pod: Reason) -> ContainerNames {
    let first = |keys: &[&str]| keys.iter().find_map(|key| string(&labels[*key]));
    let namespace = first(&[
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.pod.namespace",
    ]);
    let pod = first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
    ContainerNames {
        name: first(&[
            "io.kubernetes.cri.container-name",
            "io.kubernetes.container.name",
            "nerdctl/name",
        ]),
        pod: pod.map(|pod| match namespace {
            Some(namespace) => format!("{namespace}/{pod}"),
            None => pod,
        }),
        pod_uid: first(&["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"]),
        no_pod,
    }
}

fn string(value: &Value) -> Option<String> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned)
}

/// The namespaces of containerd: listed, or the usual ones where this caller may not list them.
fn namespaces(tasks: &Path) -> Vec<PathBuf> {
    match std::fs::read_dir(tasks) {
        Ok(entries) => entries
            .flatten()
            .map(|entry| PathBuf::from(entry.file_name()))
            .collect(),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            NAMESPACES.iter().map(PathBuf::from).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// The home directories of ordinary users, without their leading slash.
fn homes(passwd: &Path) -> HashMap<u32, PathBuf> {
    let passwd = text(passwd).unwrap_or_default();
    let users = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let user = fields.next()?.parse().ok()?;
        let home = fields.nth(2)?.trim_start_matches('/');
        (!home.is_empty()).then(|| (user, PathBuf::from(home)))
    });
    users.collect()
}

/// A file as JSON.
///
/// # Errors
/// Whether the caller lacks permission.
fn json(path: &Path) -> Result<Value, bool> {
    serde_json::from_str(&text(path)?).map_err(|_| false)
}

/// A file as text.
fn text(path: &Path) -> Result<String, bool> {
    String::from_utf8(bytes(path)?).map_err(|_| false)
}

/// A whole file. Users may have put anything in the place of their own state: the file is
/// opened without side effects, and its size is limited.
fn bytes(path: &Path) -> Result<Vec<u8>, bool> {
    let file = open_quietly(path).map_err(|error| error.kind() == ErrorKind::Denied)?;
    let mut bytes = Vec::new();
    match file.take(LARGEST).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(false),
    }
}
