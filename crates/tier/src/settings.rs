//! [`Settings`] and [`MountOptions`], declared once with name, type, default, unit and help: [`SETTINGS`].

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::Bytes;

use crate::remote::{EngineSettings, ZoneMap};
use crate::setting_value::SettingValue;
use crate::{EngineKey, Error};

/// The longest range that one read may have, in bytes.
pub const LONGEST_READ: u64 = 64 << 20;

/// One setting. Its name is a field in Rust, a key in a settings file and an argument in Python.
#[derive(Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// `cache` or `mount`.
    pub part: &'static str,
    /// Unit of its value, and the words that stand for 0; empty for a switch, which is `true` or `false`.
    pub unit: &'static str,
    /// One sentence, after a space.
    pub(crate) doc: &'static str,
    pub(crate) get: fn(&SettingsBuilder) -> String,
    pub(crate) set: fn(&mut SettingsBuilder, &str) -> Result<(), String>,
}

/// The settings of a cache and of a mount, collected by name and checked by [`Self::finish`].
#[derive(Clone, Debug, Default)]
pub struct SettingsBuilder {
    /// Settings of the cache.
    pub cache: Settings,
    /// Settings of the mount.
    pub mount: MountOptions,
    /// The names of the settings that were set.
    pub(crate) given: Vec<&'static str>,
}

/// Declares structs of settings. A field with a unit is a setting that users name: the doc comment is its help. Fields
/// after `also` are for programs that call the library.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        struct $name:ident in $part:ident {
            $($(#[doc = $help:literal])+ $field:ident: $type:ty = $default:expr, $unit:literal;)+
        } also {
            $($(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty = $also_default:expr;)*
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug)]
            pub struct $name {
                $($(#[doc = $help])+ pub $field: $type,)+
                $($(#[doc = $also_doc])+ pub $also: $also_type,)*
            }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: $default,)+ $($also: $also_default,)* }
                }
            }
        )+

        /// All settings, in the order of help and documentation.
        pub const SETTINGS: &[Setting] = &[$($(Setting {
            name: stringify!($field),
            part: stringify!($part),
            unit: $unit,
            doc: concat!($($help),+),
            get: |all| all.$part.$field.shown($unit),
            set: |all, text| {
                all.$part.$field = <$type>::read(text, $unit)?;
                Ok(())
            },
        },)+)+];
    };
}

