/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Times of tasks: for what they wait, from the moment that they give up their CPU to the moment that they have one
 * again, less what they spent on a run queue in between: since the event that woke them, or by the kernel's account where
 * that event was not seen. The account alone is not enough: from Linux 6.12 on, a sleeping task that is moved to another
 * CPU before it has left its run queue (delayed dequeue) is charged for its sleep.
 */
#ifndef CACHEWISE_WAIT_H
#define CACHEWISE_WAIT_H

/* The time that a system call stands for that waits, and not for a device; 0: none. */
static const u8 waiting_calls[CALLS] = {
	[NR_read] = TIME_waited_peer_seconds,
	[NR_write] = TIME_waited_peer_seconds,
	[NR_readv] = TIME_waited_peer_seconds,
	[NR_writev] = TIME_waited_peer_seconds,
	[NR_splice] = TIME_waited_peer_seconds,
	[NR_sendfile] = TIME_waited_peer_seconds,
	[NR_poll] = TIME_waited_peer_seconds,
	[NR_ppoll] = TIME_waited_peer_seconds,
	[NR_select] = TIME_waited_peer_seconds,
	[NR_pselect6] = TIME_waited_peer_seconds,
	[NR_epoll_wait] = TIME_waited_peer_seconds,
	[NR_epoll_pwait] = TIME_waited_peer_seconds,
	[NR_epoll_pwait2] = TIME_waited_peer_seconds,
	[NR_connect] = TIME_waited_peer_seconds,
	[NR_accept] = TIME_waited_peer_seconds,
	[NR_accept4] = TIME_waited_peer_seconds,
	[NR_sendto] = TIME_waited_peer_seconds,
	[NR_recvfrom] = TIME_waited_peer_seconds,
	[NR_sendmsg] = TIME_waited_peer_seconds,
	[NR_recvmsg] = TIME_waited_peer_seconds,
	[NR_sendmmsg] = TIME_waited_peer_seconds,
	[NR_recvmmsg] = TIME_waited_peer_seconds,
	[NR_msgrcv] = TIME_waited_peer_seconds,
	[NR_semop] = TIME_waited_lock_seconds,
	[NR_semtimedop] = TIME_waited_lock_seconds,
	[NR_futex] = TIME_waited_lock_seconds,
	[NR_futex_waitv] = TIME_waited_lock_seconds,
	[NR_fcntl] = TIME_waited_lock_seconds,
	[NR_flock] = TIME_waited_lock_seconds,
	[NR_clone] = TIME_waited_children_seconds,
	[NR_clone3] = TIME_waited_children_seconds,
	[NR_vfork] = TIME_waited_children_seconds,
	[NR_wait4] = TIME_waited_children_seconds,
	[NR_waitid] = TIME_waited_children_seconds,
	[NR_pause] = TIME_slept_seconds,
	[NR_nanosleep] = TIME_slept_seconds,
	[NR_clock_nanosleep] = TIME_slept_seconds,
	[NR_io_uring_enter] = TIME_waited_async_seconds,
	[NR_io_getevents] = TIME_waited_async_seconds,
	[NR_io_pgetevents] = TIME_waited_async_seconds,
	/* whatever they wait for, a device too */
	[NR_fsync] = TIME_waited_sync_seconds,
	[NR_fdatasync] = TIME_waited_sync_seconds,
	[NR_msync] = TIME_waited_sync_seconds,
	[NR_sync] = TIME_waited_sync_seconds,
	[NR_syncfs] = TIME_waited_sync_seconds,
	[NR_sync_file_range] = TIME_waited_sync_seconds,
};

static __always_inline u32 waiting_call(u32 nr)
{
	if (nr >= CALLS)
		return 0;
	barrier_var(nr);
	return waiting_calls[nr & (CALLS - 1)];
}

/* A wait that begins. */
struct wait {
	u32 nr, kind, call, padding_of_call; /* the system call of the task */
	u64 mapping; /* of the file that it is for; 0: none, or not known */
	u32 cause;
	u32 uninterruptible;
	u32 has_read, padding; /* it has submitted reads to a device since its latest wait */
	u64 stack, stack_kind;
};

