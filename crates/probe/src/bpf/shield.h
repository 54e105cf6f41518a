/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs of the shield and user space exchange. */
#ifndef CACHEWISE_SHIELD_H
#define CACHEWISE_SHIELD_H

/* Pages of a file are noted by blocks: no folio of x86-64 crosses the boundary of one. */
#define BLOCK_SHIFT 9
#define BLOCK_PAGES (1 << BLOCK_SHIFT)
#define WORDS (BLOCK_PAGES / 64)

struct shield_config {
	u32 page_shift;
	u32 whole_machine; /* every task; else those that are followed, and those of the control group */
	u32 children;	   /* follow what the owner starts from now on */
	u32 cgroup_filter, cgroup_v1, cgroup_level;
	u64 cgroup_id;
	u32 by_name, padding;
	u64 name[2];	  /* of the followed programs, those whose process has this name */
	u64 stream_pages; /* of a file must have been inserted one after the other before its pages are noted */
};

/* A file, by the address of its mapping. */
struct shield_file {
	u64 inode;
	u32 device, generation;
	u64 magic;
	u32 epoch;   /* differs from that of an earlier file at the same address */
	u32 stopped; /* dropped pages are used again: its pages are not dropped any more */
	u32 pid, tgid; /* of the process that inserted its first page: as the owner sees it, and the kernel's own number */
	u64 next, run;	   /* whole_machine: the page that follows the latest insert, and the pages inserted in turn */
	u64 inserted, dropped;
	u64 returned; /* dropped pages that the program used again */
	u64 near;     /* dropped pages that were used again, by any process, and would still have been resident */
	u64 room;     /* pages that would stay in memory at most; 0: not known so far */
};

struct shield_key {
	u64 mapping;
	u64 block;
};

/* A bit for each page of a block. */
struct shield_block {
	u64 ours[WORDS];    /* inserted by the program, and resident since then */
	u64 passed[WORDS];  /* used by it, and it has gone on */
	u64 other[WORDS];   /* used by others since they were inserted */
	u64 again[WORDS];   /* the program came back to them after they were dropped */
	u64 written[WORDS]; /* written by it */
	u64 gone[WORDS];    /* dropped, and not used since */
	u64 touched;	    /* when the program used it last, on the monotonic clock */
	u64 dropped_at;	    /* pages that were inserted in all when pages of it were dropped last */
	u32 epoch, queued;
	u32 tgid, padding; /* whole_machine: the process that inserted its first page */
};

/* Pages. */
struct shield_totals {
	u64 inserted; /* by the program, into regular files */
	u64 noted;    /* of these, those that are dropped if the rule allows it */
	u64 dropped;  /* by the shield */
	u64 left;     /* reclaimed or cut off before */
	u64 returned, near;
	u64 needed;	/* dropped pages that others inserted again */
	u64 untracked;	/* inserted when a table was full */
	u64 never_open; /* inserted into files that are not opened: FUSE */
	u64 evicted;	/* pages of other files that the kernel reclaimed in the program's context */
	u64 lost;	/* records that did not fit into the ring */
};

/* Why a resident page that the program inserted stays. */
enum shield_reason {
	KEPT_OTHER,	/* used by another process */
	KEPT_AGAIN,	/* the program came back to it or to its file */
	KEPT_AHEAD,	/* not used by the program so far */
	KEPT_WRITTEN,	/* written by the program, and that is not to be dropped */
	KEPT_DIRTY,	/* not on the device so far */
	KEPT_WRITEBACK, /* on its way to the device */
	KEPT_LOCKED,	/* locked by the kernel, as while it is being read */
	KEPT_MLOCKED,
	KEPT_MAPPED,
	KEPT_IN_USE, /* the kernel holds a reference */
	KEPT_MIXED,  /* shares a folio with a page that stays */
	KEPT_REASONS,
};

/* Blocks of which pages may be resident at once: those of the table. */
#define LOOKED 16384

/* A block with resident pages of the program. */
struct shield_looked {
	u64 mapping, block;
	u64 touched;
	u32 ours, passed; /* pages; passed: of these, those that the program has passed */
};

enum shield_state { DECIDED, NO_BLOCK, OTHER_FILE };

struct shield_request {
	u64 mapping, block;
	u32 ahead;  /* pages that the program has not used are dropped too */
	u32 writes; /* written pages are dropped too */
	u32 held;   /* pages with a reference of the kernel's are dropped too, if it can be had back */
	u32 fd;
	u64 room;
};

struct shield_answer {
	u64 drop[WORDS];  /* whole folios */
	u64 write[WORDS]; /* to be written back */
	u32 kept[KEPT_REASONS];
	u32 state; /* enum shield_state */
	u32 ours, unpassed;
	u32 stopped, has_gone;
	u64 touched, dropped_at;
};

#endif
