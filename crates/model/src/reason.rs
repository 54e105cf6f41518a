//! Reasons for missing and estimated values: one table of codes, words and explanations.
//!
//! Values, recordings and machine formats carry the code. Text for people is made from it where it
//! is drawn.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

macro_rules! reasons {
    ($($(#[doc = $help:literal])+ $variant:ident, $code:literal, $words:literal $(, was $former:literal)*;)+) => {
        /// Reason for a missing value, or method of an estimate.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Reason {
            /// Every reason, in the order of the table.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),+];

            /// The code in machine formats and recordings. It stays the same in later versions.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Reason::$variant => $code,)+ }
            }

            /// The reason in words. They may change in later versions.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(Reason::$variant => $words,)+ }
            }

            /// Words of earlier versions, which old recordings hold.
            const fn former_words(self) -> &'static [&'static str] {
                match self { $(Reason::$variant => &[$($former),*],)+ }
            }

            /// When the reason applies, and what helps.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Reason::$variant => concat!($($help),+).trim_ascii(),)+ }
            }
        }
    };
}

impl Reason {
    /// The reason with this code. Also takes its words, present and former, which recordings had before the code.
    #[must_use]
    pub fn find(text: &str) -> Option<Reason> {
        static TEXTS: LazyLock<HashMap<&str, Reason>> = LazyLock::new(|| {
            let texts = |reason: Reason| reason.texts().map(move |text| (text, reason));
            Reason::ALL.iter().copied().flat_map(texts).collect()
        });
        TEXTS.get(text).copied()
    }

    /// Every text of this reason in recordings of any version.
    fn texts(self) -> impl Iterator<Item = &'static str> {
        let former = self.former_words().iter().copied();
        [self.code(), self.words()].into_iter().chain(former)
    }
}