/* A read of file contents waits: for pages that it inserted itself, or for those of others. */
static __always_inline u32 wait_of_read(struct task_state *state, struct task_struct *task, struct wait *wait,
					u64 serial, u32 nr)
{
	bool inserted = false;

	if (!state)
		return TIME_waited_in_flight_seconds;
	if (state->pending.mapping && state->pending.serial == serial && state->pending.nr == nr) {
		wait->mapping = state->pending.mapping;
		inserted = state->pending_miss;
	}
	if (!inserted && state->read_result.open && state->read_result.call.serial == serial &&
	    state->read_result.call.nr == nr) {
		wait->mapping = state->read_result.call.mapping;
		inserted = state->read_result.misses;
	}
	if (!inserted)
		return TIME_waited_in_flight_seconds;
	return state->back_at == moment_of(task, nr) ? TIME_waited_refault_seconds : TIME_waited_missed_seconds;
}

/* Does the task wait for a device? */
static __always_inline bool in_iowait(struct task_struct *task)
{
#if BY_HELPER
	return BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
#else
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
#endif
}

/* The cause for which the current task gives up its CPU. */
ONCE u32 find_wait(struct task_state *state, struct wait *wait)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	bool device = in_iowait(task);
	u64 self = (u64)task, serial;
	struct file *file = NULL;
	u32 throttled = 0;

	if (!wait)
		return TIME_waited_other_seconds;

	/* in memory the verifier forgets them, and looks at what follows once */
	volatile u32 *nr = &wait->nr, *kind = &wait->kind, *call = &wait->call;

	*nr = syscall_nr(task, regs);
	*kind = call_kind(*nr);
	*call = waiting_call(*nr);
	if (state) {
		throttled = state->throttled;
		state->throttled = 0;
	}
	if (task->flags & PF_MEMALLOC && bpf_map_lookup_elem(&reclaims, &self))
		return TIME_waited_reclaim_seconds;
	if (device && throttled)
		return TIME_waited_throttle_seconds;
	if (state && state->fault_mapping && in_fault(state, task, state->fault_mapping)) {
		wait->mapping = state->fault_mapping;
		return state->back_at == moment_of(task, *nr) ? TIME_waited_refault_seconds : TIME_waited_fault_seconds;
	}
	if (task->flags & PF_IO_WORKER) {
		if (!device)
			return TIME_waited_other_seconds;
		return wait_of_read(state, task, wait, task->ioac.syscr, *nr);
	}
	if (*nr == NR_none)
		return device ? TIME_waited_swap_seconds : TIME_waited_other_seconds;
	/* mostly: a read waits for pages that it has inserted, whatever its descriptor is */
	if (device && *kind & CALL_READ && state && state->pending_miss && state->pending.nr == *nr &&
	    state->pending.mapping && state->pending.serial == task->ioac.syscr)
		return wait_of_read(state, task, wait, task->ioac.syscr, *nr);
	if (*kind & (CALL_READ | CALL_SPLICE | CALL_WRITE))
		file = file_of_fd(task, *nr == NR_sendfile ? ARG2(regs) : ARG1(regs));
	else if (*call == TIME_waited_sync_seconds && *nr != NR_sync && *nr != NR_msync)
		file = file_of_fd(task, ARG1(regs));
	if (file && !is_stacked(file))
		wait->mapping = (u64)READ(file, f_mapping);
	if (*call == TIME_waited_sync_seconds)
		return *call;
	if (file && wait->uninterruptible && READ(file, f_flags) & O_DIRECT && device)
		return TIME_waited_direct_seconds;
	if (*kind & CALL_WRITE && wait->uninterruptible && file && READ(file, f_flags) & O_DSYNC)
		return TIME_waited_sync_seconds;
	if (device) {
		if (*call == TIME_waited_async_seconds)
			return *call;
		serial = state ? read_serial(task, state, regs, *nr) : 0;
		if (*kind & (CALL_READ | CALL_SPLICE) ||
		    (state && state->pending.mapping && state->pending.nr == *nr && state->pending.serial == serial))
			return wait_of_read(state, task, wait, serial, *nr);
		if (*kind & (CALL_WRITE | CALL_ALLOCATE))
			return TIME_waited_filesystem_seconds;
		/* else for the journal, or for the writeback of pages that it removes */
		return wait->has_read || !may_change_files(regs, *nr) ? TIME_waited_metadata_seconds :
								       TIME_waited_filesystem_seconds;
	}
	if (wait->uninterruptible && (!*call || *kind & (CALL_READ | CALL_SPLICE | CALL_WRITE)))
		return TIME_waited_filesystem_seconds;
	wait->mapping = 0;
	return *call ?: TIME_waited_other_seconds;
}