settings! {
    /// Settings of a block cache. The default is a cache in memory, without any server.
    struct Settings in cache {
        /// Maximum memory for blocks; the default of a mounted published version is 32 MiB
        memory: Bytes = Bytes(256 << 20), "BYTES";
        /// Directory for blocks on a local disk [default: no disk tier]. Blocks survive restarts; only one process at a
        /// time can use the directory
        disk: Option<PathBuf> = None, "DIRECTORY";
        /// Maximum disk space for blocks, with --disk; minimum 64M
        disk_size: Bytes = Bytes(10 << 30), "BYTES";
        /// Cache servers that share blocks between machines: redis-cluster://HOST:PORT,... (one node or more),
        /// redis://HOST:PORT,... or memcached://HOST:PORT,... (all servers); append +tls to the scheme for TLS [default:
        /// no servers]
        engine: Option<EngineSettings> = None, "URL";
        /// User name in the ACL of the servers; the password is read from --engine-password-file or from the variable
        /// CACHEWISE_TIER_ENGINE_PASSWORD, never from an argument
        engine_user: Option<String> = None, "NAME";
        /// File with the password of the servers in its first line, readable by this user only
        engine_password_file: Option<PathBuf> = None, "FILE";
        /// File with a secret key: blocks on the servers are encrypted and authenticated under it, and their names reveal
        /// nothing. 32 bytes, or as text 64 hexadecimal digits or base64, readable by this user only. Machines with the
        /// same key share blocks [default: blocks are plain text]
        engine_key_file: Option<PathBuf> = None, "FILE";
        /// PEM file of the certificate authorities to trust [default: those of the system]
        engine_ca: Option<PathBuf> = None, "FILE";
        /// Name to expect in the certificates of the servers [default: the host of each address]
        engine_name: Option<String> = None, "NAME";
        /// Name of the tenant, from letters, digits, '.', '-' and '_': its blocks on the servers are named cw:NAME:..., so that an
        /// ACL can keep tenants apart, and `tier trim` can count and limit them. Machines with the same name share blocks
        /// [default: no tenant, names are cw:...]
        tenant: Option<String> = None, "NAME";
        /// Zone of this machine: blocks are read from nodes of a Redis Cluster in this zone first, and written to primaries as
        /// always. Zones of nodes are those of --zone-of, else their availability-zone (Valkey 8) [default: no zone]
        zone: Option<String> = None, "NAME";
        /// Zones of nodes, with --zone, by subnet, address or host name: a=10.0.1.0/24,b=b.example.org. A host name
        /// matches all names below it; the first matching entry applies [default: the zones that nodes report]
        zone_of: Option<ZoneMap> = None, "ZONE=SUBNET,...";
        /// Name of the origin in block keys: machines that use the same name share blocks, whatever the path. A file
        /// system that does not store the time of last change (ctime) needs a name, and a new one when its files change
        /// [default: blocks of a directory are private to this machine, blocks of a URL are shared]
        identity: Option<String> = None, "NAME";
        /// Size of a block, which is fetched, stored and verified as a whole: a power of two from 16K to 1M, the same on
        /// all machines
        block: Bytes = Bytes(128 << 10), "BYTES";
        /// Time limit to connect to a server, name lookup included; a server that exceeds it counts as slow
        connect: Duration = Duration::from_millis(10), "TIME";
        /// Time limit for the first byte of a response from a server; then the block is read from the origin
        deadline: Duration = Duration::from_millis(20), "TIME";
        /// Maximum delay before a hedged request to a second server: the delay is the 99th percentile of recent response
        /// times, up to this; never disables hedging
        hedge: Duration = Duration::from_millis(10), "TIME|never";
        /// Hedged requests allowed per block read, on average, from 0 to 1
        hedge_share: f64 = 0.05, "SHARE";
        /// Time after which another machine takes over a block from one that died while it read the origin; the machine that
        /// reads renews its lease three times within it. never disables leases: machines read the origin independently, and
        /// do not wait for busy servers
        lease: Duration = Duration::from_secs(3), "TIME|never";
        /// Maximum number of copies of a block on the servers, from 1 to 16. While servers are busy because many machines read the
        /// same blocks, machines make copies from the first one, for a minute, and read a random one; the same number on
        /// all machines. 1 makes none
        copies: usize = 1, "NUMBER";
        /// Maximum bytes in flight from each server
        in_flight: Bytes = Bytes(8 << 20), "BYTES";
        /// Maximum concurrent reads of the origin; further reads wait. Fewer are sent while its response times grow with
        /// their number
        origin_reads: usize = 32, "NUMBER";
        /// Time for which an object or directory of the origin must have answered nothing but errors, or nothing, before
        /// further requests to it fail at once; then single requests test whether it answers again
        origin_breaker: Duration = Duration::from_secs(1), "TIME|never";
        /// Time limit for each read; a read that exceeds it fails
        read_deadline: Duration = Duration::from_secs(10), "TIME";
    } also {
        /// The key that [`Settings::engine_key_file`] contains; [`crate::BlockCache::open`] reads the file if this is
        /// `None`.
        engine_key: Option<EngineKey> = None;
        /// Maximum bytes that wait to be written to the disk; `None` is a quarter of it, from 64 MiB to 256 MiB. Blocks
        /// beyond it are not kept on disk, and are counted as dropped. In a burst it takes up to three times this
        /// memory. A queue beyond [`Settings::memory`] is limited to 64 MiB.
        disk_queue: Option<Bytes> = None;
        /// Time limit for the disk; after it the block is looked for in the next tier.
        disk_deadline: Duration = Duration::from_millis(200);
        /// Time limit for the whole answer of a server; [`crate::SettingsBuilder::finish`] makes it five times
        /// [`Settings::deadline`] at least.
        whole: Duration = Duration::from_millis(100);
        /// Earliest hedge, however fast the servers answer.
        hedge_min: Duration = Duration::from_millis(3);
        /// Hedges that may come at once, after a quiet time.
        hedge_burst: u32 = 32;
        /// Missed deadlines within [`Self::breaker_window`] that open a node's breaker.
        breaker_misses: u32 = 3;
        /// See [`Self::breaker_misses`].
        breaker_window: Duration = Duration::from_secs(1);
        /// Time for which a breaker of a node or of the origin opens first; each probe that fails doubles it.
        breaker_open: Duration = Duration::from_millis(500);
        /// Longest time for which a breaker opens.
        breaker_open_max: Duration = Duration::from_secs(5);
        /// Maximum bytes in flight to the engine. Blocks beyond it are not written, and are counted as dropped.
        fills_in_flight: Bytes = Bytes(32 << 20);
    }

    /// How an origin is mounted.
    struct MountOptions in mount {
        /// Time for which names and attributes are cached; then they are read from the origin again. 0 reads them each
        /// time
        revalidate: Duration = Duration::from_secs(3600), "TIME|0";
        /// Time for which a missing name is cached, at most --revalidate
        revalidate_missing: Duration = Duration::from_secs(10), "TIME|0";
        /// Maximum age of names and attributes that other machines have read from the origin and shared through the engine,
        /// at most --revalidate; needs --engine-key-file, as forged names could redirect readers
        share_names: Duration = Duration::ZERO, "TIME|never";
        /// Maximum memory for names and attributes that the kernel has forgotten, and for lists of directories
        names: Bytes = Bytes(64 << 20), "BYTES";
        /// Maximum size of a file that is read when it is opened, so that readers keep the state that they opened when the
        /// file is replaced
        pin: Bytes = Bytes(128 << 10), "BYTES|0";
        /// Allow access by other users, subject to the permission bits of the origin
        allow_other: bool = false, "";
        /// Number of FUSE worker threads, from 1 to 256
        threads: usize = 4, "NUMBER";
        /// Store of published versions: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX; the origin
        /// to mount is NAME@VERSION or NAME@latest then [default: not a published version]
        store: Option<PathBuf> = None, "STORE";
        /// Public key to trust, with --store: a file, or its 64 hexadecimal digits
        trust: Option<PathBuf> = None, "KEY";
        /// Time between checks for a newer version, with --store and NAME@latest
        poll: Duration = Duration::from_secs(60), "TIME";
        /// Accept a version that is older than the newest that this machine has seen
        allow_rollback: bool = false, "";
        /// Directory for the serials of versions that this machine has seen [default: /var/lib/cachewise of root,
        /// ~/.local/state/cachewise of other users]
        state: Option<PathBuf> = None, "DIRECTORY";
    } also {
        /// Path in the origin that is the root of the mount.
        root: PathBuf = PathBuf::new();
        /// The source in the list of mounts: the origin.
        name: String = "origin".to_owned();
    }
}

