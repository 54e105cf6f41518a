//! A file system of its own for a test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{LoopDevice, Scratch, evict};

/// A file system on a loop device, unmounted when dropped.
pub struct Mounted {
    device: LoopDevice,
    directory: PathBuf,
}

impl Mounted {
    /// Makes an ext4 of this many bytes with these options of mkfs.ext4; `None` with a note where it cannot.
    pub fn ext4(scratch: &Scratch, bytes: u64, options: &[&str]) -> Option<Mounted> {
        let image = scratch.path("image");
        let file = File::create(&image).expect("a scratch directory can be filled");
        file.set_len(bytes)
            .expect("a file with holes takes no room");
        let mut make = Command::new("mkfs.ext4");
        let make = make.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
        let make = make.args(["-qF", "-b", "4096"]).args(options).arg(&image);
        if !make.status().is_ok_and(|status| status.success()) {
            println!("skipped: a file system of its own: mkfs.ext4 is not installed");
            return None;
        }
        let directory = scratch.path("mounted");
        std::fs::create_dir(&directory).expect("a scratch directory can be filled");
        let device = LoopDevice::over(&image);
        let mounted = Mounted { device, directory };
        mounted.mount();
        Some(mounted)
    }

    /// The device.
    pub fn device(&self) -> &Path {
        &self.device.path
    }

    /// Its root directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of a file in it, made or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Sets how many bytes the kernel reads ahead of this device.
    pub fn read_ahead(&self, bytes: u64) {
        let name = self.device.path.file_name().expect("it has a name");
        let setting = Path::new("/sys/block")
            .join(name)
            .join("queue/read_ahead_kb");
        let written = std::fs::write(setting, (bytes >> 10).to_string());
        written.expect("root may set it");
    }

    /// The numbers of its device: `MAJOR:MINOR`.
    fn number(&self) -> Option<String> {
        let name = self.device.path.file_name().expect("it has a name");
        let number = std::fs::read_to_string(Path::new("/sys/block").join(name).join("dev"));
        Some(number.ok()?.trim().to_owned())
    }

    /// Limits writes to this device to a number of bytes per second; `None` where the kernel has no throttle for writeback.
    pub fn slow_down(&self, bytes: u64) -> Option<Slow> {
        let slow = Slow {
            device: self.number()?,
            throttle: "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device",
        };
        // Of all dirty memory: without it the kernel gives none to a device that it has not seen writing yet.
        slow.set_share(90).ok()?;
        slow.set(bytes).ok()?;
        Some(slow)
    }

    /// Limits reads from this device by processes of the root group, to a number of bytes per second; `None` where the kernel
    /// has no such throttle, or this process is in another group.
    pub fn slow_reads_down(&self, bytes: u64) -> Option<Slow> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let is_root = |line: &str| {
            let mut parts = line.splitn(3, ':').skip(1);
            parts
                .next()
                .is_some_and(|of| of.split(',').any(|one| one == "blkio"))
                && parts.next() == Some("/")
        };
        groups.lines().find(|line| is_root(line))?;
        let slow = Slow {
            device: self.number()?,
            throttle: "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device",
        };
        slow.set(bytes).ok()?;
        Some(slow)
    }

    fn mount(&self) {
        let mut mount = Command::new("mount");
        let status = mount.args([&self.device.path, &self.directory]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "root can mount a device"
        );
    }

    fn unmount(&self) -> bool {
        let status = Command::new("umount").arg(&self.directory).status();
        status.is_ok_and(|status| status.success())
    }

    /// Mounts it again: nothing of it is cached afterwards except the pages that mounting reads.
    pub fn make_cold(&self) {
        assert!(self.unmount(), "no process uses it");
        evict(&self.device.path);
        self.mount();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.unmount();
    }
}

/// A throttle of a device, removed when dropped.
pub struct Slow {
    device: String,
    /// A file of the root group of version 1, which writeback is charged to.
    throttle: &'static str,
}

impl Slow {
    /// Sets it, in bytes per second; 0: none.
    fn set(&self, bytes: u64) -> std::io::Result<()> {
        std::fs::write(self.throttle, format!("{} {bytes}", self.device))
    }

    /// Sets the percentage of all dirty memory that is this device's.
    fn set_share(&self, percent: u32) -> std::io::Result<()> {
        let share = format!("/sys/class/bdi/{}/min_ratio", self.device);
        std::fs::write(share, percent.to_string())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.set_share(0);
        let _ = self.set(0);
    }
}