/* Books the times first..end of those that a task has spent since it was last booked: on the row of its file, or of none. */
static __always_inline int book_times(struct task_struct *task, struct timing *timing, const u32 first, const u32 end)
{
	struct process_id process = {};
	struct row_key key = {};
	struct ledger *row;
	u64 any = 0;

#pragma unroll
	for (u32 i = first; i < end; i++)
		any |= timing->spent[i];
	if (!any)
		return 0;
	process.tgid = READ(task, tgid);
	process.start = READ(task, group_leader, start_time);
	if (config.scope == SCOPE_SYSTEM && !bpf_map_lookup_elem(&processes, &process)) {
		/* it has used no file */
#pragma unroll
		for (u32 i = 0; i < TIMES_COUNT; i++)
			timing->spent[i] = 0;
		return 0;
	}
	key.process = process;
	key.process.cgroup = cgroup_id_of(task);
	/* the row of a file that has had none is made by the events that name it */
	if (!first && timing->mapping) {
		struct file_id file = timing->file; /* a map's key has to be on the stack */

		if (bpf_map_lookup_elem(&files, &file))
			key.file = file;
	}
	row = row_of(&key);
	if (!row)
		return 0;
#pragma unroll
	for (u32 i = first; i < end; i++)
		if (timing->spent[i])
			__sync_fetch_and_add(&row->waited_missed_seconds + i,
					     __sync_lock_test_and_set(&timing->spent[i], 0));
	return 0;
}

/* Books what the task at an address has waited for files. */
ONCE int book_waits(u64 *address, struct timing *timing)
{
	if (!address || !timing)
		return 0;
	return book_times(PLAIN(task_struct, (void *)*address), timing, 0, FIRST_TIME_OF_NO_FILE);
}

/* Books its other times. */
ONCE int book_rest(u64 *address, struct timing *timing)
{
	if (!address || !timing)
		return 0;
	return book_times(PLAIN(task_struct, (void *)*address), timing, FIRST_TIME_OF_NO_FILE, TIMES_COUNT);
}

/* Of the whole machine only what storage, memory and CPUs cost: most tasks wait for something else all the time. */
static __always_inline bool is_idle(u32 cause)
{
	return (cause >= TIME_waited_children_seconds && cause <= TIME_waited_other_seconds) ||
	       cause == TIME_task_seconds;
}

/* Is it a wait that a warm cache saves? As `cachewise_model::Counter::COLD_WAITS`. */
static __always_inline bool is_cold(u32 cause)
{
	return cause <= TIME_waited_fault_seconds || cause == TIME_waited_metadata_seconds;
}

static __always_inline void spend(struct timing *timing, u32 cause, u64 time)
{
	if (config.scope == SCOPE_SYSTEM && is_idle(cause))
		return;
	if (time && cause < TIMES_COUNT)
		__sync_fetch_and_add(&timing->spent[cause], time);
}

/*
 * Divides the latest time off the CPU between its cause and the run queue. The kernel charges a task for its CPU from the
 * moment that it picks it: microseconds before the event by which the probe sees that. They are no waiting.
 */
