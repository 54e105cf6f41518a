//! Names of control groups: systemd units, containers and pods.
//!
//! The path of a group has the unit, the id of a container and the UID of a pod. Names of
//! containers and pods are in files of the container runtimes, which root may read.
//!
//! # Layout
//! - `shape`: a path. `state`: the files of the runtimes.
//! - this file: [`Namer`], which has the names of the groups of a machine.

mod shape;
mod state;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cachewise_model::{GroupNames, Measured, Missing, Reason};

use shape::Shape;
use state::{ContainerNames, RuntimeState};

/// The variable with the directory that has the host's files, for a program in a container.
pub const HOST_ROOT: &str = "CACHEWISE_HOST_ROOT";

/// Names of containers are read again after this time: a container can be renamed.
const NAMES_LAST: Duration = Duration::from_secs(60);
/// Unknown containers are looked up again after this time: a runtime writes its state while it
/// starts the container.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The place of a control group among units and containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPlace {
    /// It is the group of a container or pod itself, not one inside.
    pub is_own: bool,
    /// The service manager of the machine made it, not that of a user or container.
    pub is_of_machine: bool,
}

impl GroupPlace {
    /// The place of a group with this path below the root of the hierarchy.
    #[must_use]
    pub fn of(group: &str) -> GroupPlace {
        let shape = Shape::of(group);
        let is_own = match shape.container {
            Some(container) => container.end == group.len(),
            // The last part of the path names the pod.
            None => {
                let above = group.rsplit_once('/').map(|(above, _)| above);
                shape.pod.is_some() && above.is_some_and(|above| Shape::of(above).pod.is_none())
            }
        };
        let above = group.rsplit_once('/').map_or("", |(above, _)| above);
        let above = Shape::of(above);
        GroupPlace {
            is_own,
            is_of_machine: above.unit.is_none() && above.container.is_none(),
        }
    }
}

/// Names of the control groups of a machine.
#[derive(Debug)]
pub struct Namer {
    state: RuntimeState,
    containers: HashMap<String, Known>,
    /// Pods by UID, those of podman by id.
    pods: HashMap<String, String>,
    /// Pods of podman without a name, and when they were looked up.
    nameless: HashMap<String, (Missing, Instant)>,
}

#[derive(Debug)]
struct Known {
    found: Result<ContainerNames, Missing>,
    read: Instant,
}

impl Namer {
    /// Names of this machine; of the host, if `CACHEWISE_HOST_ROOT` has its root directory.
    #[must_use]
    pub fn new() -> Namer {
        let root = std::env::var_os(HOST_ROOT).filter(|root| !root.is_empty());
        Namer::below(&root.map_or_else(|| PathBuf::from("/"), PathBuf::from))
    }

    /// Names of the machine with this root directory.
    #[must_use]
    pub fn below(root: &Path) -> Namer {
        Namer {
            state: RuntimeState::of(root),
            containers: HashMap::new(),
            pods: HashMap::new(),
            nameless: HashMap::new(),
        }
    }

    /// Looks up the containers of these groups, by their paths below the root of the hierarchy,
    /// and forgets all others.
    pub fn refresh<'a>(&mut self, groups: impl Iterator<Item = &'a str>) {
        let mut state = self.state.read();
        let mut containers = HashMap::new();
        let mut pods = HashMap::new();
        for group in groups {
            let shape = Shape::of(group);
            if let Some(id) = shape.pod.as_ref().filter(|pod| shape::is_id(pod)) {
                let named = pods.get(id).or_else(|| self.pods.get(id)).cloned();
                let retries = self
                    .nameless
                    .get(id)
                    .is_none_or(|(_, time)| time.elapsed() >= RETRY_AFTER);
                match named
                    .map(Ok)
                    .or_else(|| retries.then(|| state.pod(id, shape.user)))
                {
                    Some(Ok(name)) => {
                        self.nameless.remove(id);
                        pods.insert(id.clone(), name);
                    }
                    Some(Err(missing)) => {
                        self.nameless.insert(id.clone(), (missing, Instant::now()));
                    }
                    None => {}
                }
            }
            let Some(container) = shape.container else {
                continue;
            };
            if container.is_name || containers.contains_key(container.id) {
                continue;
            }
            let known = self.containers.remove(container.id).filter(|known| {
                let lasts = match known.found {
                    Ok(_) => NAMES_LAST,
                    Err(_) => RETRY_AFTER,
                };
                known.read.elapsed() < lasts
            });
            let known = known.unwrap_or_else(|| Known {
                found: state.container(container.id, shape.user),
                read: Instant::now(),
            });
            if let Ok(found) = &known.found {
                let uid = found.pod_uid.clone().or(shape.pod);
                pods.extend(uid.zip(found.pod.clone()));
            }
            containers.insert(container.id.to_owned(), known);
        }
        // Those that are still there were looked up again.
        self.nameless
            .retain(|_, (_, time)| time.elapsed() < NAMES_LAST);
        self.containers = containers;
        self.pods = pods;
    }

    /// The names of a group that was refreshed.
    #[must_use]
    pub fn names(&self, group: &str) -> GroupNames {
        let shape = Shape::of(group);
        let mut names = GroupNames::none();
        if let Some(unit) = shape.unit {
            names.unit = Measured::Exact(unit.to_owned());
        }
        if let Some(uid) = &shape.pod {
            names.pod = match self.pods.get(uid) {
                Some(pod) => Measured::Exact(pod.clone()),
                None => {
                    let missing = self.nameless.get(uid).map(|(missing, _)| *missing);
                    let not_found = Missing::Unknown(Reason::RuntimeStateNotFound);
                    Measured::Missing(missing.unwrap_or(not_found))
                }
            };
        }
        let Some(container) = shape.container else {
            return names;
        };
        names.container_id = Measured::Exact(container.id.to_owned());
        if container.is_name {
            names.container = Measured::Exact(container.id.to_owned());
            return names;
        }
        let known = self.containers.get(container.id);
        let missing = Missing::Unknown(Reason::RuntimeStateNotFound);
        match known.map_or(&Err(missing), |known| &known.found) {
            Ok(found) => {
                let absent = Measured::not_offered(Reason::NotInRuntimeState);
                names.container = found.name.clone().map_or(absent, Measured::Exact);
                if let Some(pod) = &found.pod {
                    names.pod = Measured::Exact(pod.clone());
                } else if shape.pod.is_none() {
                    names.pod = Measured::not_offered(found.no_pod);
                }
            }
            Err(missing) => {
                names.container = Measured::Missing(*missing);
                if names.pod.missing().is_some() {
                    names.pod = Measured::Missing(*missing);
                }
            }
        }
        names
    }
}

