//! The identity of this machine.

use std::fs;

/// Files whose first line identifies this machine, the most stable first. The last one changes at
/// each boot.
const FILES: [&str; 3] = [
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/proc/sys/kernel/random/boot_id",
];

/// Returns the machine's identity: systemd's or D-Bus's, else that of this boot, else its host name.
pub(super) fn id() -> String {
    let named = FILES.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().next()?.trim();
        // An image that is to be started on many machines has an empty file, or this word.
        (!line.is_empty() && line != "uninitialized").then(|| line.to_owned())
    });
    named.unwrap_or_else(|| {
        let names = rustix::system::uname();
        names.nodename().to_string_lossy().into_owned()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn machine_has_one_identity() {
        let id = super::id();
        assert!(!id.is_empty(), "some name is always known");
        assert_eq!(id, super::id(), "the same at each call");
    }
}
