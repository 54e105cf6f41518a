/* SPDX-License-Identifier: GPL-2.0 */
/* Types that the census and user space share: the query, its progress, and the record of an inode. */
#ifndef CACHEWISE_CENSUS_H
#define CACHEWISE_CENSUS_H

#include "ledger.h" /* struct file_id, NAMES_MAX */

enum inode_flags {
	INODE_DELETED = 1,  /* it has no link any more */
	INODE_MAPPED = 2,   /* some process has it mapped */
	INODE_WRITERS = 4,  /* open for writing */
	INODE_LABELLED = 8, /* never had a path: `names` is the kernel's label (memfd:x) */
	INODE_CUT = 16,	    /* `names` is only the end of its path */
	INODE_CLEAN = 32,   /* no page is dirty or under writeback, no entry remembers an evicted one */
};

#define TYPE_MAX 32

/* An inode that has pages in the cache, or (pages 0) had some that reclaim took. */
struct cached_inode {
	struct file_id id;
	u64 address; /* tells inodes apart, within one census */
	u64 pages;
	u64 size;
	u32 super_dev;
	u32 super_block; /* the number of its super block in this census */
	u32 mode;
	u32 links;
	u32 references;
	u32 flags;
	char fs_type[TYPE_MAX]; /* of the file system */
	u32 length;	       /* bytes used of names; 0: the inode has no name */
	char names[2 * NAMES_MAX + 256]; /* its directory's, that one's, ..., and last its own; NUL after each */
};

/* Result of a run. */
enum census_state {
	CENSUS_DONE,
	CENSUS_MORE,  /* run again */
	CENSUS_FULL,  /* empty the ring, and run again */
	CENSUS_AGAIN, /* the list of super blocks changed under the walk: collect again */
};

/* User space sets the first part before a run and reads the rest after it. */
struct census {
	u32 budget;	/* steps that a run may make, about one an inode */
	u32 budget_ns;	/* time that it may take */
	u32 cached;	/* report inodes that have pages */
	u32 evicted;	/* report those that have none left, but had */
	u32 names;	/* with their names */
	u32 pad;

	u64 supers;	/* super blocks found */
	u64 inodes;	/* visited, again after going back included */
	u64 recoveries; /* times that the inode of the walk's position left its list */
	u64 restarts;	/* times that a list had to be begun anew */
	u64 overflow;	/* 1: there are more super blocks than room for them */
	u64 total_ns;	/* in the kernel, all runs */
	u64 longest_ns; /* the longest of them */
};

#endif
