//! Names of services and containers, from the names of their control groups.

/// The service, scope, container or pod of a control group, from the group names of systemd and the
/// container engines; the innermost one.
pub fn of(group: &str) -> Option<&str> {
    group.rsplit('/').find_map(|name| {
        let container = ["docker-", "crio-", "cri-containerd-", "libpod-"]
            .iter()
            .find_map(|engine| name.strip_prefix(engine)?.strip_suffix(".scope"))
            .or_else(|| is_container(name).then_some(name));
        match container {
            // The engines show the first twelve digits.
            Some(id) => Some(id.get(..12).unwrap_or(id)),
            None => [".service", ".scope", ".socket", ".mount"]
                .iter()
                .any(|kind| name.ends_with(kind))
                .then_some(name),
        }
    })
}

/// Without systemd, Docker and Kubernetes name groups by the container's id alone.
fn is_container(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_name_comes_from_group_name() {
        let id = "0123456789abcdef".repeat(4);
        for (group, unit) in [
            ("/system.slice/nginx.service", Some("nginx.service")),
            ("/system.slice/nginx.service/worker", Some("nginx.service")),
            (
                "/user.slice/user-0.slice/session-3.scope",
                Some("session-3.scope"),
            ),
            (
                &format!("/system.slice/docker-{id}.scope"),
                Some("0123456789ab"),
            ),
            (&format!("/docker/{id}"), Some("0123456789ab")),
            (
                &format!("/kubepods/burstable/pod1/{id}"),
                Some("0123456789ab"),
            ),
            ("/", None),
            ("/mine", None),
        ] {
            assert_eq!(of(group), unit, "{group}");
        }
    }
}
