/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel types that the programs look into, and of each only the members that they read.
 * CO-RE relocates by member name when the object is loaded, so neither order nor size matters here
 * and one object serves every kernel that has these names. `___suffix` flavours are the names that
 * some kernels use for the same thing.
 */
#ifndef CACHEWISE_KERNEL_H
#define CACHEWISE_KERNEL_H

#define __VMLINUX_H__ 1 /* bpf_tracing.h: pt_regs has the kernel's own member names */

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef __u16 __be16, __le16;
typedef __u32 __be32, __wsum;
typedef __u64 __be64;
typedef _Bool bool;
typedef long long loff_t;
typedef unsigned long size_t;
typedef long ssize_t;
typedef u32 dev_t;
typedef unsigned short umode_t;

#define true 1
#define false 0
#define NULL ((void *)0)
#define CORE __attribute__((preserve_access_index))

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#define EPERM 1
#define EIO 5
#define ENXIO 6
#define EBADF 9
#define EAGAIN 11
#define ENOMEM 12
#define EACCES 13
#define EFAULT 14
#define EEXIST 17
#define EISDIR 21
#define EINVAL 22
#define ETXTBSY 26
#define EFBIG 27
#define ESPIPE 29
#define EROFS 30
#define EOPNOTSUPP 95
#define ENOBUFS 105
#define ECANCELED 125
#define EIOCBQUEUED 529

#define S_IFMT 0170000
#define S_ISREG(mode) (((mode) & S_IFMT) == 0100000)
#define S_ISBLK(mode) (((mode) & S_IFMT) == 0060000)
#define MAX_RW_COUNT 0x7ffff000ULL /* the most that one call moves */
#define O_CREAT 0100
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define BTRFS_SUPER_MAGIC 0x9123683E
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define PROC_SUPER_MAGIC 0x9fa0

/* task_struct.__state; the first is also a part of TASK_KILLABLE */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_DEAD 0x80

/* task_struct.flags */
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x4000 /* since 6.4; io_uring's workers have it too */
#define PF_MEMALLOC 0x00000800
#define PF_KSWAPD 0x00020000
#define PF_KTHREAD 0x00200000

/* Only the values' names count: they are relocated (bpf_core_enum_value). */
enum pageflags { PG_uptodate = 1, PG_head = 2, PG_swapbacked = 3 };
enum mapping_flags { AS_FOLIO_ORDER_MIN = 1, AS_FOLIO_ORDER_MAX = 2 }; /* 6.12 and later */
enum mapping_flags___large { AS_LARGE_FOLIO_SUPPORT = 1 };		 /* before */
enum cgroup_subsys_id { memory_cgrp_id = 1 };

struct hlist_node {
	struct hlist_node *next;
} CORE;
struct hlist_head {
	struct hlist_node *first;
} CORE;

struct qstr {
	u64 hash_len;
	u32 len;
	const unsigned char *name;
} CORE;
struct seqcount {
	u32 sequence;
} CORE;
struct seqcount_spinlock {
	struct seqcount seqcount;
} CORE;
struct hlist_bl_node {
	struct hlist_bl_node **pprev;
} CORE;
struct dentry {
	struct seqcount_spinlock d_seq; /* changes when its name or its parent does; odd meanwhile */
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
} CORE;

typedef struct {
	u8 b[16];
} uuid_t;
struct gendisk {
	u64 diskseq; /* raised whenever other data comes into the device */
} CORE;
struct block_device {
	struct gendisk *bd_disk;
	dev_t bd_dev;
} CORE;
struct backing_dev_info {
	u64 id; /* never used twice */
	unsigned long ra_pages, io_pages;
} CORE;
struct file_system_type {
	const char *name;
} CORE;
struct list_head {
	u64 next, prev; /* addresses; the layout is the same on every kernel */
};
struct mount;
struct super_block;
struct super_block {
	dev_t s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
	struct dentry *s_root;
	struct block_device *s_bdev;
	struct backing_dev_info *s_bdi;
	struct file_system_type *s_type;
	struct mount *s_mounts; /* 6.18 and later */
	uuid_t s_uuid;
} CORE;
struct super_block___listed {
	struct list_head s_mounts;
} CORE;
#define SB_ACTIVE (1UL << 30) /* not so while it is being unmounted */
struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
} CORE;
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct mount *mnt_next_for_sb; /* 6.18 and later */
	void *mnt_ns;
} CORE;
struct mount___listed {
	struct list_head mnt_instance;
} CORE;
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} CORE;
struct fs_struct {
	struct path root;
} CORE;
struct nsproxy {
	void *mnt_ns;
} CORE;
struct address_space;
struct inode {
	umode_t i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	unsigned int i_nlink;
	dev_t i_rdev;
	loff_t i_size;
	u32 i_generation;
	struct {
		int counter;
	} i_count;
	struct hlist_head i_dentry;
} CORE;
struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
} CORE;
struct address_space_operations {
	void *read_folio;
} CORE;
struct address_space {
	struct inode *host;
	unsigned long nrpages;
	unsigned long flags;
	struct address_space_operations *a_ops;
	struct {
		void *xa_head;
	} i_pages;
} CORE;
struct xa_node {
	unsigned char shift;
	void *slots[64];
} CORE;
struct file_ra_state {
	unsigned int ra_pages;
	loff_t prev_pos;
} CORE;
#define FMODE_RANDOM (1 << 12)
struct file {
	unsigned int f_flags;
	unsigned int f_mode;
	struct file_ra_state f_ra;
	struct inode *f_inode;
	struct path f_path;
	struct address_space *f_mapping;
	loff_t f_pos;
} CORE;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} CORE;
struct files_struct {
	struct fdtable *fdt;
} CORE;

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1;
	unsigned long memcg_data; /* the group that it is charged to, with flags in the lowest bits */
} CORE;
struct folio___sized {
	unsigned int _nr_pages;	      /* 6.14 and later */
	unsigned int _folio_nr_pages; /* 5.17 to 6.13, 64-bit */
} CORE;

