//! Causes of evictions: one table of names and explanations, of which docs/counting.md has a copy.

macro_rules! causes {
    ($($(#[doc = $help:literal])+ $variant:ident, $id:literal, $words:literal;)+) => {
        /// Cause of the eviction of pages.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EvictionCause {
            $($(#[doc = $help])+ $variant,)+
        }

        impl EvictionCause {
            /// Every cause. The kernel's side numbers them in this order, without the last.
            pub const ALL: &'static [EvictionCause] = &[$(EvictionCause::$variant),+];

            /// The name in machine formats. It stays the same in later versions.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(EvictionCause::$variant => $id,)+ }
            }

            /// The cause in a few words.
            #[must_use]
            pub const fn words(self) -> &'static str {
                match self { $(EvictionCause::$variant => $words,)+ }
            }

            /// The calls and events that evict pages for this cause.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(EvictionCause::$variant => concat!($($help),+).trim_ascii(),)+ }
            }
        }
    };
}

causes! {
    /// A call that is none of these, such as one of a 32-bit program.
    Unknown, "unknown", "unknown cause";
    /// A process whose control group reached its memory limit, or that lowered the limit.
    GroupLimit, "group_limit", "group limit";
    /// A process that needed memory when the machine was short of it.
    DirectReclaim, "direct_reclaim", "direct reclaim";
    /// Background reclaim, for all processes that use memory; the kernel does not name one.
    Kswapd, "kswapd", "kswapd";
    /// A write to memory.reclaim or memory.force_empty.
    ProactiveReclaim, "proactive_reclaim", "proactive reclaim";
    /// truncate, ftruncate, open with O_TRUNC, fallocate that removes a range, MADV_REMOVE.
    Truncation, "truncation", "truncation";
    /// The end of the file: its last link and descriptor are gone.
    Unlink, "unlink", "unlink";
    /// fadvise or madvise, or a read with RWF_DONTCACHE.
    Advice, "advice", "advice";
    /// A write to /proc/sys/vm/drop_caches.
    DropCaches, "drop_caches", "drop_caches";
    /// A change of the data below: direct writes, reflinks, ioctls, FUSE at open.
    Invalidation, "invalidation", "invalidation";
    /// Unmounting, or closing the last descriptor of a block device.
    Release, "release", "unmount or close of the device";
    /// DAMON, the kernel's monitor of memory accesses: its thread `kdamond` pages out idle memory.
    Damon, "damon", "DAMON";
}

impl EvictionCause {
    /// The cause with the number of the kernel's side, of pages that a process evicted or a kernel thread.
    ///
    /// The kernel's side numbers DAMON as proactive reclaim. Writes to control files are calls of processes, and
    /// kernel threads make none: proactive reclaim by a kernel thread is DAMON's.
    #[must_use]
    pub fn from_number(number: u32, by_process: bool) -> Option<EvictionCause> {
        let index = usize::try_from(number).ok()?;
        match Self::ALL.get(index).copied()? {
            EvictionCause::ProactiveReclaim if !by_process => Some(EvictionCause::Damon),
            cause => Some(cause),
        }
    }

    /// The cause of this name in machine formats.
    #[must_use]
    pub fn find(id: &str) -> Option<EvictionCause> {
        Self::ALL.iter().copied().find(|cause| cause.id() == id)
    }

    /// Returns whether memory reclaim evicts, because memory is needed or asked to be free.
    #[must_use]
    pub const fn is_reclaim(self) -> bool {
        matches!(
            self,
            EvictionCause::GroupLimit
                | EvictionCause::DirectReclaim
                | EvictionCause::Kswapd
                | EvictionCause::ProactiveReclaim
                | EvictionCause::Damon
        )
    }

    /// Returns whether reclaim evicts ahead of need, while memory may be free.
    #[must_use]
    pub const fn is_proactive(self) -> bool {
        matches!(self, EvictionCause::ProactiveReclaim | EvictionCause::Damon)
    }

    /// Returns whether the process that evicts is known by the kernel's event. It is not for kernel threads, which
    /// evict for all.
    #[must_use]
    pub const fn has_culprit(self) -> bool {
        !matches!(self, EvictionCause::Kswapd | EvictionCause::Damon)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::EvictionCause;

    #[test]
    fn every_cause_has_its_own_name_and_number() {
        let ids: HashSet<&str> = EvictionCause::ALL.iter().map(|cause| cause.id()).collect();
        assert_eq!(ids.len(), EvictionCause::ALL.len());
        for (number, cause) in EvictionCause::ALL.iter().enumerate() {
            let number = u32::try_from(number).expect("there are few causes");
            let by_process = cause.has_culprit();
            assert_eq!(EvictionCause::from_number(number, by_process), Some(*cause));
            assert_eq!(EvictionCause::find(cause.id()), Some(*cause));
            assert!(!cause.help().is_empty() && !cause.words().is_empty());
        }
        let beyond = u32::try_from(EvictionCause::ALL.len()).expect("there are few causes");
        assert_eq!(EvictionCause::from_number(beyond, true), None);
    }

    #[test]
    fn proactive_reclaim_by_a_kernel_thread_is_damon() {
        let number = EvictionCause::ProactiveReclaim as u32;
        assert_eq!(
            EvictionCause::from_number(number, false),
            Some(EvictionCause::Damon)
        );
        assert_eq!(
            EvictionCause::from_number(number, true),
            Some(EvictionCause::ProactiveReclaim)
        );
    }
}