impl Default for Namer {
    fn default() -> Self {
        Namer::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &str = "2606783da4c704677433e2b3dbe31e55d094ab09e9736276fe562891bd111d4b";
    const DOCKER_OF_POD: &str = "66e9fcc2a88b3fad6e6d4823c62507efd2e4d4eabbf8db6c9c077afd2b069de8";
    const PODMAN: &str = "1f2052ee5496f495cc5f24edcec7cd529fe692f706152b807177a7ee9fb0d29b";
    const CRIO: &str = "134b58ab2e0cfd7432a9db818b1b4ec52fdc747333f0ba2c9342860dc2ea7c50";

    fn testdata() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/host")
    }

    fn names(root: &Path, groups: &[&str]) -> Vec<GroupNames> {
        let mut namer = Namer::below(root);
        namer.refresh(groups.iter().copied());
        groups.iter().map(|group| namer.names(group)).collect()
    }

    fn shown(group: &str) -> String {
        let names = names(&testdata(), &[group]);
        names[0].shown().known().unwrap_or_default()
    }

    #[test]
    fn containers_have_the_names_that_their_runtimes_show() {
        let postgres = "c0ffee00".repeat(8);
        let kubernetes = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-\
                          pod5f0c7e2a_9d1b_4c33_8a53_0f6d1f6f2b11.slice";
        for (group, name) in [
            (format!("/docker/{DOCKER}"), "orders-cache"),
            (
                format!("/system.slice/docker-{DOCKER}.scope"),
                "orders-cache",
            ),
            (
                format!(
                    "/kubepods/burstable/pod1a2b3c4d-0000-4000-8000-0123456789ab/{DOCKER_OF_POD}"
                ),
                "shop/web-1/app",
            ),
            (format!("/libpod_parent/libpod-{PODMAN}"), "orders-db"),
            (
                format!("/machine.slice/libpod-{PODMAN}.scope/container"),
                "orders-db",
            ),
            (
                format!("{kubernetes}/cri-containerd-{postgres}.scope"),
                "orders/postgres-0/postgres",
            ),
            (
                format!("{kubernetes}/cri-containerd-{}.scope", "b6d0".repeat(16)),
                "orders/postgres-0/POD",
            ),
            (
                format!("/system.slice/nerdctl-{}.scope", "d1".repeat(32)),
                "proxy",
            ),
            (
                format!("/kubepods.slice/crio-{CRIO}.scope"),
                "default/segfaulter/POD",
            ),
            (
                format!(
                    "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{}.scope",
                    "ab".repeat(32)
                ),
                "notes",
            ),
            ("/system.slice/nginx.service".to_owned(), "nginx.service"),
        ] {
            assert_eq!(shown(&group), name, "{group}");
        }
    }

    #[test]
    fn pods_have_the_name_that_one_of_their_containers_gives_them() {
        let pod = "/kubepods/burstable/pod1a2b3c4d-0000-4000-8000-0123456789ab";
        let container = format!("{pod}/{DOCKER_OF_POD}");
        let found = names(&testdata(), &[pod, &container]);
        assert_eq!(
            found[0].pod,
            Measured::Exact("shop/web-1".into()),
            "whichever of the two is listed first"
        );
        assert_eq!(
            found[0].container,
            Measured::not_offered(Reason::NoContainer),
            "the pod's group is no container"
        );
        let alone = names(&testdata(), &[pod]);
        assert_eq!(
            alone[0].pod,
            Measured::unknown(Reason::RuntimeStateNotFound),
            "a pod without containers"
        );
    }