/// Settings of the tier on the local disk, derived from [`Settings`].
#[derive(Clone, Debug)]
pub(crate) struct DiskSettings {
    /// The directory: created if it is missing, and locked for one process.
    pub directory: PathBuf,
    /// Maximum bytes of blocks.
    pub capacity: Bytes,
    /// Maximum bytes that wait to be written.
    pub write_queue: Bytes,
    /// Time limit for a read.
    pub deadline: Duration,
}

/// The write queue that is always permitted, however small disk and memory: the bytes of the
/// longest read.
const SMALL_QUEUE: u64 = 64 << 20;

/// The most copies of a block.
const MOST_COPIES: usize = 16;

/// Permitted block sizes, in bytes.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 16 << 10..=1 << 20;

impl Settings {
    /// Returns how long a busy server may be silent, where leases are used.
    pub(crate) fn busy_patience(&self) -> Duration {
        match self.lease.is_zero() {
            true => Duration::ZERO,
            false => self.read_deadline * 3 / 10,
        }
    }

    /// Returns the tier on the local disk, if there is one. Its queue does not exceed the memory for
    /// blocks, so that a small memory setting is respected.
    pub(crate) fn on_disk(&self) -> Option<DiskSettings> {
        let usual = Bytes((self.disk_size.0 / 4).clamp(SMALL_QUEUE, 256 << 20));
        let queue = self.disk_queue.unwrap_or(usual);
        Some(DiskSettings {
            directory: self.disk.clone()?,
            capacity: self.disk_size,
            write_queue: queue.min(Bytes(self.memory.0.max(SMALL_QUEUE))),
            deadline: self.disk_deadline,
        })
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// [`Error::Setting`] for the first value out of bounds.
    pub fn check(&self) -> Result<(), Error> {
        let Bytes(block) = self.block;
        let is_size = block.is_power_of_two() && BLOCK_SIZES.contains(&block);
        let room = |setting, blocks: u64, bytes: Bytes| {
            let why = format!(
                "{bytes} is too small: the minimum is {}",
                Bytes(blocks.saturating_mul(block))
            );
            require(setting, bytes.0 / blocks >= block, &why)
        };
        let why = format!("{} is not a power of two from 16 KiB to 1 MiB", self.block);
        require("block", is_size, &why)?;
        room("memory", 4, self.memory)?;
        require(
            "origin_reads",
            self.origin_reads > 0,
            "0 is too small: the minimum is 1",
        )?;
        let is_long = self.read_deadline >= Duration::from_millis(1);
        require("read_deadline", is_long, "too short: the minimum is 1 ms")?;
        if self.disk.is_some() {
            let why = format!("{} is too small: the minimum is 64 MiB", self.disk_size);
            require("disk_size", self.disk_size.0 >= 64 << 20, &why)?;
            room(
                "disk_queue",
                4,
                self.disk_queue.unwrap_or(Bytes(SMALL_QUEUE)),
            )?;
        }
        require(
            "whole",
            self.deadline <= self.whole,
            "shorter than the deadline for the first byte",
        )?;
        let is_ordered = self.hedge.is_zero() || self.hedge_min <= self.hedge;
        require(
            "hedge_min",
            is_ordered,
            "longer than hedge, the maximum delay",
        )?;
        let why = format!("{} is not from 0 to 1", self.hedge_share);
        require("hedge_share", (0.0..=1.0).contains(&self.hedge_share), &why)?;
        require(
            "breaker_misses",
            self.breaker_misses > 0,
            "0 is too small: the minimum is 1",
        )?;
        let is_ordered = self.breaker_open <= self.breaker_open_max;
        require("breaker_open", is_ordered, "longer than breaker_open_max")?;
        if let Some(tenant) = &self.tenant {
            let is_one = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            let is_name = (1..=64).contains(&tenant.len()) && tenant.chars().all(is_one);
            let why = "not 1 to 64 letters, digits, '.', '-' and '_'";
            require("tenant", is_name, why)?;
        }
        check_identity(self.identity.as_deref())?;
        let why = format!("{} is not from 1 to {MOST_COPIES}", self.copies);
        require("copies", (1..=MOST_COPIES).contains(&self.copies), &why)?;
        let is_named = self.zone.as_ref().is_none_or(|zone| !zone.is_empty());
        require("zone", is_named, "empty: name a zone")?;
        room("in_flight", 1, self.in_flight)?;
        room("fills_in_flight", 1, self.fills_in_flight)
    }
}

impl MountOptions {
    /// Checks all bounds.
    ///
    /// # Errors
    /// [`Error::Setting`], of the first that is not kept.
    pub fn check(&self) -> Result<(), Error> {
        let why = format!("{} is not from 1 to 256", self.threads);
        require("threads", (1..=256).contains(&self.threads), &why)?;
        let why = format!("{} is more than 64 MiB", self.pin);
        require("pin", self.pin.0 <= LONGEST_READ, &why)
    }
}

/// Refuses an empty name: it would say that the name changes with the files.
///
/// # Errors
/// [`Error::Setting`].
pub(crate) fn check_identity(identity: Option<&str>) -> Result<(), Error> {
    let why = "empty: name the files and their state, data-2026-11 for example";
    require("identity", identity != Some(""), why)
}

fn require(setting: &'static str, is_kept: bool, why: &str) -> Result<(), Error> {
    let why = why.to_owned();
    is_kept.then_some(()).ok_or(Error::Setting { setting, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_queue_is_bounded_by_disk_and_memory() {
        const MIB: u64 = 1 << 20;
        for (memory, capacity, queue) in [
            (256, 10 << 10, 256),
            (8 << 10, 10 << 10, 256),
            (100, 10 << 10, 100),
            (16, 10 << 10, 64),
            (256, 512, 128),
            (256, 64, 64),
        ] {
            let mut settings = Settings {
                memory: Bytes(memory * MIB),
                disk: Some(PathBuf::new()),
                disk_size: Bytes(capacity * MIB),
                ..Settings::default()
            };
            let of = |settings: &Settings| settings.on_disk().unwrap().write_queue;
            assert_eq!(of(&settings), Bytes(queue * MIB), "{settings:?}");
            settings.disk_queue = Some(Bytes(MIB));
            assert_eq!(of(&settings), Bytes(MIB), "less can be set");
        }
    }
}
