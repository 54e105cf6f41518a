/* SPDX-License-Identifier: GPL-2.0 */
/* Identity of a process as its observer sees it, and the table of processes that have had a row. */
#ifndef CACHEWISE_IDENTITY_H
#define CACHEWISE_IDENTITY_H

/* The process that the probe is for. Process ids are numbers of its PID namespace to user space. */
struct owner {
	u64 namespace;
	u32 level;
	u32 tgid;
	u64 since; /* when it came, on the monotonic clock */
	u64 mounts, root_mount, root; /* addresses: its mount namespace, and its root there */
} owner = {};

static __always_inline struct upid *upid_of(struct pid *pid, u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

/* The owner's id for the thread group of a task, given by its address; 0: the owner has none. */
ONCE u32 seen_tgid(u64 *address)
{
	struct task_struct *task;
	struct pid *pid;
	struct upid *upid;

	if (!address)
		return 0;
	task = PLAIN(task_struct, (void *)*address);
	if (!owner.level)
		return READ(task, tgid);
	pid = PEEK2(task, group_leader, thread_pid);
	upid = upid_of(pid, owner.level);
	if (PEEK1(pid, level) < owner.level || (u64)PEEK1(upid, ns) != owner.namespace)
		return 0;
	return PEEK1(upid, nr);
}

/* Records the identity of a process, given one of its threads. */
static __always_inline void identify(struct process *process, struct task_struct *task)
{
	u64 address = (u64)task;

	process->pid = seen_tgid(&address);
	address = (u64)task->real_parent;
	process->parent = seen_tgid(&address);
	process->cgroup = cgroup_id_of(task);
	bpf_probe_read_kernel(process->comm, sizeof(process->comm), task->group_leader->comm);
}

/*
 * Enters the current process in the table of those that have a row. Called when a row is made, so that a
 * process is known even if it ends before user space reads the table. settle() books the resources that it
 * uses, at its end or when a walk reaches it.
 */
ONCE int meet(void)
{
	CURRENT(trusted, task);
	struct cpu *cpu = this_cpu();
	static const struct process empty;
	struct process_id id = {};
	struct process *process;

	if (!cpu)
		return 0;
	id.tgid = task->tgid;
	id.start = task->group_leader->start_time;
	if (cpu->met_tgid == id.tgid && cpu->met_start == id.start)
		return 0;
	if (!bpf_map_lookup_elem(&processes, &id)) {
		bpf_map_update_elem(&processes, &id, &empty, BPF_NOEXIST);
		process = bpf_map_lookup_elem(&processes, &id);
		if (process)
			identify(process, task);
		else
			__sync_fetch_and_add(&lost.processes, 1);
	}
	cpu->met_tgid = id.tgid;
	cpu->met_start = id.start;
	return 0;
}

/* SCOPE_TREE needs no entry here: following a process has entered it. */
static __always_inline void meet_row(void)
{
	if (config.scope == SCOPE_SYSTEM)
		meet();
}

#endif