impl fmt::Display for Reason {
    /// The words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

reasons! {
    /// Rows of this kind do not have the field. Complete documents omit it.
    NotApplicable, "not_applicable", "not part of this kind of row";
    /// A ratio or a mean of zero requests has no value.
    NothingRequested, "nothing_requested", "nothing was requested", was "nothing was asked for";
    /// The first interval has not ended.
    NotMeasuredYet, "not_measured_yet", "not measured yet";
    /// This command does not measure the value.
    NotMeasured, "not_measured", "not measured in this run";
    /// The recording or the caller does not give the page size, so pages have no bytes.
    PageSizeUnknown, "page_size_unknown", "the page size is unknown", was "the size of a page is not told";
    /// The row sums processes or files beyond the limit of the table of rows. `run` takes `--max-rows`.
    SumOfOthers, "sum_of_others", "the sum of rows beyond the limit of the table", was "the sum of what found no room in the table of rows";
    /// The recording keeps the most active rows and sums up the others.
    SummedUp, "summed_up", "the sum of all but the most active rows", was "all but the most active, summed up";
    /// The file could not be looked at again: the size is that of an earlier interval.
    SizeSeenLast, "size_seen_last", "the size when the file was last examined", was "as it was when the file was last looked at";
    /// A rule needs exact counts and has estimates.
    OnlyEstimated, "only_estimated", "estimates are not enough", was "estimates prove nothing";
    /// A simulation of other memory sizes, not a count.
    Simulated, "simulated", "simulated, not counted";
    /// No page came from a device while `size` measured, so what one costs is unknown.
    NothingFetched, "nothing_fetched", "no page came from a device in this run, so its cost is unknown", was "no page came from a device in this run, so its price is unknown";
    /// No group is at a memory limit of its own.
    NoLimitReached, "no_limit_reached", "no control group reached a limit of its own", was "no control group came up against a limit of its own";
    /// No sample of the recording has the field.
    NeverSampled, "never_sampled", "no sample has it";
    /// `cachewise doctor` had no time to watch.
    NothingWatched, "nothing_watched", "nothing was watched";
    /// The field's name is not one of this version's.
    NoSuchField, "no_such_field", "there is no such field";

    /// An independent count contradicts another, usually because events were lost.
    RequestsContradict, "requests_contradict", "requested pages (from system calls) and hits, misses and unserved pages (from the page cache) contradict each other";
    /// The file's residency before and after does not fit its inserted and evicted pages.
    ResidencyContradicts, "residency_contradicts", "inserted and evicted pages do not explain the change of the file's resident pages";
    /// The bytes that the device read do not fit the bytes that were fetched.
    DeviceContradicts, "device_contradicts", "fetched bytes and the bytes that the block layer read for the same tasks contradict each other";
    /// Events were lost, so that sums need not agree. `lost` counts them.
    LostEvents, "lost_events", "events were lost";
    /// A process that used the file still runs, so that its counts go on.
    UserStillRuns, "still_running", "a process that used it still runs";
    /// The file's pages changed between two counts.
    UsedMeanwhile, "used_meanwhile", "its pages changed while they were counted";
    /// The first uses of the file raced with the look at its residency.
    ConcurrentFirstUse, "concurrent_first_use", "several threads used it at once when it was first used";
    /// The files are on memory, on the network or compressed.
    NotOnDevice, "not_on_device", "no bytes were fetched from files that are known to be on a device byte by byte";
    /// btrfs and FUSE read checksums, and whole compressed extents.
    OwnBuffers, "own_buffers", "a mounted file system can read more from its device than it puts into the page cache";
    /// Swap-ins read from the device too.
    Swap, "swap", "pages were swapped in";
    /// The process did I/O before it was watched.
    Followed, "followed", "the process ran before it was followed";
    /// The device may have read a part of a failed request.
    FailedRequests, "failed_requests", "direct reads failed, and the device may have read some of their bytes";

    /// Nothing but the probe counts it. `cachewise doctor` explains why there is no probe.
    NeedsProbe, "needs_probe", "only the probe can count it";
    /// Nothing but the probe sees which files are used. `cachewise doctor` explains why there is no probe.
    NeedsProbeForFiles, "needs_probe_for_files", "only the probe knows the used files";
    /// Reads inside the kernel, such as those of execve, have no requested size.
    BytesNotReported, "bytes_not_reported", "the kernel read for another call, for example execve, and does not report the requested bytes", was "the kernel read for another call, such as execve, and does not tell how many bytes it wanted";
    /// Failed or short requests, or io_uring requests in flight together, share one count.
    SharedRequests, "shared_requests", "a request failed or was short, and its byte count is hidden by other calls of the same thread on files outside the page cache; or several io_uring requests were in flight, and the kernel does not report for which of them a page was inserted", was "a request failed or ended short, and other calls of the same thread, which are not on files of the page cache, hide how many bytes it moved; or requests of io_uring in flight together hide which of them a page came in for";
    /// The kernel reports some requests without their range, or not at all.
    RangeNotReported, "range_not_reported", "the kernel does not report the range of a request: libaio on blocks larger than a page, data in an inode, a copy that makes its own file longer, or btrfs writes by libaio, splice or copy_file_range", was "the kernel does not report the range of a request: libaio on blocks larger than a page, data in an inode, a copy that makes its own file longer, or writes by libaio, splice and copy_file_range on btrfs";
    /// Readahead pages of a short read left the cache, or may have, before the result of the read was known.
    EvictedMeanwhile, "evicted_meanwhile", "pages were evicted before the result of a short read was known, perhaps pages that it had read ahead", was "other tasks evicted pages of the file before the result of a short read was known, so that its readahead pages may be gone";
    /// The kernel has no event to count reads by. `cachewise doctor` lists the events.
    NoReadEvent, "no_read_event", "this kernel has no event for reads";
    /// Before Linux 6.12 page faults need fentry or kprobes.
    NoFaultEvent, "no_fault_event", "this kernel has no tracepoints for faults on mapped files (6.12 and later), and refuses fentry and kprobes; pages that faults insert are in other_pages", was "this kernel has no tracepoints for faults on mapped files (6.12), and lets no function be hooked into; pages that faults bring in are in other_pages";
    /// Before Linux 6.18 only fentry or kprobes tell apart concurrent io_uring reads of one file.
    NoReadaheadEvent, "no_readahead_event", "without the readahead tracepoints (6.18 and later), concurrent io_uring reads of one file are estimates", was "without the readahead tracepoints (6.18) reads of one file that io_uring has in flight together are estimates";
    /// Before Linux 6.6 direct I/O needs kprobes.
    NoDirectIoEvent, "no_direct_io_event", "this kernel refuses the iomap_dio tracepoints (6.6 and later), and kprobes";
    /// Before Linux 6.5 device I/O by process needs fentry or kprobes.
    NoBlockEvent, "no_block_event", "this kernel refuses the block_bio_queue tracepoint, or does not report with it whose pages are moved (6.5 and later), and refuses fentry and kprobes", was "this kernel refuses the block_bio_queue tracepoint, or does not tell by it whose pages are moved (6.5), and lets no function be hooked into";
    /// The kernel has no io_uring tracepoint.
    NoIoUringEvent, "no_io_uring_event", "without the io_uring tracepoint reads through io_uring are counted by batch";
    /// The kernel has no tracepoints for the start and end of reclaim.
    NoReclaimEvent, "no_reclaim_event", "without the reclaim tracepoints the cause of evictions by reclaim is unknown";
    /// The kernel does not let the probe see when tasks give up their CPU.
    NoSwitchEvent, "no_switch_event", "without the scheduler's tracepoint it is unknown what tasks wait for";
    /// Most tasks of a machine wait for no storage most of the time.
    IdleTimesOfRuns, "idle_times_of_runs", "only `run` measures it";
    /// Only rows of processes and files have times of tasks.
    TimesByProcess, "times_by_process", "times are measured by process and file, not in totals";
    /// Buffered writes to ext4 are counted by its tracepoints.
    NoExt4Event, "no_ext4_event", "this kernel has no ext4 write tracepoints to attach to";
    /// Buffered writes to xfs are counted by its tracepoint.
    NoXfsEvent, "no_xfs_event", "this kernel has no xfs write tracepoint to attach to";
    /// Buffered writes to btrfs are counted by its tracepoint.
    NoBtrfsEvent, "no_btrfs_event", "this kernel has no btrfs extent tracepoint to attach to";
    /// An eviction has a file and no process. `--file` shows the files.
    EvictionsByFile, "evictions_by_file", "evictions are counted by file, not by process: use --file", was "pages leave the cache by file, not by process: ask with --file";
    /// A page is evicted of a file, which several processes may use.
    EvictionsNotAttributed, "evictions_not_attributed", "counted by file, not by process or control group", was "evictions are counted by file, not by process or control group";
    /// A page is charged to the group that used it first, whichever group's process inserted it again.
    ChargedElsewhere, "charged_elsewhere", "pages that a group's processes insert can be charged to another group";
    /// Background reclaim evicts for all processes: they share its pages by the pages that they inserted.
    SharedByInserts, "shared_by_inserts", "with a share of what background reclaim evicted, by inserted pages";
    /// A recording has rows of the most active processes. A selected process may be in the sum of the others.
    OthersNotSelected, "others_not_selected", "without processes that had no row of their own in a sample";
    /// The kernel accounts device reads to a process; those that none of its requests explains are reads for its writes.
    ByUnexplainedReads, "by_unexplained_reads", "from device reads that no request of the process explains";
    /// A sample of the resident pages was compared with the memory of the process.
    ByComparedPages, "by_compared_pages", "from the compared pages";
    /// Rows of files have refaults; the machine's are in vmstat.
    RefaultsByFile, "refaults_by_file", "refaults are counted by file; see workingset_refault_file in vmstat";
    /// Other file systems have no event for buffered writes.
    WritesNotSeen, "writes_not_seen", "buffered writes are counted on ext4, xfs and btrfs only", was "buffered writes are seen on ext4, xfs and btrfs only";
    /// CPU time of followed processes is sampled, and accurate to a clock tick.
    SampledAtTick, "sampled_at_tick", "sampled at the clock tick";
    /// Reads by splice and io_uring are read calls of no kind that the kernel sums up.
    NotAllCalls, "not_all_calls", "read calls minus reads of files; reads by splice and io_uring are only in the latter", was "read calls less reads of files: those by splice and io_uring are in the second only";
    /// /proc/PID/io counts reads of pipes and sockets too.
    OwnReadCalls, "own_read_calls", "read calls of the process itself, pipes and sockets included";
    /// /proc/PID/io counts writes to pipes and sockets too.
    OwnWriteCalls, "own_write_calls", "write calls of the process itself, pipes and sockets included";
    /// The resource usage leaves out processes that were not waited for.
    WaitedForUsage, "waited_for_usage", "resource usage of the processes that were waited for";
    /// /proc/PID/io leaves out the process's children.
    OwnIoAccount, "own_io_account", "I/O account of the process itself";
    /// The machine's vmstat counts all processes.
    ByVmstat, "by_vmstat", "the machine's vmstat";
    /// /proc/PID/io was gone before it could be read.
    EndedBeforeRead, "ended_before_read", "the process ended before its counters were read", was "the process ended before it could be looked at";

    /// The kernel's buffer of stacks was full, or the table of stacks. `lost` counts them.
    StackLost, "stack_lost", "the stack was lost";
    /// The recording keeps the heaviest stacks of a sample. Of others it keeps the function, and sums up the rest.
    StacksSummedUp, "stacks_summed_up", "lighter stacks, summed up";
    /// The event happened outside of system calls and faults: at the completion of an io_uring request.
    OutsideCall, "outside_call", "the event belongs to no call of a thread";
    /// A kernel thread such as kswapd has no user stack.
    KernelThread, "kernel_thread", "a thread of the kernel";
    /// A worker of io_uring executes the request. It has no user stack.
    IoUringWorker, "io_uring_worker", "a worker of io_uring, which has no user stack";
    /// The stacks of cachewise itself are not unwound: it reads debug information to name those of others.
    OwnProcess, "own_process", "cachewise itself";
    /// Stacks of 32-bit programs are not unwound.
    Program32Bit, "program_32_bit", "a 32-bit program";
    /// The process ended, or replaced its program, before its mappings could be read.
    MappingsGone, "mappings_gone", "the process ended before its mappings were read";
    /// The process ended before the file was opened, or too many files are open.
    FileNotOpened, "file_not_opened", "the file could not be opened";
    /// The address is in no mapped file: a JIT compiler made the code. A perf map names it (java -XX:+DumpPerfMapAtExit, node --perf-basic-prof).
    NotInFile, "not_in_file", "code in no file, and no perf map names it";
    /// The function is the interpreter's. CPython 3.12 and later names those of scripts with PYTHONPERFSUPPORT=1.
    Interpreter, "interpreter", "a function of the interpreter: the script's own is unknown";
    /// Outer calls are beyond the 16 KiB of the stack that the probe copies.
    StackTooDeep, "stack_too_deep", "outer calls are beyond the copied part of the stack";
    /// The unwind information of a file is missing or malformed, and its code keeps no frame pointer.
    NotUnwound, "not_unwound", "the unwind information does not lead to the caller";

    /// The file system's own data, such as inodes, have no path.
    FileSystemData, "file_system_data", "the file system's own data";
    /// The path is longer than the probe records: its end is shown.
    PathCut, "path_cut", "the end of the path, which is too long for the probe", was "only its end, the whole path being too long for the probe";
    /// The path is relative to its file system. Another mount namespace may mount it.
    NotMountedHere, "not_mounted_here", "relative to its file system, which is not mounted here", was "within its file system, which is not mounted here";
    /// The file system's type is known for mounted ones alone.
    FileSystemNotMounted, "file_system_not_mounted", "its file system is not mounted here";
    /// The file was unlinked, or never had a name.
    NoName, "no_name", "it has no name";
    /// The record with the file's name was lost.
    NameLost, "name_lost", "the record with its name was lost", was "its name did not get through";
    /// The table of files is full.
    FilesFull, "files_full", "files beyond the limit of the table", was "files that found no room in the table";
    /// The table of processes is full.
    ProcessesFull, "processes_full", "processes beyond the limit of the table", was "what found no room in the tables";
    /// A deleted file has no residency to ask for.
    FileDeleted, "file_deleted", "the file is deleted";
    /// Residency after the run costs a system call a file.
    HeaviestOnly, "heaviest_only", "queried only for the most used files", was "looked at for the heaviest files only";
    /// Residency is looked up by path.
    NoPathHere, "no_path_here", "only files with a path here have it";
    /// The file was new when it was first used, and has grown by an unknown number of bytes.
    WasEmpty, "was_empty", "it was empty when it was first used";
    /// The size is that at the first use.
    SizeAtFirst, "size_at_first", "the size when it was first used", was "as it was when it was first used";
    /// Another file was renamed to the path.
    NameReused, "name_reused", "another file has its name now";
    /// The path is gone.
    FileGone, "file_gone", "the file is gone";
    /// Each interval would cost a system call a file. `cachewise files` shows the residency.
    NotAskedEachTime, "not_asked_each_time", "not queried in each interval; `cachewise files` shows it", was "not asked for each time; cachewise files tells it";
    /// Residency is visible only to users who may write the file. Ask as its owner or as root.
    NotWritable, "not_writable", "residency is visible only to users who may write the file", was "the kernel tells only who may write the file";
    /// cachestat(2) needs Linux 6.5 and a file system that it looks into.
    NotSupported, "not_supported", "this kernel or file system does not report it", was "this kernel or file system does not tell";
    /// Opening or asking failed.
    LookFailed, "look_failed", "the file could not be examined", was "the file could not be looked at";
    /// The snapshot's file cannot be opened. A note has the error.
    CannotBeLookedAt, "cannot_be_looked_at", "its state cannot be read", was "it cannot be looked at";
    /// The server names files below its `--root` directories only.
    OutsideRoots, "outside_roots", "file names are shown only below the allowed roots (--root)", was "file names are told under the allowed roots only (--root)";

    /// Linux 6.5 has cachestat(2). Ask as the file's owner or as root.
    NoSyscall, "no_syscall", "this kernel has no cachestat(2), and mincore(2) reports residency only to users who own or may write the file", was "this kernel has no cachestat(2), and mincore(2) tells only who owns the file or may write it";
    /// Allow cachestat in the container's seccomp profile, or ask as the file's owner or as root.
    Seccomp, "seccomp", "a seccomp profile refuses cachestat(2), and mincore(2) reports residency only to users who own or may write the file", was "a seccomp profile refuses cachestat(2), and mincore(2) tells only who owns the file or may write it";
    /// Ask as the file's owner or as root.
    NoPermission, "no_permission", "residency is visible only to users who own or may write the file", was "the kernel tells only who owns the file or may write it";
    /// Ask as the file's owner or as root, or ask for the file in its lower directory.
    Overlayfs, "overlayfs", "cachestat(2) finds no pages of files on overlayfs, and mincore(2) reports residency only to users who own or may write the file", was "cachestat(2) does not look below overlayfs, and mincore(2) tells only who owns the file or may write it";
    /// The FUSE server may have a cache of its own.
    FuseDirectIo, "direct_io", "a FUSE server keeps this file out of the kernel's page cache (direct_io)";
    /// Ask as the file's owner or as root.
    Fuse, "fuse", "cachestat(2) can miss pages of FUSE files, and mincore(2) reports residency only to users who own or may write the file", was "cachestat(2) does not look below FUSE, and mincore(2) tells only who owns the file or may write it";
    /// As root, `cachewise files` counts the file by the census.
    FuseNotOpened, "fuse_not_opened", "FUSE files are not opened, because that can drop their pages", was "a file of FUSE is not opened to be looked at, because that can drop its pages";
    /// The census did not see every file.
    FuseCensusPartial, "fuse_census_partial", "FUSE files are not opened, because that can drop their pages, and the census was not complete", was "a file of FUSE is not opened to be looked at, and the census was not complete";
    /// The census knows files by their inode number.
    FuseInodeTwice, "fuse_inode_twice", "two files of this FUSE mount have one inode number";
    /// Reads go to the memory of the device.
    Dax, "dax", "a file on DAX has no page cache";
    /// HugePages_Total of /proc/meminfo counts them.
    HugePages, "hugetlbfs", "the kernel does not count the huge pages of hugetlbfs";
    /// Directories, pipes and sockets have no pages.
    NotAFile, "not_a_file", "only files and block devices have pages";
    /// Files of /proc and /sys are made when they are read.
    MadeUp, "made_up", "the kernel generates this file at each read", was "the kernel makes this file up whenever it is read";
    /// A later version of the library has a reason that this version does not know.
    ResidencyUnknown, "residency_unknown", "its residency is unknown";
    /// mincore(2) has no states of pages. Run Linux 6.5 or later, as root.
    StatesNotAsked, "states_not_asked", "only cachestat(2) reports it, and it was not used or has no answer here", was "only cachestat(2) tells it, and it was not asked or knows nothing here";
    /// The file has no note.
    NothingToNote, "nothing_to_note", "nothing to note";
    /// A walk does not look at inodes.
    NotLookedAt, "not_looked_at", "a walk does not examine it", was "a walk does not look at it";
    /// `cachewise files --all` names file systems.
    WholeMachineOnly, "whole_machine_only", "named for the whole machine only";
    /// All files hide their residency from this user.
    NoneKnown, "none_known", "residency is unknown for all files that have pages", was "residency is known of none of the files that have pages";
    /// The sum leaves out files of unknown residency.
    SomeKnown, "some_known", "the sum over files of known residency", was "of those files alone whose residency is known";
    /// The sum of pages would leave out files of unknown residency.
    NotAllKnown, "not_all_known", "residency is unknown for some files", was "residency is not known of all files";
    /// The walk saw what is mounted here. The census, as root, sees all files.
    ByWalk, "by_walk", "by a walk of the file systems mounted here: without deleted files, shared memory, block devices and other mount namespaces", was "by a walk of what is mounted here: without deleted files, shared memory, block devices and other mount namespaces";
    /// The list ended before all files were seen.
    Interrupted, "interrupted", "interrupted: the sum over files examined until then", was "interrupted: of those alone that were looked at until then";
    /// The file is in no directory here.
    NoPathLeads, "no_path_leads", "the file has no path here, so its residency cannot be queried", was "no path leads to the file from here, so it cannot be asked";
    /// The file cannot be opened, is on FUSE, or was replaced.
    CannotOpen, "cannot_open", "it cannot be opened, is on FUSE (see `cachewise files`), or was replaced by another file", was "it cannot be opened, is on FUSE (see `cachewise files`), or another file has replaced it";
    /// The query failed.
    ResidencyNotRead, "residency_not_read", "its residency cannot be read";
    /// Residency of a file in the plan is unknown.
    PlanResidencyUnknown, "plan_residency_unknown", "residency of a file in the plan is unknown", was "nobody can say what is resident";
    /// This user may not see the file's residency.
    HiddenFromUser, "hidden_from_user", "residency is unknown to this user";

    /// Only a parent gets the exit status.
    NotAParent, "not_a_parent", "only the parent process gets the exit status", was "only a parent learns how a process ended";
    /// The wait status has neither.
    NoWaitStatus, "no_wait_status", "the kernel reported neither a status nor a signal", was "the kernel gave neither a status nor a signal";
    /// The report was made while the process ran.
    EndNotRecorded, "end_not_recorded", "its end was not recorded";
    /// The process has not ended.
    StillRuns, "running", "still running";
    /// The process has ended.
    HasEnded, "has_ended", "it has ended";
    /// Kernel threads have no command line.
    NoCommandLine, "no_command_line", "it has none";
    /// /proc/PID/cmdline cannot be read.
    CommandLineNotRead, "command_line_not_read", "it cannot be read";
    /// The answer is on its way.
    AskedFor, "asked_for", "requested, not answered yet", was "asked for";
    /// The row is of several processes.
    NoSingleProcess, "no_single_process", "no single process";
    /// The row has no name.
    NoneInParticular, "none_in_particular", "unnamed", was "none in particular";
    /// The source does not report it.
    NotReported, "not_reported", "not reported";

    /// The group was removed.
    GroupGone, "group_gone", "the group was removed", was "the group is gone";
    /// systemd did not make the group.
    NoUnit, "no_unit", "the group does not belong to a systemd unit", was "the group is no unit's";
    /// Add a line for the file to the list of `--label`.
    NoLabel, "no_label", "no line of the list of labels matches the path";
    /// The group's path names no container.
    NoContainer, "no_container", "the group does not belong to a container";
    /// Neither the group's path nor its container's state names a pod.
    NoPod, "no_pod", "the group does not belong to a pod";
    /// Ask as root: the state of Docker, containerd, podman or CRI-O is readable by root only.
    RuntimeStateDenied, "runtime_state_denied", "only root may read the state of the container's runtime";
    /// The runtime keeps its state elsewhere, or the container is gone. In a container, see `CACHEWISE_HOST_ROOT`.
    RuntimeStateNotFound, "runtime_state_not_found", "no state of a container runtime here has the container";
    /// The runtime's state has the container, without this name.
    NotInRuntimeState, "not_in_runtime_state", "the container runtime's state does not have it";
    /// Neither the group nor its ancestors have a limit.
    NoMemoryLimit, "no_memory_limit", "neither the control group nor one above it has a memory limit";
    /// The group has no limit; an ancestor may have one.
    NoOwnLimit, "no_own_limit", "the group has no limit of its own";
    /// Mount a hierarchy with the memory controller.
    NoMemoryController, "no_memory_controller", "no control groups that account memory are mounted";
    /// The group was removed, or is outside this namespace.
    GroupNotSeen, "group_not_seen", "the control group was removed, or is not visible from here", was "the control group is gone, or not seen from here";
    /// The file with the limit cannot be read.
    LimitNotRead, "limit_not_read", "the control group's limit cannot be read";
    /// The group's files cannot be read.
    GroupNotRead, "group_not_read", "the group's files could not be read";
    /// `run`, `doctor` and `top` know who used a file; recordings and `serve` keep sums of each.
    ReadersNotKept, "readers_not_kept", "which groups read the file is not kept";
    /// Control groups of version 1 and 2 report different figures.
    NotInThisVersion, "not_in_this_version", "this version of control groups does not report it";
    /// Use control groups of version 2.
    NeedsVersion2, "needs_version_2", "only groups of version 2 report pressure";
    /// Idle groups are read every half a minute.
    ReadBefore, "read_before", "read up to half a minute ago; the group has been idle since";
    /// The kernel reports it for the machine.
    ReportedForMachine, "reported_for_machine", "reported for the whole machine only";
    /// The kernel counts it for the machine.
    CountedForMachine, "counted_for_machine", "counted for the whole machine only";
    /// The machine's row does not have it.
    GroupsOnly, "groups_only", "only control groups have it";
    /// A later kernel counts it.
    NotCounted, "not_counted", "this kernel does not count it";
    /// A later kernel reports it.
    NotByKernel, "not_by_kernel", "this kernel does not report it";
    /// A later kernel reports the parts.
    NotToldApart, "not_told_apart", "this kernel does not count it separately", was "this kernel does not tell it apart";
    /// Boot with psi=1, or build the kernel with CONFIG_PSI.
    NoPressure, "no_pressure", "this kernel has no pressure stall information";
    /// /proc/self/fdinfo reports the memory of BPF maps.
    FdinfoNotRead, "fdinfo_not_read", "/proc/self/fdinfo cannot be read";
    /// tmpfs, network file systems and overlayfs have none.
    NoBlockDevice, "no_block_device", "the file system has no block device";
    /// Device counters come from /proc/diskstats.
    DiskstatsNotRead, "diskstats_not_read", "/proc/diskstats cannot be read";
    /// Only used files have counts.
    NoFilesUsed, "no_files_used", "no file on it was used";

    /// The recording was made by another version of cachewise, which did not record the value.
    OtherVersion, "other_version", "this recording does not have it: another version of cachewise made it";
    /// The recording was made by another version of cachewise, whose reason this version does not know.
    OtherReason, "other_reason", "for a reason that this version of cachewise does not know";
    /// The recording was made by an earlier version of cachewise.
    UnservedNotCounted, "unserved_not_counted", "the version of cachewise that made this recording counted failed and short requests as served";
    /// The recording is damaged, or an older part of it is gone.
    NothingBefore, "nothing_before", "nothing before it can be read";
    /// The recording is damaged.
    NothingAfter, "nothing_after", "nothing after it can be read";

    /// `--no-latency` was given, or the engine has none.
    NoLatencies, "no_latencies", "latencies were not recorded";
    /// The workload had no operation of this kind.
    NoSuchOperation, "no_such_operation", "there was no such operation";
    /// The benchmark ran without a memory limit.
    NoLimitedGroup, "no_limited_group", "it ran without a memory limit of a control group", was "it ran in no control group with a limit of memory";
    /// The kernel counts it for the machine, and other programs add to it.
    WholeMachine, "whole_machine", "counted for the whole machine, not for this run alone", was "of the whole machine, not of this run alone";
    /// A read that does not wait is a hit, whatever served it.
    ByNowait, "by_nowait", "from RWF_NOWAIT alone, which counts a read from a fast device as a hit: cachestat(2), since Linux 6.5, does not report what was resident", was "from RWF_NOWAIT alone, which counts a read from a fast device as a hit: cachestat(2), since Linux 6.5, does not tell what was there";
    /// Major faults of the thread are misses.
    ByMajorFaults, "by_major_faults", "from major faults of the thread, checked after slow operations", was "from major faults of the thread, looked at after operations that took long";
    /// Device reads of the thread are misses. Engine nowait is exact.
    ByDeviceReads, "by_device_reads", "from device reads of the thread, checked after slow operations; engine nowait is exact";
    /// The workload's operations are neither hits nor misses.
    HitsUnknown, "hits_unknown", "it bypasses the page cache, writes, or records no latencies: hits are unknown";
    /// The engine reports whole operations.
    PartsNotReported, "parts_not_reported", "this engine does not report parts of an operation";
    /// No memory hog ran.
    NoMemoryTaken, "no_memory_taken", "no memory hog ran", was "nothing was to take memory";

    /// The notes below the table have the reason.
    SeeNotes, "see_notes", "see the notes";
    /// Build the program with debug information.
    NoDebugInformation, "no_debug_information", "no debug information";
    /// The address is in no function of the symbol table.
    NoSymbol, "no_symbol", "no symbol";
    /// There were no accesses.
    NoAccesses, "no_accesses", "there were none";
    /// No comparison was made.
    NothingCompared, "nothing_compared", "nothing was compared";
    /// The thread's name was not read in time.
    EndedUnnamed, "ended_unnamed", "it ended before its name was read", was "it ended before it was asked";
    /// Virtual machines often hide caches.
    NoSuchCache, "no_such_cache", "sysfs lists no such cache", was "sysfs tells of no such cache";
    /// The measured curve has fewer levels than sysfs.
    NoSuchLevel, "no_such_level", "the curve has no such level";
    /// Measure larger sizes.
    NotReached, "not_reached", "no size that large was measured", was "nothing so large was measured";
    /// Memory is the last level.
    NoNextLevel, "no_next_level", "memory has no next level";
    /// The row is of another kind.
    NotOfThisRow, "not_of_this_row", "not of this kind of row";
    /// The kernel or the virtual machine hides it.
    NotInSysfs, "not_in_sysfs", "sysfs does not report it here", was "sysfs does not tell it here";

    /// `cachewise-tier verify` compares contents.
    VerifyCompares, "verify_compares", "only verify compares";
    /// Blocks have rows of their own.
    BlocksOfTiers, "blocks_of_tiers", "operations read blocks from tiers, which have rows of their own", was "an operation is answered with blocks of tiers, which have rows of their own";
    /// The row is of no node.
    NodesOnly, "nodes_only", "only nodes of the engine have it";
    /// The row is of no tier.
    TiersOnly, "tiers_only", "only tiers have it";
    /// The row is of no operation.
    OperationsOnly, "operations_only", "only operations have it";
    /// The node was not asked, or did not answer.
    NeverAnswered, "never_answered", "it received no request, or never responded", was "it was not asked, or never answered";
    /// Hedged requests are off.
    NoHedging, "no_hedging", "hedged requests are off", was "no second node is asked";
    /// The cache has no cache servers.
    NoEngine, "no_engine", "no cache servers are configured", was "there is no engine";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn codes_and_words_are_unique_and_documented() {
        let mut seen = HashSet::new();
        for reason in Reason::ALL {
            let code = reason.code();
            assert!(
                code.bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')),
                "{code}: snake_case"
            );
            assert!(seen.insert(code), "{code} is one reason");
            for words in reason.texts().skip(1) {
                assert!(seen.insert(words), "{code} alone has the words: {words}");
            }
            assert!(
                reason.help().ends_with('.') && !reason.words().is_empty(),
                "{code} is documented"
            );
        }
    }

    #[test]
    fn find_takes_codes_and_words_of_every_version() {
        for reason in Reason::ALL {
            for text in reason.texts() {
                assert_eq!(Reason::find(text), Some(*reason), "{text}");
            }
        }
        for (former, reason) in [
            ("the size of a page is not told", Reason::PageSizeUnknown),
            ("all but the most active, summed up", Reason::SummedUp),
            (
                "nobody can say what is resident",
                Reason::PlanResidencyUnknown,
            ),
        ] {
            assert_eq!(Reason::find(former), Some(reason), "an earlier version");
            assert_ne!(reason.words(), former, "the words have changed");
        }
        assert_eq!(Reason::find("made up by a later version"), None);
    }
}