SHARED int divide(u64 *address, struct timing *timing, u64 now)
{
	struct task_struct *task;

	if (!address || !timing)
		return 0;
	task = PLAIN(task_struct, (void *)*address);

	u64 delays = READ(task, sched_info.run_delay), cpu = READ(task, se.sum_exec_runtime);
	u64 queued = delays - __sync_lock_test_and_set(&timing->queued, delays);
	u64 charged = cpu - __sync_lock_test_and_set(&timing->charged, cpu);
	u64 entered = __sync_lock_test_and_set(&timing->entered, now), on_cpu = now - entered;
	u64 waited = timing->waited ? __sync_lock_test_and_set(&timing->waited, 0) : 0, other;
	u64 woken = timing->woken ? __sync_lock_test_and_set(&timing->woken, 0) : 0;

	if (woken)
		queued = entered > woken ? entered - woken : 0;
	else if (timing->cause == TIME_run_queue_seconds)
		queued = 0; /* the wait itself is for a CPU */
	other = queued;
	bool cold = waited && is_cold(timing->cause);

	if (charged > on_cpu) {
		other += charged - on_cpu;
		if (cold)
			spend(timing, TIME_fetch_cpu_seconds, charged - on_cpu);
	}
	spend(timing, TIME_run_queue_seconds, queued);
	if (cold)
		spend(timing, TIME_cold_run_queue_seconds, queued);
	if (waited > other) {
		spend(timing, timing->cause, waited - other);
		weigh(timing->stack, timing->stack_kind, UNIT_NANOSECONDS, waited - other);
	}
	return 0;
}

/*
 * The task gives up a CPU that it was not seen to get: a kernel may hide the switches away from some of its tasks, as that
 * of a virtual machine does with those of its agent. The CPU time that the kernel has charged since gives the moment.
 */
static __always_inline void enter_unseen(struct task_struct *task, struct timing *timing, u64 now)
{
	u64 ran = READ(task, se.sum_exec_runtime) - timing->charged;
	u64 away = now - __sync_lock_test_and_set(&timing->since, now);

	if (away > ran)
		timing->waited += away - ran;
	timing->entered = now - ran;
	timing->off = 0;
}

static __always_inline void note_life(struct timing *timing, u64 now)
{
	spend(timing, TIME_task_seconds, now - __sync_lock_test_and_set(&timing->alive, now));
}

/* Makes an entry for a task; on the whole machine only for those whose process has used a file. */
static __always_inline struct timing *begin_timing(struct task_struct *task)
{
	struct process_id process = {};
	u64 self = (u64)task;
	struct timing *timing;
	u32 entry;

	if (config.scope == SCOPE_SYSTEM) {
		process.tgid = READ(task, tgid);
		process.start = READ(task, group_leader, start_time);
		if (!bpf_map_lookup_elem(&processes, &process))
			return NULL;
	}
	entry = take_entry(&self);
	timing = bpf_map_lookup_elem(&timings, &entry);
	if (!timing) {
		__sync_fetch_and_add(&lost.tasks, 1);
		return NULL;
	}
	timing->entered = bpf_ktime_get_ns();
	timing->alive = READ(task, start_time);
	if (timing->alive < owner.since) {
		timing->alive = owner.since;
		timing->queued = READ(task, sched_info.run_delay);
		timing->charged = READ(task, se.sum_exec_runtime);
	} /* else from 0: the queue that a new task waited in before it was moved to this CPU is in its account already */
	timing->cause = TIME_waited_other_seconds;
	timing->stack_kind = STACK_KINDS;
	return timing;
}

/* The task ends: what is left of its accounts. */
static __always_inline void end_timing(struct task_struct *task, struct task_state *state, struct timing *timing)
{
	u64 self = (u64)task;
	u32 entry;

	note_life(timing, bpf_ktime_get_ns());
	book_waits(&self, timing);
	book_rest(&self, timing);
	/* empty for the task that takes it next */
	__builtin_memset(timing, 0, sizeof(*timing));
	entry = entry_of(&self);
	if (entry < NO_ENTRY)
		__sync_lock_test_and_set(&timed[entry & (NO_ENTRY - 1)], 0);
	/* the kernel has added up its CPU time only now */
	if (state)
		settle(task, state, true);
}

