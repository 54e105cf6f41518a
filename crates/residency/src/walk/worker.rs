//! [`Worker`]: one thread of a walk.

use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use cachewise_sys::{
    ErrorKind, OverlayMount, close_together, open_quietly_at, opening_drops_pages, page_size,
};
use cachewise_units::{ByteRange, Bytes};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, RawDir, SeekFrom, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::Resource;

use super::batch::{Batch, RootedDirectory, Waiting};
use super::device::{Device, DeviceId};
use super::queue::{Directory, Queue, Task};
use super::seen::SeenInodes;
use super::settings::WalkSettings;
use super::summary::Summary;
use crate::file_system::FileSystem;
use crate::query::{count, open, pages_of};
use crate::{Counts, Error, Inode, Unknown};

/// Buffer for one read of a directory: some hundred names.
const DIRECTORY_BUFFER: usize = 32 << 10;
/// How many files are open before they are closed together, where the caller's limit allows for that.
const OPEN_FILES: usize = 64;
/// How many findings are handed over at a time.
const HAND_OVER: usize = 256;
/// How many files are worth the trouble of waking another thread.
const WORTH_SHARING: usize = 64;

/// Others would wait for ever for a thread that panicked.
struct StopOnPanic<'queue>(&'queue Queue);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// One thread's part of a walk. `Hand` takes its results, and breaks when the caller wants no more.
pub(super) struct Worker<'walk, Hand> {
    settings: &'walk WalkSettings,
    queue: &'walk Queue,
    seen: &'walk SeenInodes,
    hand_over: Hand,
    /// For what a read of a directory gives.
    buffer: Vec<MaybeUninit<u8>>,
    devices: Vec<Device>,
    /// Overlays of which a layer can be met as well, by the device of their directories.
    overlays: Vec<(DeviceId, Option<OverlayMount>)>,
    /// Open files that one thread is done with, to be closed together.
    open: Vec<OwnedFd>,
    most_open: usize,
    ready: Vec<Batch>,
    findings: usize,
    /// Whether the caller wants no more results.
    is_over: bool,
    summary: Summary,
}

impl<'walk, Hand: FnMut(Vec<Batch>) -> ControlFlow<()>> Worker<'walk, Hand> {
    pub fn new(
        settings: &'walk WalkSettings,
        queue: &'walk Queue,
        seen: &'walk SeenInodes,
        hand_over: Hand,
    ) -> Self {
        Self {
            settings,
            queue,
            seen,
            hand_over,
            buffer: vec![MaybeUninit::uninit(); DIRECTORY_BUFFER],
            devices: Vec::new(),
            overlays: Vec::new(),
            open: Vec::with_capacity(OPEN_FILES),
            most_open: most_open(settings.threads),
            ready: Vec::new(),
            findings: 0,
            is_over: false,
            summary: Summary::default(),
        }
    }

    /// Does what waits until nothing is left.
    pub fn work(mut self) -> Summary {
        let queue = self.queue;
        let _guard = StopOnPanic(queue);
        while let Some(task) = queue.take(|| self.flush()) {
            self.task(task);
        }
        self.flush();
        self.summary
    }

    /// The same on the thread that the others hand over to. It never waits for a task, since the others may wait
    /// for it to take what they have found.
    pub fn work_and_receive(mut self, others: &Receiver<Vec<Batch>>) -> Summary {
        let queue = self.queue;
        let _guard = StopOnPanic(queue);
        loop {
            while let Some(task) = queue.take_now() {
                self.task(task);
            }
            self.flush();
            match others.recv() {
                Ok(found) => self.deliver(found),
                // All have ended: nothing is left, or the caller wants no more.
                Err(_) => return self.summary,
            }
        }
    }

    fn task(&mut self, task: Task) {
        if self.is_to_end() {
            return self.queue.done();
        }
        match task {
            Task::Root(path) => self.root(path),
            Task::Directory(directory) => self.directory(directory),
            Task::Files(batch, directory) => {
                self.files(directory.as_fd(), batch);
                self.close_last(directory);
            }
        }
        self.queue.done();
    }

    /// Whether the caller broke the walk off or cancelled it, which ends it for all threads.
    fn is_to_end(&self) -> bool {
        let is_cancelled = self.settings.is_cancelled();
        if is_cancelled {
            self.queue.stop();
        }
        self.is_over || is_cancelled
    }

