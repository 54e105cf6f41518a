//! `publish`, `key`, `diff` and `gc`: versions of a directory; and versions that are mounted.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cachewise_cli::output::{Stream, tell};
use cachewise_cli::settings;
use cachewise_cli::sinks::Sinks;
use cachewise_model::{Datum, Missing, Reason};
use cachewise_tier::mount::Mount;
use cachewise_tier::published::{
    Acceptance, CollectOptions, Collected, Difference, Feed, PublicKey, Publication, PublishError,
    PublishOptions, Published, Record, SecretKey, Store, VersionName, collect, compare,
    publish as publish_version, record_of, state_directory,
};
use cachewise_tier::{BlockCache, Origin, Setting, SettingsBuilder};
use cachewise_units::{Bytes, counted, escaped};
use cachewise_view::{Sheet, SheetCell};
use tokio::runtime::Runtime;

use super::columns::{COLLECTED, DIFFERENCES, PUBLISHED};
use super::written;
use crate::commands::arguments::{CacheFlags, Diff, Gc, Key, Publish};

/// Makes a pair of keys.
pub fn key(arguments: &Key) -> Result<ExitCode> {
    let (public, file) = SecretKey::create(&arguments.file)?;
    println!("{public}");
    tell(&format!(
        "{} signs: keep it secret; {} is for --trust",
        escaped(&arguments.file),
        escaped(&file)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Reads the key of `--key`.
fn signing_key(file: &Path) -> Result<SecretKey> {
    let error = match SecretKey::read(file) {
        Ok(key) => return Ok(key),
        Err(error) => error,
    };
    let fix = match &error {
        PublishError::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound => "name the file that `cachewise tier key FILE` made",
            ErrorKind::PermissionDenied => {
                "run as the owner of the file, or name a key that this user may read"
            }
            _ => return Err(error).context("--key"),
        },
        _ => return Err(error).context("--key"),
    };
    bail!("--key: {error}; {fix}")
}

/// Reads the key of `--trust`.
fn trusted(given: &Path) -> Result<PublicKey> {
    match PublicKey::read(given) {
        Err(PublishError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => bail!(
            "--trust {}: neither a file nor a key of 64 hexadecimal digits; `cachewise tier key FILE` makes FILE.pub and prints \
             its key",
            escaped(given)
        ),
        key => key.context("--trust"),
    }
}

/// Publishes an origin.
pub fn publish(arguments: &Publish) -> Result<ExitCode> {
    let name = VersionName::parse(&arguments.version)?;
    let key = signing_key(&arguments.key)?;
    let block = arguments.block.0;
    ensure!(
        block.is_power_of_two() && (16 << 10..=1 << 20).contains(&block),
        "--block: {} is not a power of two from 16 KiB to 1 MiB",
        arguments.block
    );
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let remote = match arguments.origin.to_str() {
        Some(url) if url.contains("://") => {
            let wanted = super::cache::wanted(&CacheFlags::default(), |_| ())?;
            Some(super::cache::origin(url, &wanted)?)
        }
        _ => None,
    };
    let state = match &arguments.state {
        Some(state) => Some(state.clone()),
        None => {
            let given = settings::of_environment(Setting::PREFIX, ["state"])?;
            given
                .into_iter()
                .flat_map(|one| one.values)
                .next()
                .map(PathBuf::from)
        }
    };
    let began = Instant::now();
    let done = publish_version(
        &arguments.to,
        &PublishOptions {
            origin: &arguments.origin,
            remote: remote.as_ref(),
            name: &name,
            key: &key,
            block,
            valid: arguments.valid.get(),
            state: &state_directory(state.as_deref()),
            is_full: arguments.full,
        },
    )
    .with_context(|| format!("cannot publish {}", escaped(&arguments.origin)))?;
    for why in &done.warnings {
        tell(&format!("warning: {why}"));
    }
    let sheet = publication(&done, began).chosen(arguments.columns.as_ref());
    let version = &done.record.name;
    written(sinks, &sheet)
        .with_context(|| format!("{version} is published, but its figures cannot be written"))?;
    Ok(ExitCode::SUCCESS)
}

fn publication(done: &Publication, began: Instant) -> Sheet {
    let (record, walked) = (&done.record, &done.walked);
    let mut sheet = Sheet::new(&PUBLISHED);
    let number = SheetCell::count;
    sheet.rows.push(vec![
        SheetCell::text(record.name.to_string()),
        number(record.serial),
        number(walked.files),
        number(walked.directories),
        number(walked.links),
        number(walked.with_attributes),
        SheetCell::bytes(Bytes(walked.bytes)),
        number(walked.read_files),
        SheetCell::bytes(Bytes(walked.read_bytes)),
        SheetCell::bytes(Bytes(done.written_bytes)),
        number(done.written_packs),
        number(walked.read_again),
        number(walked.vanished),
        SheetCell::of(&Datum::Seconds(began.elapsed().as_secs_f64())),
    ]);
    sheet
}

/// The size of a name in a version that does not have it.
const ABSENT: Missing = Missing::NotOffered(Reason::NotApplicable);

/// Compares two versions.
pub fn diff(arguments: &Diff) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let store = Store::open(&arguments.store)?;
    let key = arguments.trust.as_deref().map(trusted).transpose()?;
    let record = |name: &str| -> Result<Record> {
        Ok(record_of(&store, &VersionName::parse(name)?, key.as_ref())?)
    };
    let found = compare(&store, &record(&arguments.one)?, &record(&arguments.other)?)?;
    written(
        sinks,
        &differences(&found).chosen(arguments.columns.as_ref()),
    )?;
    Ok(match found.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

fn differences(found: &[Difference]) -> Sheet {
    let mut sheet = Sheet::new(&DIFFERENCES);
    let size = |size: Option<u64>| SheetCell::or_missing(size.map(Bytes), ABSENT, SheetCell::bytes);
    for one in found {
        let path = match one.path.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => escaped(&one.path).to_string(),
        };
        sheet.rows.push(vec![
            SheetCell::text(one.change.name()),
            SheetCell::text(path),
            size(one.before),
            size(one.after),
        ]);
    }
    sheet
}

/// Removes old versions.
pub fn gc(arguments: &Gc) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    ensure!(
        arguments.keep > 0,
        "--keep: 0 would remove the newest version: the minimum is 1"
    );
    let store = Store::open(&arguments.store)?;
    let done = collect(
        &store,
        &CollectOptions {
            keep: arguments.keep,
            age: arguments.age.get(),
            is_repacked: arguments.repack,
            is_trial: arguments.dry_run,
        },
    )?;
    if arguments.repack {
        tell(&format!(
            "{} used by less than a half; the next version of each name does not use such packs",
            counted(done.sparse_packs, "pack")
        ));
    }
    if arguments.dry_run {
        tell("nothing was removed (--dry-run)");
    }
    written(sinks, &collected(&done).chosen(arguments.columns.as_ref()))?;
    Ok(ExitCode::SUCCESS)
}

fn collected(done: &Collected) -> Sheet {
    let mut sheet = Sheet::new(&COLLECTED);
    sheet.rows.push(vec![
        SheetCell::count(done.removed_versions.len() as u64),
        SheetCell::count(done.kept_versions),
        SheetCell::count(done.removed_packs),
        SheetCell::bytes(Bytes(done.removed_bytes)),
        SheetCell::count(done.kept_packs),
        SheetCell::bytes(Bytes(done.kept_bytes)),
        SheetCell::names(&done.removed_versions),
    ]);
    sheet
}

/// A version that is mounted.
#[derive(Debug)]
pub struct Mounted {
    feed: Feed,
    published: Arc<Published>,
    record: Record,
    poll: std::time::Duration,
}

impl Mounted {
    /// Reads and verifies the record, where a store is set, and adapts the settings to it.
    pub fn open(
        name: &str,
        wanted: &mut SettingsBuilder,
        runtime: &Runtime,
    ) -> Result<Option<Self>> {
        let Some(store) = wanted.mount.store.clone() else {
            return Ok(None);
        };
        let name = VersionName::parse(name)?;
        let trust = wanted.mount.trust.as_deref();
        let trust = trust.context("--store: add --trust KEY, the public key of the publisher")?;
        let key = trusted(trust)?;
        if !store.to_string_lossy().contains("://") {
            Store::open(&store).context("--store")?;
        }
        let mut of_store = wanted.clone();
        // Nothing of the store is kept under its name: hashes name all bytes.
        of_store.cache.identity = Some("store".to_owned());
        let feed = Feed {
            store: super::cache::origin(&store.to_string_lossy(), &of_store)?,
            name,
            key,
            state: state_directory(wanted.mount.state.as_deref()),
            how: Acceptance {
                allow_rollback: wanted.mount.allow_rollback,
            },
            deadline: wanted.cache.read_deadline,
        };
        let record = runtime.block_on(feed.record())?;
        let published = Published::new(Arc::clone(&feed.store), record.clone());
        let published = match feed.name.is_latest() {
            true => published.followed(),
            false => published,
        };
        wanted.cache.block = Bytes(record.block);
        wanted.for_kept_pages();
        wanted.mount.root = Published::root_of(&record);
        // Names never change: another version is another tree.
        wanted.mount.revalidate = std::time::Duration::from_secs(365 * 86_400);
        Ok(Some(Self {
            published: Arc::new(published),
            feed,
            record,
            poll: wanted.mount.poll,
        }))
    }

    /// Returns it as an origin.
    pub fn origin(&self) -> Arc<dyn Origin> {
        Arc::clone(&self.published) as Arc<dyn Origin>
    }

    /// Reads the tree through this cache too.
    pub fn read_through(&self, cache: &BlockCache) {
        self.published.read_through(cache);
    }

    /// Returns a summary of the version.
    pub fn described(&self) -> String {
        self.record.described()
    }

    /// Returns what looks for newer versions, if the newest one is mounted.
    pub fn follow(self) -> Option<Follow> {
        self.feed.name.is_latest().then(|| Follow {
            mounted: self,
            looked: Instant::now(),
            said: None,
        })
    }
}

/// Switches a mount to newer versions.
#[derive(Debug)]
pub struct Follow {
    mounted: Mounted,
    looked: Instant,
    /// The last problem, which is reported once.
    said: Option<String>,
}

impl Follow {
    /// Looks for a newer version, if it is time, and switches the mount to it.
    pub fn look(&mut self, runtime: &Runtime, mount: &Mount) {
        if self.looked.elapsed() < self.mounted.poll {
            return;
        }
        let problem = self
            .switch(runtime, mount)
            .err()
            .map(|error| format!("{error:#}"));
        self.looked = Instant::now();
        if let Some(problem) = &problem
            && self.said.as_ref() != Some(problem)
        {
            let present = &self.mounted.record.name;
            tell(&format!("warning: {problem}; {present} stays mounted"));
        }
        self.said = problem;
    }

    fn switch(&mut self, runtime: &Runtime, mount: &Mount) -> Result<()> {
        let mounted = &mut self.mounted;
        let record = runtime.block_on(mounted.feed.record())?;
        if record.serial == mounted.record.serial {
            return Ok(());
        }
        ensure!(
            record.block == mounted.record.block,
            "{} has blocks of {}, and this mount was started with {}: mount it anew",
            record.name,
            Bytes(record.block),
            Bytes(mounted.record.block)
        );
        mounted.published.add(record.clone());
        mount.switch(&Published::root_of(&record))?;
        tell(&format!("{} is mounted now", record.described()));
        mounted.record = record;
        Ok(())
    }
}
