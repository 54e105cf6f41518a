//! Invariants of kstat on the machine that runs the tests.

use std::os::unix::fs::MetadataExt;

use cachewise_kstat::{Device, ErrorKind, Kernel, Resource};
use cachewise_units::Bytes;

#[test]
fn kernel_files_are_readable_here() {
    let kernel = Kernel::new();
    let own = std::process::id();

    let memory = kernel.meminfo().unwrap();
    assert!(
        memory.free < memory.total,
        "something is in use: {memory:?}"
    );
    assert!(
        kernel.vmstat().unwrap().nr_dirtied.is_some(),
        "every kernel counts this"
    );
    assert!(
        !kernel.hostname().unwrap().ends_with('\n'),
        "a name, not a line"
    );
    assert!(
        kernel.release().unwrap().contains('.'),
        "a release, for example 6.18"
    );
    assert!(
        kernel.setting("vm.dirty_ratio").unwrap().is_some(),
        "a setting of every kernel"
    );
    kernel.pressure(Resource::Memory).unwrap();

    assert!(kernel.process_exists(own), "this process runs");
    assert!(
        !kernel.process_command(own).unwrap().is_empty(),
        "and has a name"
    );
    match kernel.process_io(own) {
        Ok(io) => assert!(io.rchar > Bytes(0), "it has read /proc: {io:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }

    let names = kernel.cgroup_names().unwrap();
    for (id, name) in names.iter().take(20) {
        // Groups come and go; one that still exists has the id of the listing.
        if let Ok(group) = kernel.resolve_cgroup(name) {
            assert_eq!(group.id, *id, "the number of {name}");
        }
    }
}

#[test]
fn resolve_finds_this_file_by_device_and_path() {
    let kernel = Kernel::new();
    let mounts = kernel.mounts(None).unwrap();
    let path = std::env::current_exe().unwrap().canonicalize().unwrap();
    let mount = mounts.covering(&path).unwrap();
    let in_fs = mount
        .root
        .join(path.strip_prefix(&mount.mount_point).unwrap());
    let seen = mounts.resolve(mount.dev, &in_fs).unwrap();
    let (found, wanted) = (
        std::fs::metadata(&seen).unwrap(),
        std::fs::metadata(&path).unwrap(),
    );
    assert_eq!(
        found.ino(),
        wanted.ino(),
        "{} is {}",
        seen.display(),
        path.display()
    );

    if let Some(name) = kernel.block_device_name(mount.dev) {
        let device = std::fs::metadata(&name).map(|found| Device::from_stat(found.rdev()));
        // A container may have the file system without the node of its device.
        assert!(
            device.is_err() || device.unwrap() == mount.dev,
            "{}",
            name.display()
        );
    }
}