/* Sends the stack of a wait that begins, if it is for storage and its call or fault has sent none. */
ONCE int stack_of_wait(struct task_state *state, struct wait *wait)
{
	CURRENT(trusted, task);
	u32 nr = syscall_nr(task, (void *)bpf_task_pt_regs(trusted)), kind = STACK_KINDS;
	u64 moment = moment_of(task, nr);

	if (!wait)
		return 0;
	switch (wait->cause) {
	case TIME_waited_missed_seconds:
	case TIME_waited_in_flight_seconds:
		kind = STACK_READ;
		break;
	case TIME_waited_refault_seconds:
		kind = state && state->fault_mapping && in_fault(state, task, state->fault_mapping) ? STACK_FAULT :
												      STACK_READ;
		break;
	case TIME_waited_fault_seconds:
		kind = STACK_FAULT;
		break;
	case TIME_waited_direct_seconds:
		kind = STACK_DIRECT;
		break;
	case TIME_waited_sync_seconds:
		kind = STACK_SYNC;
		break;
	case TIME_waited_throttle_seconds:
		kind = STACK_THROTTLE;
		break;
	}
	wait->stack_kind = kind;
	if (kind == STACK_KINDS)
		return 0;
	/* the others raise no count that tells one call from the next; so does splice(2) */
	if (state && kind <= STACK_DIRECT && nr != NR_splice && state->stack_kind == kind &&
	    state->stack_moment == moment && state->stack)
		wait->stack = state->stack;
	else
		wait->stack = send_stack(kind);
	if (state) {
		state->stack = wait->stack;
		state->stack_kind = kind;
		state->stack_moment = moment;
	}
	return 0;
}

/* The current task gives up its CPU. It is in this state; 0: it would run on. */
static __noinline int leave_cpu(u32 prev_state)
{
	CURRENT(trusted, task);
	struct task_state *state = bpf_task_storage_get(&tasks, trusted, 0, 0);
	struct wait wait = { .cause = TIME_run_queue_seconds };
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u64 self = bpf_get_current_task(); /* a number */
	struct timing *timing = timing_of(self);
	u64 moment = moment_of(task, syscall_nr(task, regs)), now = bpf_ktime_get_ns();
	bool fetches = false;
	struct inode *inode;

	if (!timing)
		timing = begin_timing(task);
	if (!timing)
		return 0;
	if (timing->off)
		enter_unseen(task, timing, now);
	divide(&self, timing, now);
	if (state) {
		fetches = state->fetch_at == moment && (state->fetch_since || state->fetch_resumes);
		fetch_ends(state, moment, now);
		spend(timing, TIME_fetch_cpu_seconds, state->fetch_cpu);
		state->fetch_cpu = 0;
	}
	if (prev_state & TASK_DEAD) {
		end_timing(task, state, timing);
		return 0;
	}
	if (prev_state) {
		wait.uninterruptible = prev_state & TASK_UNINTERRUPTIBLE;
		wait.has_read = task->ioac.read_bytes != timing->read_bytes;
		timing->read_bytes = task->ioac.read_bytes;
		wait.cause = find_wait(state, &wait);
	}
	if (state && (fetches || wait.cause <= TIME_waited_fault_seconds))
		fetch_waits(state, moment);
	wait.stack_kind = STACK_KINDS;
	if (STACKS)
		stack_of_wait(state, &wait);
	timing->stack = wait.stack;
	timing->stack_kind = wait.stack_kind;
	if (wait.cause < FIRST_TIME_OF_NO_FILE) {
		if (!wait.mapping) {
			book_waits(&self, timing);
			timing->mapping = 0;
		} else {
			inode = READ(PLAIN(address_space, (void *)wait.mapping), host);
			if (wait.mapping != timing->mapping || READ(inode, i_ino) != timing->file.inode) {
				book_waits(&self, timing);
				file_of(inode, &timing->file);
				timing->mapping = wait.mapping;
			}
		}
	}
	timing->cause = wait.cause;
	timing->since = now;
	timing->woken = 0;
	timing->off = 1;
	return 0;
}

