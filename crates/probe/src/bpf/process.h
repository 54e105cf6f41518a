/* SPDX-License-Identifier: GPL-2.0 */
/* The processes that are followed, and each process's own account. */
#ifndef CACHEWISE_PROCESS_H
#define CACHEWISE_PROCESS_H

/* Run once by the owner itself. */
SEC("raw_tp")
int meet_owner(void *context)
{
	CURRENT(trusted, task);
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid *upid = upid_of(pid, level);

	owner.tgid = task->tgid;
	owner.level = level;
	owner.namespace = (u64)BPF_CORE_READ(upid, ns);
	owner.since = bpf_ktime_get_ns();
	owner.mounts = (u64)BPF_CORE_READ(task, nsproxy, mnt_ns);
	owner.root_mount = (u64)BPF_CORE_READ(task, fs, root.mnt) - bpf_core_field_offset(struct mount, mnt);
	owner.root = (u64)BPF_CORE_READ(task, fs, root.dentry);
	return 0;
}

/*
 * Books what a thread has done since it was last booked; or since the probe came, of a thread that is
 * older. In SCOPE_SYSTEM only of processes that have had a row.
 */
static __noinline int settle(struct task_struct *task, struct task_state *state, bool book)
{
	static const struct process empty;
	struct process_id id = {};
	struct process *process;

	if (!state)
		return 0;
	/*
	 * A thread that has not run has done nothing. Of one that runs at this moment the kernel adds its time
	 * up at the next tick: one that ends may have done all that it ever did since the last.
	 */
	if (config.scope == SCOPE_SYSTEM && state->settled && !(task->flags & PF_EXITING) &&
	    state->cpu_time == task->se.sum_exec_runtime)
		return 0;
	if (book) {
		id.tgid = task->tgid;
		id.start = task->group_leader->start_time;
		process = bpf_map_lookup_elem(&processes, &id);
		if (!process && config.scope == SCOPE_TREE) {
			bpf_map_update_elem(&processes, &id, &empty, BPF_NOEXIST);
			process = bpf_map_lookup_elem(&processes, &id);
			if (!process)
				__sync_fetch_and_add(&lost.processes, 1);
		}
		if (!state->settled && task->start_time < owner.since)
			goto settled;
		if (!process)
			return 0;
#define SETTLE(field, value) __sync_fetch_and_add(&process->field, (value) - state->field)
		SETTLE(cpu_time, task->se.sum_exec_runtime);
		SETTLE(user_time, task->utime);
		SETTLE(system_time, task->stime);
		SETTLE(minor_faults, task->min_flt);
		SETTLE(major_faults, task->maj_flt);
		SETTLE(rchar, task->ioac.rchar);
		SETTLE(wchar, task->ioac.wchar);
		SETTLE(read_bytes, task->ioac.read_bytes);
		SETTLE(write_bytes, task->ioac.write_bytes);
		SETTLE(cancelled_write_bytes, task->ioac.cancelled_write_bytes);
#undef SETTLE
		identify(process, task);
	}
settled:
	state->settled = 1;
	state->cpu_time = task->se.sum_exec_runtime;
	state->user_time = task->utime;
	state->system_time = task->stime;
	state->minor_faults = task->min_flt;
	state->major_faults = task->maj_flt;
	state->rchar = task->ioac.rchar;
	state->wchar = task->ioac.wchar;
	state->read_bytes = task->ioac.read_bytes;
	state->write_bytes = task->ioac.write_bytes;
	state->cancelled_write_bytes = task->ioac.cancelled_write_bytes;
	return 0;
}

/* Followed tasks that have been made and have not ended, or ended out of scope. */
u32 alive = 0;

SEC("raw_tp/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *raw_parent, struct task_struct *raw_child)
{
	struct task_struct *parent = PLAIN(task_struct, raw_parent);
	struct task_struct *child = PLAIN(task_struct, raw_child);

	u32 of_child = READ(child, tgid), of_parent = READ(parent, tgid);

	/* of a thread its group's bit is its own */
	if (of_child != of_parent)
		follow(of_child, is_followed(of_parent) || (config.children && of_parent == owner.tgid));
	if (is_followed(of_child))
		__sync_fetch_and_add(&alive, 1);
	return 0;
}

/* Tasks in scope that are on their way out: their times are booked when they give up their CPU for the last time. */
u32 leaving = 0;

SEC("raw_tp/sched_process_exit")
int BPF_PROG(on_exit)
{
	CURRENT(trusted, task); /* is the one that leaves */
	struct task_state *state;
	struct process_id id = {};
	struct process *process;

	if (!in_scope(task))
		return 0;
	state = state_of(trusted);
	if (state && ((state->pending.mapping && flush_first(state)) || is_due(state)))
		settle_and(ctx, state, EXIT);
	__sync_fetch_and_add(&leaving, 1);
	/* no fork is seen of the kernel's own workers */
	if (config.scope == SCOPE_TREE && !(task->flags & (PF_IO_WORKER | PF_USER_WORKER)))
		__sync_fetch_and_sub(&alive, 1);
	if (!state)
		return 0;
	check_ended(state->call_mapping);
	check_ended(state->device_inode);
	if (config.detail == DETAIL_TOTALS)
		return 0;
	settle(task, state, true);
	if (task->signal->live.counter > 0)
		return 0;
	id.tgid = task->tgid;
	id.start = task->group_leader->start_time;
	process = bpf_map_lookup_elem(&processes, &id);
	if (process) {
		process->exit_code = task->exit_code;
		process->exited = 1;
	}
	return 0;
}

#endif