struct kernfs_node {
	u64 id;
} CORE;
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[0];
} CORE;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CORE;
struct mem_cgroup {
	struct cgroup_subsys_state css;
} CORE;
struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
} CORE;

struct task_io_accounting {
	u64 rchar, wchar, syscr, syscw, read_bytes, write_bytes, cancelled_write_bytes;
} CORE;
struct thread_info {
	u32 status;
} CORE;
struct sched_entity {
	u64 sum_exec_runtime;
} CORE;
struct sched_info {
	unsigned long long run_delay; /* nanoseconds on run queues */
} CORE;
struct signal_struct {
	struct {
		int counter;
	} live; /* threads that have not ended */
} CORE;
struct upid {
	int nr;
	void *ns;
} CORE;
struct pid {
	unsigned int level; /* 0: of the first namespace; and so deep are the others */
	struct upid numbers[0];
} CORE;
struct mm_struct {
	unsigned long exec_vm;	   /* executable pages that are not writable */
	unsigned long start_stack; /* of the first thread: its arguments are there, above all of its frames */
} CORE;
struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid, tgid;
	int exit_code, on_cpu;
	u64 utime, stime, start_time;
	unsigned long min_flt, maj_flt;
	struct task_struct *real_parent, *group_leader;
	char comm[16];
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	struct files_struct *files;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct pid *thread_pid;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned int in_iowait : 1;
	struct task_io_accounting ioac;
	void *io_uring;	      /* set once a task uses io_uring */
	void *worker_private; /* of an io_uring worker: its struct io_worker */
} CORE;
struct pt_regs { /* part of the ABI: not relocated */
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct kiocb {
	struct file *ki_filp;
	loff_t ki_pos;
	void *ki_complete; /* NULL: a call waits for it */
} CORE;
struct iov_iter {
	size_t count;
	u8 data_source; /* a bool */
} CORE;

struct bvec_iter {
	unsigned int bi_size;
} CORE;
struct bio {
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	unsigned short bi_flags;
	struct bvec_iter bi_iter;
} CORE;
/* From an anonymous enum, so not relocatable: 0 since 6.5. */
#define BIO_PAGE_PINNED 0
#define BIO_CLONED 1

struct io_cqe {
	u64 user_data;
	s32 res;
	int fd;
} CORE;
struct io_rsrc_node {
	unsigned long file_ptr;
} CORE;
struct io_rsrc_data {
	unsigned int nr;
	struct io_rsrc_node **nodes;
} CORE;
struct io_file_table {
	struct io_rsrc_data data;
} CORE;
struct io_ring_ctx {
	struct io_file_table file_table;
} CORE;
/* before 6.13 */
struct io_fixed_file {
	unsigned long file_ptr;
} CORE;
struct io_file_table___array {
	struct io_fixed_file *files;
} CORE;
struct io_ring_ctx___array {
	unsigned int nr_user_files;
	struct io_file_table___array file_table;
} CORE;
struct io_cmd_data {
	struct file *file;
} CORE;
struct io_wq_work {
	int cancel_seq;
} CORE;
struct io_worker {
	struct io_wq_work *cur_work;
} CORE;
struct io_kiocb {
	struct io_cmd_data cmd;
	u8 opcode;
	u64 flags;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	struct io_wq_work work;
} CORE;
struct io_rw {
	struct kiocb kiocb;
	u64 addr;
	u32 len;
} CORE;
struct io_splice {
	loff_t off_out, off_in;
	u64 len;
	int splice_fd_in;
	unsigned int flags;
} CORE;

struct btrfs_root {
	dev_t anon_dev;
} CORE;
struct extent_io_tree {
	u8 owner;
} CORE;
struct btrfs_inode {
	struct btrfs_root *root;
	struct extent_io_tree io_tree;
	struct inode vfs_inode;
} CORE;

struct readahead_control {
	struct address_space *mapping;
	unsigned long _index;
} CORE;
struct vm_area_struct {
	struct file *vm_file;
} CORE;
struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long pgoff;
} CORE;
struct iomap_dio {
	struct kiocb *iocb;
	loff_t i_size, size;
	int error;
} CORE;

struct bpf_iter__task {
	struct task_struct *task;
} CORE;

#endif
