//! [`ViewKind`]: processes, files, control groups or devices.

/// ViewKind of a row's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewKind {
    /// Processes.
    Process,
    /// Files.
    File,
    /// Control groups.
    Cgroup,
    /// Devices.
    Device,
}

impl ViewKind {
    /// Every kind, in the order of the keys.
    pub const ALL: [ViewKind; 4] = [
        ViewKind::Process,
        ViewKind::File,
        ViewKind::Cgroup,
        ViewKind::Device,
    ];

    /// The word for these rows on command lines and in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            ViewKind::Process => "process",
            ViewKind::File => "file",
            ViewKind::Cgroup => "cgroup",
            ViewKind::Device => "device",
        }
    }

    /// The name of a view of these rows.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            ViewKind::Process => "processes",
            ViewKind::File => "files",
            ViewKind::Cgroup => "cgroups",
            ViewKind::Device => "devices",
        }
    }
}