/* The task, given by its address, has a CPU again. */
ONCE int enter_cpu(u64 *address)
{
	u64 self, now;
	struct timing *timing;
	struct task_struct *task;
	struct cpu *cpu;
	u32 zero = 0;

	if (!address)
		return 0;
	self = *address;
	task = PLAIN(task_struct, (void *)self);
	now = bpf_ktime_get_ns();
	cpu = bpf_map_lookup_elem(&cpus, &zero);
	if (cpu)
		cpu->entered = now;
	timing = timing_of(self);
	if (!timing) {
		timing = begin_timing(task);
		if (timing && config.scope == SCOPE_TREE && READ(task, start_time) < owner.since)
			timing->waited = now - owner.since;
		return 0;
	}
	timing->waited += now - __sync_lock_test_and_set(&timing->since, now);
	timing->entered = now;
	timing->off = 0;
	return 0;
}

static __always_inline bool is_timed(struct task_struct *task)
{
	if (READ(task, flags) & PF_KTHREAD || (config.scope == SCOPE_TREE && !is_followed(READ(task, tgid))))
		return false;
	return !config.cgroup_filter || under_cgroup(task);
}

SEC("raw_tp/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *raw_prev, struct task_struct *raw_next, u32 prev_state)
{
	struct task_struct *prev = PLAIN(task_struct, raw_prev), *next = PLAIN(task_struct, raw_next);
	u64 address = (u64)raw_next;

	if (is_timed(prev)) {
		u32 waits_in = preempted ? 0 : prev_state;

		FORGET(waits_in);
		leave_cpu(waits_in);
		if (prev_state & TASK_DEAD)
			__sync_fetch_and_sub(&leaving, 1);
	}
	if (is_timed(next))
		enter_cpu(&address);
	return 0;
}

/* The task's wait ends: from now on it waits for a CPU. */
SEC("raw_tp/sched_wakeup")
int BPF_PROG(on_wake, struct task_struct *raw)
{
	struct task_struct *task = PLAIN(task_struct, raw);
	u64 self = (u64)raw;
	struct timing *timing;

	if (!is_timed(task))
		return 0;
	timing = timing_of(self);
	if (timing && timing->off && !timing->woken)
		timing->woken = bpf_ktime_get_ns();
	return 0;
}

/* A task that dirties pages is about to be made to wait. */
SEC("raw_tp/balance_dirty_pages")
int BPF_PROG(on_throttle)
{
	CURRENT(trusted, task);
	struct task_state *state;

	if (!in_scope(task) || !(state = state_of(trusted)))
		return 0;
	state->throttled = 1;
	return 0;
}

/* Books the times of a task that a walk has reached; false: they are not measured. */
static __always_inline bool settle_times(struct task_struct *task)
{
	u64 self = (u64)task, now;
	struct timing *timing;
	u32 entry;

	if (!config.times)
		return false;
	entry = entry_of(&self);
	timing = bpf_map_lookup_elem(&timings, &entry);
	if (!timing)
		return false;
	now = bpf_ktime_get_ns();
	if (!timing->off)
		divide(&self, timing, now);
	else if (!(config.scope == SCOPE_SYSTEM && is_idle(timing->cause))) {
		/* the end of its wait may come at this moment: a time belongs to the one who takes it */
		u64 time = now - __sync_lock_test_and_set(&timing->since, now), woken = timing->woken;

		if (woken) {
			spend(timing, TIME_run_queue_seconds, now - woken);
			time = time > now - woken ? time - (now - woken) : 0;
			timing->woken = now;
		}
		spend(timing, timing->cause, time);
		weigh(timing->stack, timing->stack_kind, UNIT_NANOSECONDS, time);
	}
	note_life(timing, now);
	book_waits(&self, timing);
	book_rest(&self, timing);
	return true;
}

#endif
