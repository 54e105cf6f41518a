//! [`Shape`]: the parts of a control group's path that systemd, container runtimes and Kubernetes
//! name.
//!
//! | manager | path |
//! |---|---|
//! | systemd | `/system.slice/nginx.service`, `/user.slice/user-1000.slice/session-3.scope` |
//! | Docker | `/docker/ID`, `/system.slice/docker-ID.scope` |
//! | podman | `/libpod_parent/libpod-ID`, `/machine.slice/libpod-ID.scope` |
//! | podman's pods | `/libpod_parent/POD`, `machine-libpod_pod_POD.slice` |
//! | containerd | `/NAMESPACE/ID`, `nerdctl-ID.scope`, `cri-containerd-ID.scope`, `SLICE:cri-containerd:ID` |
//! | CRI-O | `crio-ID.scope`, `crio-ID` |
//! | Kubernetes | `/kubepods/burstable/podUID/ID`, `kubepods-burstable-podUID.slice`, UID with `_` for `-` |
//! | LXC | `/lxc.payload.NAME`, `/lxc/NAME` |

/// Digits of the id of a container.
const ID_DIGITS: usize = 64;

/// Kinds of systemd units that have processes.
const UNITS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// Names in the path of a control group, the innermost of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape<'a> {
    /// The systemd unit.
    pub(crate) unit: Option<&'a str>,
    pub(crate) container: Option<Container<'a>>,
    /// The UID of the Kubernetes pod, or the id of podman's.
    pub(crate) pod: Option<String>,
    /// The user whose service manager made the group.
    pub(crate) user: Option<u32>,
}

/// A container in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Container<'a> {
    pub(crate) id: &'a str,
    /// The path is its name (LXC), and no runtime has more.
    pub(crate) is_name: bool,
    /// Length of the path of the container's own group.
    pub(crate) end: usize,
}

impl<'a> Shape<'a> {
    /// The names in a path below the root of a hierarchy: `/system.slice/nginx.service`.
    pub(crate) fn of(group: &'a str) -> Shape<'a> {
        let mut shape = Shape::default();
        let (mut above, mut next) = ("", 0);
        for part in group.split('/') {
            let end = next + part.len();
            next = end + 1;
            if UNITS.iter().any(|kind| part.ends_with(kind)) {
                shape.unit = Some(part);
            }
            let of_podman = pod_of_podman(part, above);
            match container(part, above) {
                Some((id, is_name)) if of_podman.is_none() => {
                    shape.container = Some(Container { id, is_name, end });
                }
                _ => {}
            }
            let of_podman = of_podman.map(str::to_owned);
            shape.pod = of_podman.or_else(|| pod(part, &group[..end])).or(shape.pod);
            shape.user = user(part).or(shape.user);
            above = part;
        }
        shape
    }
}

/// The id of the container whose group has this name, or its name.
fn container<'a>(part: &'a str, above: &str) -> Option<(&'a str, bool)> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some((name, true));
    }
    if !part.is_empty() && ["lxc", "lxc.payload"].contains(&above) {
        return Some((part, true));
    }
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    // The monitor of podman and CRI-O is in a group of its own, outside of the container.
    (is_id(id) && !runtime.ends_with("conmon")).then_some((id, false))
}

/// Whether this is the id of a container, or of a pod of podman.
pub(crate) fn is_id(text: &str) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == ID_DIGITS && text.bytes().all(is_digit)
}

/// The id of the pod of podman whose group has this name.
fn pod_of_podman<'a>(part: &'a str, above: &str) -> Option<&'a str> {
    let id = match part.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-libpod_pod_")?.1,
        None => Some(part).filter(|_| above == "libpod_parent")?,
    };
    is_id(id).then_some(id)
}

/// The UID of the pod whose group has this name.
fn pod(part: &str, group: &str) -> Option<String> {
    if !group.contains("kubepods") {
        return None;
    }
    let name = part.split(':').next()?;
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => name.strip_prefix("pod")?,
    };
    let is_uid = uid.len() >= 32
        && uid
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    is_uid.then(|| uid.replace('_', "-"))
}