    /// A path that the caller gave: a symbolic link is followed, and what it is decides.
    fn root(&mut self, path: PathBuf) {
        let found = match rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::TYPE) {
            Ok(found) => found,
            Err(errno) => return self.skip_root(path, Error::from_errno("stat", errno)),
        };
        if FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory {
            let directory = Directory {
                place: RootedDirectory::of_root(path),
                root_device: (found.stx_dev_major, found.stx_dev_minor),
                depth: 0,
                parent: None,
            };
            return self.queue.add(&mut vec![Task::Directory(directory)]);
        }
        if let Err(error) = self.root_file(&path) {
            self.skip_root(path, error);
        }
    }

    fn root_file(&mut self, path: &Path) -> Result<(), Error> {
        let file = match open(path) {
            Err(error) if error.unknown() == Some(Unknown::FuseNotOpened) => None,
            opened => Some(opened?),
        };
        let inode = match &file {
            Some(file) => Inode::of_fd(file.as_fd())?,
            None => Inode::at(path)?,
        };
        let device = match &file {
            Some(file) => self.device(inode.device, file.as_fd())?,
            None => Device::unknown(),
        };
        let real = file
            .as_ref()
            .and_then(|file| self.real(&device, file.as_fd()));
        let (of, number) = real.unwrap_or((inode.device, inode.number));
        if !self.seen.is_new(of, number) {
            self.summary.links += 1;
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default();
        let directory = path.parent().unwrap_or(Path::new(""));
        if !self.settings.patterns.takes_file(directory, name) {
            self.summary.excluded += 1;
            return Ok(());
        }
        let place = RootedDirectory {
            root: path.into(),
            directory: directory.into(),
        };
        let mut batch = Batch::new(place, device);
        name.into_with_c_str(|name| {
            batch.add(name, inode.number);
            Ok(())
        })
        .map_err(|errno| Error::from_errno("open", errno))?;
        let waiting = batch.waiting[0];
        let counts = match &file {
            Some(file) => self.count(&device, &inode, file.as_fd()),
            None => Err(Unknown::FuseNotOpened.into()),
        };
        self.found(&mut batch, &waiting, inode.size, counts);
        self.finish(batch);
        Ok(())
    }

    fn skip_root(&mut self, path: PathBuf, error: Error) {
        let error = error.with_path(&path);
        // The caller expects a file that it names: a missing one did not just vanish.
        self.summary.failed += 1;
        let mut batch = Batch::new(RootedDirectory::of_root(path), Device::unknown());
        batch.skip(error);
        self.finish(batch);
    }

    fn directory(&mut self, directory: Directory) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_directory(&directory, &mut buffer);
        self.buffer = buffer;
        if let Err(error) = read {
            let error = error.with_path(&directory.place.directory);
            let mut batch = Batch::new(directory.place, Device::unknown());
            self.skip(&mut batch, error);
            self.finish(batch);
        }
    }

    fn read_directory(
        &mut self,
        waiting: &Directory,
        buffer: &mut [MaybeUninit<u8>],
    ) -> Result<(), Error> {
        let place = &waiting.place;
        let directory =
            open_directory(waiting).map_err(|errno| Error::from_errno("open", errno))?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(&directory, c"", flags, StatxFlags::INO)
            .map_err(|errno| Error::from_errno("stat", errno))?;
        let id = (found.stx_dev_major, found.stx_dev_minor);
        if self.settings.one_file_system && id != waiting.root_device {
            self.summary.elsewhere += 1;
            return Ok(());
        }
        if !self.seen.is_new(id, found.stx_ino) {
            self.summary.links += 1;
            return Ok(());
        }
        let device = self.device(id, directory.as_fd())?;
        // Files of pseudo file systems have no pages, and many cannot be opened: only a caller who
        // names one wants it.
        if id != waiting.root_device && device.file_system == FileSystem::MadeUp {
            self.summary.elsewhere += 1;
            return Ok(());
        }
        self.summary.directories += 1;
        let directory = Arc::new(directory);
        // Those that wait keep the directories above them open, one for each level at most.
        let parent = (waiting.depth < self.most_open).then_some(&directory);

        let mut batch = Batch::new(place.clone(), device);
        let mut below = Vec::new();
        let mut entries = RawDir::new(&directory, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| Error::from_errno("getdents", errno))?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(&directory, name),
                kind => kind,
            };
            match kind {
                FileType::Directory => {
                    if name != c"."
                        && name != c".."
                        && let Some(next) = self.below(waiting, name, parent)
                    {
                        below.push(Task::Directory(next));
                    }
                }
                FileType::RegularFile => {
                    let takes = &self.settings.patterns;
                    if takes.takes_file(&place.directory, OsStr::from_bytes(name.to_bytes())) {
                        batch.add(name, entry.ino());
                    } else {
                        self.summary.excluded += 1;
                    }
                }
                _ => self.summary.special += 1,
            }
            if entries.is_buffer_empty() {
                if self.is_to_end() {
                    return Ok(());
                }
                self.queue.add(&mut below);
                let rest = Batch::new(place.clone(), device);
                let batch = std::mem::replace(&mut batch, rest);
                if batch.waiting.len() >= WORTH_SHARING && self.queue.is_waited_at() {
                    let shared = Task::Files(batch, Arc::clone(&directory));
                    self.queue.add(&mut vec![shared]);
                } else {
                    self.files(directory.as_fd(), batch);
                }
            }
        }
        self.close_last(directory);
        Ok(())
    }

    /// A directory in this one, unless it is to be left out.
    fn below(
        &mut self,
        waiting: &Directory,
        name: &CStr,
        parent: Option<&Arc<OwnedFd>>,
    ) -> Option<Directory> {
        let place = &waiting.place;
        let file_name = OsStr::from_bytes(name.to_bytes());
        if self
            .settings
            .patterns
            .leaves_out(&place.directory, file_name)
        {
            self.summary.excluded += 1;
            return None;
        }
        Some(Directory {
            place: RootedDirectory {
                root: Arc::clone(&place.root),
                directory: place.below(name).into(),
            },
            root_device: waiting.root_device,
            depth: waiting.depth + 1,
            parent: parent.cloned(),
        })
    }

    /// Asks about the files of a batch.
    fn files(&mut self, directory: BorrowedFd<'_>, mut batch: Batch) {
        if !batch.device.needs_statx {
            self.seen.mark(&mut batch);
        }
        for waiting in batch.take_waiting() {
            if self.is_to_end() {
                break;
            }
            if let Err(error) = self.file(directory, &mut batch, &waiting) {
                let path = batch.place.below(batch.name(&waiting));
                self.skip(&mut batch, error.with_path(&path));
            }
        }
        self.finish(batch);
    }

    fn file(
        &mut self,
        directory: BorrowedFd<'_>,
        batch: &mut Batch,
        waiting: &Waiting,
    ) -> Result<(), Error> {
        let device = batch.device;
        if device.drops_pages || self.is_mount_that_drops_pages(directory, batch.name(waiting)) {
            return self.file_not_opened(directory, batch, waiting);
        }
        let file = self
            .open_in(directory, batch.name(waiting))
            .map_err(|errno| Error::from_errno("open", errno))?;
        if device.needs_statx || waiting.is_doubtful {
            let inode = Inode::of_fd(file.as_fd())?;
            // The directory's inode number was noted before the file was opened, so it is not new.
            let told = (device.id, waiting.inode) == (inode.device, inode.number);
            let is_met = waiting.is_doubtful && told;
            if self.is_met_below(&device, file.as_fd())
                || is_met
                || (!told || device.needs_statx) && !self.is_new(&inode)
            {
                self.summary.links += 1;
            } else {
                let counts = self.count(&device, &inode, file.as_fd());
                self.found(batch, waiting, inode.size, counts);
            }
        } else {
            let size = match rustix::fs::seek(&file, SeekFrom::End(0)) {
                Ok(size) => Bytes(size),
                // Something else has its name by now; statx says what.
                Err(_) => Inode::of_fd(file.as_fd())?.size,
            };
            let whole = ByteRange {
                start: 0,
                len: size.0,
            };
            let counts = count(file.as_fd(), whole.page_range(page_size()), || {
                Ok(device.file_system)
            });
            self.found(batch, waiting, size, counts);
        }
        self.close(file);
        Ok(())
    }

    /// A file that would lose its pages: its size is known without opening it.
    fn file_not_opened(
        &mut self,
        directory: BorrowedFd<'_>,
        batch: &mut Batch,
        waiting: &Waiting,
    ) -> Result<(), Error> {
        let name = batch.name(waiting);
        let inode = Inode::in_directory(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if self.is_new(&inode) {
            let unknown = Err(Unknown::FuseNotOpened.into());
            self.found(batch, waiting, inode.size, unknown);
        } else {
            self.summary.links += 1;
        }
        Ok(())
    }

    /// Whether a single file of FUSE is mounted on a file of another file system. That shows in no directory, so it is
    /// looked for where a mount has this name.
    fn is_mount_that_drops_pages(&self, directory: BorrowedFd<'_>, name: &CStr) -> bool {
        if !self.settings.mounted_files.contains(name) {
            return false;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(directory, name, flags, rustix::fs::Mode::empty());
        found.is_ok_and(|found| opening_drops_pages(found.as_fd()).unwrap_or(true))
    }

    /// Whether the file of a layer that has the pages of a file on an overlay was met already.
    fn is_met_below(&mut self, device: &Device, file: BorrowedFd<'_>) -> bool {
        let real = self.real(device, file);
        real.is_some_and(|(device, number)| !self.seen.is_new(device, number))
    }

    /// The file of a layer that has the pages of a file on an overlay.
    fn real(&mut self, device: &Device, file: BorrowedFd<'_>) -> Option<(DeviceId, u64)> {
        if device.file_system != FileSystem::Overlay {
            return None;
        }
        let known = self.overlays.iter().position(|(id, _)| *id == device.id);
        let at = known.unwrap_or_else(|| {
            let mount = OverlayMount::of_fd(file).filter(OverlayMount::is_reached);
            self.overlays.push((device.id, mount));
            self.overlays.len() - 1
        });
        self.overlays[at].1.as_ref()?.real(file)
    }

    fn is_new(&self, inode: &Inode) -> bool {
        self.seen.is_new(inode.device, inode.number)
    }

    fn count(&self, device: &Device, inode: &Inode, file: BorrowedFd<'_>) -> Result<Counts, Error> {
        let pages = pages_of(inode, ByteRange::starting_at(0))?;
        count(file, pages, || Ok(device.file_system))
    }

    fn found(
        &mut self,
        batch: &mut Batch,
        waiting: &Waiting,
        size: Bytes,
        counts: Result<Counts, Error>,
    ) {
        let counts = match counts {
            Ok(counts) => Ok(counts),
            Err(error) => match error.unknown() {
                Some(why) => {
                    self.summary.count_unknown(why);
                    Err(why)
                }
                None => {
                    let path = batch.place.below(batch.name(waiting));
                    return self.skip(batch, error.with_path(&path));
                }
            },
        };
        self.summary.files += 1;
        batch.found_file(waiting, size, counts);
    }

    fn skip(&mut self, batch: &mut Batch, error: Error) {
        match error.kind() {
            ErrorKind::NotFound => self.summary.vanished += 1,
            _ => self.summary.failed += 1,
        }
        batch.skip(error);
    }

    /// Opens a file in a directory.
    fn open_in(&mut self, directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
        let open = || open_quietly_at(directory, name, OFlags::NOFOLLOW);
        match open() {
            // Our own open files may be what is too many.
            Err(Errno::MFILE | Errno::NFILE) if !self.open.is_empty() => {
                close_together(&mut self.open);
                open()
            }
            opened => opened,
        }
    }

    /// Closes a file: of several threads at once, of one thread with others.
    fn close(&mut self, file: OwnedFd) {
        // Threads take descriptors in turn, so that those of one are not consecutive: a call would close one of them.
        if self.settings.threads > 1 {
            return drop(file);
        }
        self.open.push(file);
        if self.open.len() >= self.most_open {
            close_together(&mut self.open);
        }
    }

    /// Closes a directory that nothing in it waits for.
    fn close_last(&mut self, directory: Arc<OwnedFd>) {
        if let Some(directory) = Arc::into_inner(directory) {
            self.close(directory);
        }
    }

    fn device(&mut self, id: DeviceId, fd: BorrowedFd<'_>) -> Result<Device, Error> {
        if let Some(known) = self.devices.iter().find(|device| device.id == id) {
            return Ok(*known);
        }
        let device = Device::of_directory(id, fd)?;
        self.devices.push(device);
        Ok(device)
    }

    fn finish(&mut self, batch: Batch) {
        if batch.len() == 0 {
            return;
        }
        self.findings += batch.len();
        self.ready.push(batch);
        if self.findings >= HAND_OVER {
            self.send();
        }
    }

    fn send(&mut self) {
        self.findings = 0;
        let ready = std::mem::take(&mut self.ready);
        if !ready.is_empty() {
            self.deliver(ready);
        }
    }

    fn deliver(&mut self, found: Vec<Batch>) {
        if !self.is_over && (self.hand_over)(found).is_break() {
            self.is_over = true;
            self.queue.stop();
        }
    }

    /// Hands over and closes what there is, before it waits.
    fn flush(&mut self) {
        self.send();
        close_together(&mut self.open);
    }
}

/// A thread's share of a quarter of the descriptors that the process may have.
fn most_open(threads: usize) -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    (limit / 4 / threads).clamp(1, OPEN_FILES)
}

/// Opens a directory; only a root may be a symbolic link.
fn open_directory(waiting: &Directory) -> Result<OwnedFd, Errno> {
    let path: &Path = &waiting.place.directory;
    let mut flags = OFlags::DIRECTORY;
    if waiting.depth > 0 {
        flags |= OFlags::NOFOLLOW;
    }
    let (above, path) = match (&waiting.parent, path.file_name()) {
        (Some(parent), Some(name)) => (parent.as_fd(), Path::new(name)),
        _ => (CWD, path),
    };
    open_quietly_at(above, path, flags)
}

/// Asks for what a directory does not tell; something that is gone is of no kind.
fn kind_of(directory: &OwnedFd, name: &CStr) -> FileType {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |found| {
            FileType::from_raw_mode(found.st_mode)
        })
}
