//! [`GroupNames`]: names of a control group: systemd unit, container and pod.

use crate::measured::{Measured, Missing, NOT_APPLICABLE};
use crate::reason::Reason;

/// Number of digits of a container's id that the runtimes show.
const SHOWN_DIGITS: usize = 12;

/// Names of a control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupNames {
    /// The systemd unit: a service, scope, socket or mount.
    pub unit: Measured<String>,
    /// The container's name, as its runtime shows it.
    pub container: Measured<String>,
    /// The container's id.
    pub container_id: Measured<String>,
    /// The Kubernetes or podman pod, `NAMESPACE/NAME` where it has a namespace.
    pub pod: Measured<String>,
}

impl GroupNames {
    /// Names that are all missing for the same reason.
    #[must_use]
    pub const fn all_missing(missing: Missing) -> GroupNames {
        GroupNames {
            unit: Measured::Missing(missing),
            container: Measured::Missing(missing),
            container_id: Measured::Missing(missing),
            pod: Measured::Missing(missing),
        }
    }

    /// Names of a group that belongs to no unit, container or pod.
    #[must_use]
    pub const fn none() -> GroupNames {
        GroupNames {
            unit: Measured::not_offered(Reason::NoUnit),
            container: Measured::not_offered(Reason::NoContainer),
            container_id: Measured::not_offered(Reason::NoContainer),
            pod: Measured::not_offered(Reason::NoPod),
        }
    }

    /// The name that people use: the container with its pod, the pod, or the unit.
    ///
    /// A container whose name is unknown has the beginning of its id, as the runtimes show it.
    #[must_use]
    pub fn shown(&self) -> Measured<String> {
        let id = self.container_id.as_ref().known();
        let digits = id.map(|id| id.get(..SHOWN_DIGITS).unwrap_or(id));
        let container = self.container.as_ref().known().map(String::as_str);
        match (self.pod.as_ref().known(), container.or(digits)) {
            (Some(pod), Some(container)) => Measured::Exact(format!("{pod}/{container}")),
            (Some(pod), None) => Measured::Exact(pod.clone()),
            (None, Some(container)) => Measured::Exact(container.to_owned()),
            (None, None) => self.unit.clone(),
        }
    }
}

impl Default for GroupNames {
    fn default() -> Self {
        GroupNames::all_missing(NOT_APPLICABLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(name: &str) -> Measured<String> {
        Measured::Exact(name.to_owned())
    }

    #[test]
    fn shown_name_is_the_one_that_people_use() {
        let service = GroupNames {
            unit: exact("nginx.service"),
            ..GroupNames::none()
        };
        assert_eq!(service.shown(), exact("nginx.service"), "a service");
        let unnamed = GroupNames {
            unit: exact("docker-0123456789abcdef.scope"),
            container: Measured::unknown(Reason::RuntimeStateDenied),
            container_id: exact("0123456789abcdef"),
            ..GroupNames::none()
        };
        assert_eq!(unnamed.shown(), exact("0123456789ab"), "the id, shortened");
        let named = GroupNames {
            container: exact("web"),
            ..unnamed
        };
        assert_eq!(named.shown(), exact("web"), "a container, before its scope");
        let in_pod = GroupNames {
            pod: exact("shop/web-1"),
            ..named
        };
        assert_eq!(in_pod.shown(), exact("shop/web-1/web"), "with its pod");
        let pod = GroupNames {
            pod: exact("shop/web-1"),
            ..GroupNames::none()
        };
        assert_eq!(pod.shown(), exact("shop/web-1"), "a pod");
        assert_eq!(
            GroupNames::none().shown(),
            Measured::not_offered(Reason::NoUnit),
            "a group without names"
        );
    }
}