    #[test]
    fn names_without_state_are_unknown_and_ids_are_exact() {
        let gone = "ee".repeat(32);
        let found = names(
            &testdata(),
            &[&format!("/system.slice/docker-{gone}.scope")],
        );
        assert_eq!(
            found[0],
            GroupNames {
                unit: Measured::Exact(format!("docker-{gone}.scope")),
                container: Measured::unknown(Reason::RuntimeStateNotFound),
                container_id: Measured::Exact(gone),
                pod: Measured::unknown(Reason::RuntimeStateNotFound),
            },
            "no runtime has it"
        );
        let found = names(&testdata(), &[&format!("/libpod_parent/libpod-{PODMAN}")]);
        assert_eq!(
            found[0].pod,
            Measured::not_offered(Reason::NotInRuntimeState),
            "its files do not say whether there is a pod"
        );
        assert_eq!(
            found[0].unit,
            Measured::not_offered(Reason::NoUnit),
            "systemd did not make the group"
        );
    }

    #[test]
    fn pods_of_podman_have_the_names_of_its_database() {
        let (pod, container) = ("ab".repeat(32), "cd".repeat(32));
        let groups = [
            format!("/libpod_parent/{pod}"),
            format!("/libpod_parent/{pod}/libpod-{container}"),
        ];
        let groups = groups.each_ref().map(String::as_str);
        for database in ["libpod/bolt_state.db", "db.sql"] {
            let root = tempfile::tempdir().expect("a directory for the test");
            let storage = root.path().join("var/lib/containers/storage");
            let found = names(root.path(), &groups[..1]);
            let unknown = Measured::unknown(Reason::RuntimeStateNotFound);
            assert_eq!(found[0].pod, unknown, "there is no state");
            let containers = storage.join("vfs-containers");
            let spec = containers.join(&container).join("userdata/config.json");
            let database = storage.join(database);
            for path in [&spec, &database] {
                let parent = path.parent().expect("it is below the root");
                std::fs::create_dir_all(parent).expect("the directory is made");
            }
            std::fs::write(&spec, "{}").expect("the file is written");
            let list = format!(r#"[{{"id": "{container}", "names": ["web"]}}]"#);
            std::fs::write(containers.join("containers.json"), list).expect("the file is written");
            let mut bytes = vec![0xff, 0, 1, 2];
            bytes.extend(format!(r#"{{"id":"{pod}","name":"shop","namespace":""}}"#).bytes());
            std::fs::write(&database, &bytes).expect("the file is written");
            let found = names(root.path(), &groups);
            let shown: Vec<_> = found.iter().map(GroupNames::shown).collect();
            let exact = |name: &str| Measured::Exact(name.to_owned());
            assert_eq!(
                shown,
                [exact("shop"), exact("shop/web")],
                "pod and container"
            );
        }
    }

    #[test]
    fn configured_directories_are_read() {
        let root = tempfile::tempdir().expect("a directory for the test");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            let parent = path.parent().expect("it is below the root");
            std::fs::create_dir_all(parent).expect("the directory is made");
            std::fs::write(path, text).expect("the file is written");
        };
        let (docker, podman) = ("aa".repeat(32), "bb".repeat(32));
        put("etc/docker/daemon.json", r#"{"data-root": "/srv/docker"}"#);
        put(
            &format!("srv/docker/containers/{docker}/config.v2.json"),
            r#"{"Name": "/there", "Config": {"Labels": null}}"#,
        );
        put(
            "etc/containers/storage.conf",
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"/srv/storage\"\n",
        );
        put(
            &format!("srv/storage/overlay-containers/{podman}/userdata/config.json"),
            "{}",
        );
        put(
            "srv/storage/overlay-containers/volatile-containers.json",
            &format!(r#"[{{"id": "{podman}", "names": ["brief"]}}]"#),
        );
        let groups = [format!("/docker/{docker}"), format!("/x/libpod-{podman}")];
        let groups = groups.each_ref().map(String::as_str);
        let found = names(root.path(), &groups);
        let shown: Vec<_> = found.iter().map(GroupNames::shown).collect();
        let exact = |name: &str| Measured::Exact(name.to_owned());
        assert_eq!(shown, [exact("there"), exact("brief")], "of both runtimes");
    }

    #[test]
    fn state_that_is_no_regular_file_is_not_opened() {
        let root = tempfile::tempdir().expect("a directory for the test");
        let id = "cc".repeat(32);
        let directory = root.path().join("var/lib/docker/containers").join(&id);
        std::fs::create_dir_all(&directory).expect("the directory is made");
        let fifo = directory.join("config.v2.json");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo works");
        let found = names(root.path(), &[&format!("/docker/{id}")]);
        assert_eq!(
            found[0].container,
            Measured::unknown(Reason::RuntimeStateNotFound),
            "and the look-up ends"
        );
    }
}
