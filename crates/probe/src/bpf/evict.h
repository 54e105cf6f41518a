/* SPDX-License-Identifier: GPL-2.0 */
/* Evictions by cause and by the process that evicts. */
#ifndef CACHEWISE_EVICT_H
#define CACHEWISE_EVICT_H

/* Evicted pages; allocated at the start, and with intervals in two tables, as rows are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct eviction_key);
	__type(value, u64);
} evictions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct eviction_key);
	__type(value, u64);
} evictions_other SEC(".maps");

/* Names of processes that evicted pages, by id with cgroup 0. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct process_id);
	__type(value, struct culprit);
} culprits SEC(".maps");

/*
 * The cause of the reclaim that a task is in, by the task's address. Not in the state of the task: most tasks that
 * reclaim have none, and memory is short then. A task that finds the table full evicts for an unknown cause.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, u32);
} reclaims SEC(".maps");

static __always_inline bool is_write_call(u32 nr)
{
	return call_kind(nr) & CALL_WRITE;
}

/* Does the task write to a control file that asks for reclaim, and not to one that lowers a limit? */
static __always_inline bool is_request_to_reclaim(struct task_struct *trusted, struct task_struct *task)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	static const char of_group[] = "memory.reclaim", of_group_v1[] = "memory.force_empty";
	static const char of_node[] = "reclaim";
	struct file *file;
	char name[24] = {};

	if (!is_write_call(syscall_nr(task, regs)) || !(file = file_of_fd(task, ARG1(regs))))
		return false;
	bpf_probe_read_kernel_str(name, sizeof(name), READ(file, f_path.dentry, d_name.name));
	return !bpf_strncmp(name, sizeof(name), of_group) || !bpf_strncmp(name, sizeof(name), of_group_v1) ||
	       !bpf_strncmp(name, sizeof(name), of_node);
}

static __always_inline int reclaim_begins(u32 cause)
{
	CURRENT(trusted, task);
	u64 self = (u64)task;

	if (is_request_to_reclaim(trusted, task))
		cause = CAUSE_PROACTIVE_RECLAIM;
	bpf_map_update_elem(&reclaims, &self, &cause, BPF_ANY);
	return 0;
}