/// The user of a slice of systemd.
fn user(part: &str) -> Option<u32> {
    part.strip_prefix("user-")?
        .strip_suffix(".slice")?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "2606783da4c704677433e2b3dbe31e55d094ab09e9736276fe562891bd111d4b";
    const UID: &str = "1a2b3c4d-0000-4000-8000-0123456789ab";

    #[test]
    fn unit_is_the_innermost_one() {
        for (group, unit) in [
            ("/system.slice/nginx.service", Some("nginx.service")),
            ("/system.slice/nginx.service/worker", Some("nginx.service")),
            (
                "/user.slice/user-0.slice/session-3.scope",
                Some("session-3.scope"),
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service",
                Some("web.service"),
            ),
            ("/system.slice", None),
            ("/", None),
            ("", None),
            ("/mine", None),
        ] {
            assert_eq!(Shape::of(group).unit, unit, "{group}");
        }
        let group = "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service";
        assert_eq!(Shape::of(group).user, Some(1000), "the user of the manager");
    }

    #[test]
    fn container_id_is_found_in_the_paths_of_every_runtime() {
        for group in [
            "/docker/ID",
            "/system.slice/docker-ID.scope",
            "/libpod_parent/libpod-ID",
            "/machine.slice/libpod-ID.scope",
            "/machine.slice/libpod-ID.scope/container",
            "/default/ID",
            "/system.slice/nerdctl-ID.scope",
            "/kubepods/burstable/podUID/ID",
            "/kubepods.slice/kubepods-podU_ID.slice/cri-containerd-ID.scope",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_ID.slice/crio-ID.scope",
            "/system.slice/containerd.service/kubepods-besteffort-podU_ID.slice:cri-containerd:ID",
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_ID.slice/cri-containerd-ID.scope",
        ] {
            let path = group
                .replace("UID", UID)
                .replace("U_ID", &UID.replace('-', "_"))
                .replace("ID", ID);
            let shape = Shape::of(&path);
            let container = shape.container.expect(group);
            assert_eq!((container.id, container.is_name), (ID, false), "{group}");
            let own = path.strip_suffix("/container").unwrap_or(&path);
            assert_eq!(&path[..container.end], own, "{group}: its own group");
            let pod = group.contains("kubepods").then(|| UID.to_owned());
            assert_eq!(shape.pod, pod, "{group}: the pod");
        }
    }

    #[test]
    fn pods_of_podman_are_found_by_their_id() {
        let pod = "8".repeat(64);
        for above in [
            format!("/libpod_parent/{pod}"),
            format!("/machine.slice/machine-libpod_pod_{pod}.slice"),
            format!(
                "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_{pod}.slice"
            ),
        ] {
            let shape = Shape::of(&above);
            assert_eq!(shape.pod.as_ref(), Some(&pod), "{above}");
            assert_eq!(shape.container, None, "{above}: is no container");
            for inside in [format!("libpod-{ID}"), format!("libpod-{ID}.scope")] {
                let group = format!("{above}/{inside}");
                let shape = Shape::of(&group);
                assert_eq!(shape.pod.as_ref(), Some(&pod), "{group}");
                assert_eq!(
                    shape.container.map(|container| container.id),
                    Some(ID),
                    "{group}"
                );
            }
        }
    }

    #[test]
    fn groups_beside_containers_belong_to_none() {
        for group in [
            "/machine.slice/libpod-conmon-ID.scope",
            "/libpod_parent/conmon",
            "/system.slice/docker.service",
            "/kubepods/burstable",
            "/docker/ID0",
            "/docker/buildkit",
            "/lxc",
            "/lxc.monitor.web",
        ] {
            let path = group.replace("ID", ID);
            assert_eq!(Shape::of(&path).container, None, "{group}");
            assert_eq!(Shape::of(&path).pod, None, "{group}");
        }
        let pod = format!("/kubepods/besteffort/pod{UID}");
        assert_eq!(Shape::of(&pod).pod.as_deref(), Some(UID), "a pod's group");
        assert_eq!(Shape::of(&pod).container, None, "is no container's");
        let elsewhere = format!("/mine/pod{UID}");
        assert_eq!(Shape::of(&elsewhere).pod, None, "not of Kubernetes");
    }

    #[test]
    fn lxc_containers_have_their_name_in_the_path() {
        for group in [
            "/lxc.payload.web/system.slice",
            "/lxc/web",
            "/lxc.payload/web",
        ] {
            let found = Shape::of(group).container.expect(group);
            assert_eq!((found.id, found.is_name), ("web", true), "{group}");
        }
    }
}