SEC("raw_tp/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(on_group_reclaim)
{
	return reclaim_begins(CAUSE_GROUP_LIMIT);
}

SEC("raw_tp/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(on_direct_reclaim)
{
	return reclaim_begins(CAUSE_DIRECT_RECLAIM);
}

SEC("raw_tp/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(on_reclaim_end)
{
	u64 self = (u64)bpf_get_current_task();

	bpf_map_delete_elem(&reclaims, &self);
	return 0;
}

/* Calls whose arguments decide the cause. */
enum { BY_OPEN = 64, BY_OPEN_HOW, BY_READ, BY_WRITE, BY_ADVICE };

static const u8 call_causes[CALLS] = {
	[NR_write] = BY_WRITE,
	[NR_pwrite] = BY_WRITE,
	[NR_writev] = BY_WRITE,
	[NR_pwritev] = BY_WRITE,
	[NR_pwritev2] = BY_WRITE,
	[NR_preadv2] = BY_READ,
	[NR_open] = BY_OPEN,
	[NR_openat] = BY_OPEN,
	[NR_openat2] = BY_OPEN_HOW,
	[NR_creat] = CAUSE_TRUNCATION,
	[NR_truncate] = CAUSE_TRUNCATION,
	[NR_ftruncate] = CAUSE_TRUNCATION,
	[NR_fallocate] = CAUSE_TRUNCATION,
	[NR_fadvise] = CAUSE_ADVICE,
	[NR_madvise] = BY_ADVICE,
	[NR_process_madvise] = CAUSE_ADVICE,
	[NR_io_submit] = CAUSE_INVALIDATION,
	[NR_copy_file_range] = CAUSE_INVALIDATION,
	[NR_ioctl] = CAUSE_INVALIDATION,
};

#define MADV_REMOVE 9
#define RWF_DONTCACHE 0x80 /* 6.14 and later */

/* The cause by the system call that the task is in; CAUSE_UNKNOWN: it is none that evicts. */
static __always_inline u32 cause_of_call(struct task_struct *task, struct pt_regs *regs, u32 nr)
{
	u32 cause = CAUSE_UNKNOWN;
	struct file *file;
	u64 flags = 0;

	if (nr < CALLS) {
		barrier_var(nr);
		cause = call_causes[nr & (CALLS - 1)];
	}
	switch (cause) {
	case BY_OPEN:
		flags = nr == NR_open ? ARG2(regs) : ARG3(regs);
		return flags & O_TRUNC ? CAUSE_TRUNCATION : CAUSE_INVALIDATION;
	case BY_OPEN_HOW:
		bpf_probe_read_user(&flags, sizeof(flags), (void *)ARG3(regs));
		return flags & O_TRUNC ? CAUSE_TRUNCATION : CAUSE_INVALIDATION;
	case BY_READ:
		return ARG6(regs) & RWF_DONTCACHE ? CAUSE_ADVICE : CAUSE_UNKNOWN;
	case BY_ADVICE:
		return ARG3(regs) == MADV_REMOVE ? CAUSE_TRUNCATION : CAUSE_ADVICE;
	case BY_WRITE:
		file = file_of_fd(task, ARG1(regs));
		if (!file)
			return CAUSE_UNKNOWN;
		/* of /proc, drop_caches alone evicts without reclaim */
		if (READ(file, f_inode, i_sb, s_magic) == PROC_SUPER_MAGIC)
			return CAUSE_DROP_CACHES;
		return READ(file, f_flags) & O_DIRECT ? CAUSE_INVALIDATION : CAUSE_UNKNOWN;
	}
	return cause;
}

/* Likewise, by the request that a worker of io_uring executes. */
static __always_inline u32 cause_of_request(struct io_kiocb *req)
{
	u32 opcode = READ(req, opcode);

	switch (opcode) {
	case IORING_OP_FADVISE:
	case IORING_OP_MADVISE:
		return CAUSE_ADVICE;
	case IORING_OP_FALLOCATE:
	case IORING_OP_FTRUNCATE:
		return CAUSE_TRUNCATION;
	}
	return is_uring_write(opcode) ? CAUSE_INVALIDATION : CAUSE_UNKNOWN;
}

#define KDAMOND 0x646e6f6d61646bULL /* "kdamond", in seven bytes */

static __always_inline bool is_kdamond(struct task_struct *task)
{
	return task->flags & PF_KTHREAD && (peek((u64)task->comm) & ((1ULL << 56) - 1)) == KDAMOND;
}

/* The cause for which the current task evicts pages of the inode at this address. */
ONCE u32 cause_of(u64 *address)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u32 nr = syscall_nr(task, regs), cause = CAUSE_UNKNOWN, *reclaim;
	struct io_kiocb *req = request_at_work(task);
	struct inode *inode;
	u64 self = (u64)task;

	if (!address)
		return CAUSE_UNKNOWN;
	inode = PLAIN(inode, (void *)*address);
	if (task->flags & PF_KSWAPD)
		return CAUSE_KSWAPD;
	if (is_kdamond(task))
		return CAUSE_PROACTIVE_RECLAIM;
	if (task->flags & PF_MEMALLOC) {
		reclaim = bpf_map_lookup_elem(&reclaims, &self);
		if (reclaim)
			return *reclaim;
	}
	/* before the call: the last close of a file happens in any, and a file system is unmounted at its end */
	if (!(READ(inode, i_sb, s_flags) & SB_ACTIVE))
		return CAUSE_RELEASE;
	if (req)
		cause = cause_of_request(req);
	else if (nr != NR_none)
		cause = cause_of_call(task, regs, nr);
	/* other events in the same call as reclaim have no range of their own */
	if (task->flags & PF_MEMALLOC)
		return cause == CAUSE_ADVICE ? CAUSE_ADVICE : CAUSE_UNKNOWN;
	if (cause != CAUSE_UNKNOWN)
		return cause;
	if (!READ(inode, i_nlink))
		return CAUSE_UNLINK;
	/* a block device's pages go with its last descriptor, on the way out of close(2) or of the process */
	if (S_ISBLK(READ(inode, i_mode)) && (nr == NR_close || nr == NR_none))
		return CAUSE_RELEASE;
	return CAUSE_UNKNOWN;
}

/* Lower half of the id of the group that a folio is charged to; 0: to none. */
static __always_inline u32 group_charged(struct folio *folio)
{
	u64 group;

	if (!bpf_core_field_exists(struct folio, memcg_data))
		return 0;
	group = READ(folio, memcg_data) & ~7ULL;
	return group ? READ(PLAIN(mem_cgroup, (void *)group), css.cgroup, kn, id) : 0;
}

static __always_inline u64 *find_eviction(bool other, const struct eviction_key *key)
{
	return other ? bpf_map_lookup_elem(&evictions_other, key) : bpf_map_lookup_elem(&evictions, key);
}

static __always_inline long make_eviction(bool other, const struct eviction_key *key, const u64 *pages)
{
	return other ? bpf_map_update_elem(&evictions_other, key, pages, BPF_NOEXIST) :
		       bpf_map_update_elem(&evictions, key, pages, BPF_NOEXIST);
}

/* Enters the current process among those that evicted pages. */
ONCE int meet_culprit(void)
{
	CURRENT(trusted, task);
	struct culprit culprit = {};
	struct process_id id = {};
	u64 address = (u64)task, comm = (u64)task->group_leader->comm;
	struct cpu *cpu = this_cpu();

	id.tgid = task->tgid;
	id.start = task->group_leader->start_time;
	if (!cpu)
		return 0;
	if (cpu->culprit_tgid == id.tgid && cpu->culprit_start == id.start && cpu->culprit_round == naming_round &&
	    cpu->culprit_comm[0] == peek(comm) && cpu->culprit_comm[1] == peek(comm + sizeof(u64)))
		return 0;
	culprit.cgroup = cgroup_id_of(task);
	culprit.pid = seen_tgid(&address);
	bpf_probe_read_kernel(culprit.comm, sizeof(culprit.comm), task->group_leader->comm);
	bpf_map_update_elem(&culprits, &id, &culprit, BPF_ANY);
	cpu->culprit_tgid = id.tgid;
	cpu->culprit_start = id.start;
	cpu->culprit_round = naming_round;
	__builtin_memcpy(cpu->culprit_comm, culprit.comm, sizeof(culprit.comm));
	return 0;
}

/* Counts the folio at this address, which the current task evicts from the file of `victim`. */
ONCE int book_eviction(const struct row_key *victim, u64 address, u32 other)
{
	static const struct eviction_key overflow;
	CURRENT(trusted, task);
	struct folio *folio = PLAIN(folio, (void *)address);
	struct eviction_key key = {};
	u64 inode, count, *pages;

	if (!victim)
		return 0;
	count = folio_pages(folio);
	inode = (u64)READ(folio, mapping, host);
	key.file = victim->file;
	key.cause = cause_of(&inode);
	key.charged = group_charged(folio);
	if (!(task->flags & PF_KTHREAD))
		process_of(task, &key.culprit);
	pages = find_eviction(other, &key);
	if (!pages) {
		if (!make_eviction(other, &key, &count)) {
			if (!(task->flags & PF_KTHREAD))
				meet_culprit();
			return 0;
		}
		pages = find_eviction(other, &key);
		if (!pages) {
			/* the table is full; user space made this entry at the start, so that sums stay whole */
			__sync_fetch_and_add(&lost.rows, 1);
			pages = find_eviction(other, &overflow);
		}
	}
	if (pages)
		__sync_fetch_and_add(pages, count);
	return 0;
}

#endif
