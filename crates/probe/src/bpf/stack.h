/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks of tasks at events that wait for storage, and at evictions (config.stacks). A record has the registers and a
 * copy of the user's stack, as most programs have no frame pointers by which the kernel could walk it: user space unwinds
 * it. A record's weight (pages, bytes, nanoseconds) follows in later records with its id, as most weights are known later
 * than the stack: at the event that confirms a miss, at the completion of direct I/O, after a wait.
 */
#ifndef CACHEWISE_STACK_H
#define CACHEWISE_STACK_H

#define STACKS_BYTES (16 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STACKS_BYTES);
} stacks SEC(".maps");

/* Where a CPU builds a record. One entry for each possible CPU, or one in all without config.stacks. */
struct stack_scratch {
	u64 busy; /* a program that interrupts another one here sends no stack */
	u64 serial;
	struct stack_record record;
	u8 margin[2 * STACK_PIECE]; /* the verifier knows the length of each piece of the copy, and not that of their sum */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_scratch);
} stack_scratches SEC(".maps");

/* Address spaces that have sent a stack, with the executable pages that they had: user space reads their mappings. */
struct address_space_key {
	u64 memory, start;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct address_space_key);
	__type(value, u64);
} stack_memories SEC(".maps");

/* The latest call of a task that evicts pages, by the task's address, with the pages that are not sent so far. */
struct evictor {
	u64 signature;
	u64 stack;
	u64 pages;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct evictor);
} evictors SEC(".maps");

/* Weights without a stack, by its id, kind and unit. */
s64 no_stacks[NO_STACKS][STACK_KINDS][STACK_UNITS] = {};

static __always_inline struct stack_scratch *take_scratch(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct stack_scratch *scratch = bpf_map_lookup_elem(&stack_scratches, &cpu);

	if (!scratch || __sync_lock_test_and_set(&scratch->busy, 1))
		return NULL;
	return scratch;
}

static __always_inline void leave_scratch(struct stack_scratch *scratch)
{
	barrier();
	scratch->busy = 0;
}

/* Whether to wake the reader: for an address space whose mappings it has not read, or if the ring fills up. */
static __always_inline u64 wakeup_for(u64 memory, u64 start, u64 executable_pages)
{
	struct address_space_key key = { memory, start };
	u64 *known;

	if (bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA) > STACKS_BYTES / 8)
		return BPF_RB_FORCE_WAKEUP;
	if (!memory)
		return BPF_RB_NO_WAKEUP;
	known = bpf_map_lookup_elem(&stack_memories, &key);
	if (known && *known == executable_pages)
		return BPF_RB_NO_WAKEUP;
	bpf_map_update_elem(&stack_memories, &key, &executable_pages, BPF_ANY);
	return BPF_RB_FORCE_WAKEUP;
}

/* Copies the next piece, which lies in one page; false: all of them are copied, or it is not there. */
static __always_inline bool copy_piece(struct stack_record *record, u32 *done, u32 wanted)
{
	u32 piece = STACK_PIECE - ((record->sp + *done) & (STACK_PIECE - 1));

	if (*done >= wanted)
		return false;
	if (piece > wanted - *done)
		piece = wanted - *done;
	/* the compiler knows these bounds, and Linux 6.1 does not */
	barrier_var(piece);
	if (bpf_probe_read_user(record->user + (*done & (STACK_BYTES - 1)), piece & (2 * STACK_PIECE - 1),
				(void *)(record->sp + *done)))
		return false;
	*done += piece;
	return true;
}

/*
 * Copies the stack from its pointer to `start`, where that is near, up to the first page that is not there. No loop: Linux
 * 6.1 refuses the one that the compiler makes of it.
 */
static __always_inline void copy_user_stack(struct stack_record *record, u64 start)
{
	u32 done = 0, wanted = STACK_BYTES;

	if (start > record->sp && start - record->sp < STACK_BYTES)
		wanted = start - record->sp;
	if (copy_piece(record, &done, wanted) && copy_piece(record, &done, wanted) &&
	    copy_piece(record, &done, wanted) && copy_piece(record, &done, wanted))
		copy_piece(record, &done, wanted);
	record->user_bytes = done < STACK_BYTES ? done : STACK_BYTES;
}

/*
 * Notes the frames behind the copy of a deep stack, of a program that has frame pointers. Another one has any value in that
 * register, and the walk ends at once.
 */
struct frame_walk {
	struct stack_record *record;
	u64 at;
	u32 count, padding;
};

static long frame_step(u32 i, struct frame_walk *walk)
{
	struct stack_record *record = walk->record;
	u64 at = walk->at, words[2];
	struct stack_frame *frame;

	if (at < record->sp || at & 7 || bpf_probe_read_user(words, sizeof(words), (void *)at))
		return 1;
	if (at + sizeof(words) > record->sp + record->user_bytes) {
		frame = &record->chain[walk->count & (STACK_FRAMES - 1)];
		frame->address = at;
		frame->next = words[0];
		frame->caller = words[1];
		if (++walk->count == STACK_FRAMES)
			return 1;
	}
	walk->at = words[0];
	/* callers are above */
	return words[0] <= at;
}

static __always_inline void walk_frames(struct stack_record *record)
{
	struct frame_walk walk = { record, record->bp };

	bpf_loop(STACK_FRAMES_WALKED, frame_step, &walk, 0);
	record->frames = walk.count;
}

#define CS_OF_32_BIT 0x23

/* Sends the stack of the current task; returns its id. */
ONCE u64 send_stack(u32 kind)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u64 self = (u64)task, id, length;
	struct stack_scratch *scratch;
	struct stack_record *record;
	struct mm_struct *mm = NULL;
	long bytes;

	if (!STACKS)
		return STACK_NONE;
	scratch = take_scratch();
	if (!scratch) {
		__sync_fetch_and_add(&lost.stacks, 1);
		return STACK_LOST;
	}
	record = &scratch->record;
	id = (u64)(bpf_get_smp_processor_id() + 1) << 40 | ++scratch->serial;
	record->head.id = id;
	record->head.kind = kind;
	record->start = task->group_leader->start_time;
	record->tgid = seen_tgid(&self);
	record->origin = ORIGIN_USER;
	record->memory = record->executable_pages = 0;
	record->ip = record->sp = record->bp = 0;
	record->user_bytes = record->kernel_frames = record->frames = 0;
	bpf_probe_read_kernel(record->comm, sizeof(record->comm), task->comm);
	if (task->flags & PF_KTHREAD) {
		record->origin = ORIGIN_KERNEL_THREAD;
	} else {
		mm = READ(task, mm);
		record->memory = (u64)mm;
		record->executable_pages = READ(mm, exec_vm);
		if (task->flags & PF_IO_WORKER)
			record->origin = ORIGIN_WORKER;
		else if (regs->cs == CS_OF_32_BIT)
			record->origin = ORIGIN_32_BIT;
	}
	if (record->origin == ORIGIN_USER) {
		record->ip = regs->ip;
		record->sp = regs->sp;
		record->bp = regs->bp;
		copy_user_stack(record, READ(mm, start_stack));
		if (record->user_bytes == STACK_BYTES)
			walk_frames(record);
	}
	bytes = bpf_get_task_stack(trusted, record->kernel, sizeof(record->kernel), 0);
	if (bytes > 0)
		record->kernel_frames = bytes / sizeof(u64);
	length = sizeof(*record) - STACK_BYTES + (record->user_bytes & (2 * STACK_BYTES - 1));
	if (length > sizeof(*record))
		length = sizeof(*record);
	if (bpf_ringbuf_output(&stacks, record, length,
			       wakeup_for(record->memory, record->start, record->executable_pages))) {
		__sync_fetch_and_add(&lost.stacks, 1);
		id = STACK_LOST;
	}
	leave_scratch(scratch);
	return id;
}

/* Adds to the weight of a stack. */
ONCE int add_weight(u64 id, u32 kind, u32 unit, s64 weight)
{
	struct stack_weight record = { .id = id, .weight = weight, .unit = unit, .kind = kind };
	u64 waiting;

	if (!STACKS || !weight || kind >= STACK_KINDS || unit >= STACK_UNITS)
		return 0;
	if (id >= NO_STACKS) {
		waiting = bpf_ringbuf_query(&stacks, BPF_RB_AVAIL_DATA);
		if (!bpf_ringbuf_output(&stacks, &record, sizeof(record),
					waiting > STACKS_BYTES / 8 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
			return 0;
		id = STACK_LOST;
	}
	__sync_fetch_and_add(&no_stacks[id & (NO_STACKS - 1)][kind][unit], weight);
	return 0;
}

static __always_inline void weigh(u64 id, u32 kind, u32 unit, s64 weight)
{
	if (STACKS && weight && kind < STACK_KINDS)
		add_weight(id, kind, unit, weight);
}

/* Sends the stack of the call or fault that `moment` tells from the one before, for later events in it. */
static __always_inline u64 stack_at(struct task_state *state, u32 kind, u64 moment)
{
	u64 id;

	if (!STACKS)
		return STACK_NONE;
	id = send_stack(kind);
	state->stack = id;
	state->stack_kind = kind;
	state->stack_moment = moment;
	return id;
}

/* The stack for pages that come for a request of io_uring: of the call that submits or waits, or of its worker. */
static __always_inline u64 stack_of_flight(struct task_state *state)
{
	u64 moment = state->insert.moment ^ (u64)state->epoch << 20;

	if (state->stack_kind == STACK_READ && state->stack_moment == moment && state->stack)
		return state->stack;
	return stack_at(state, STACK_READ, moment);
}

/*
 * Tells one call that evicts from the next, which raises none of the task's counts: by its place in the code and the words
 * of its stack next to it, return addresses among them.
 */
ONCE u64 call_signature(void)
{
	CURRENT(trusted, task);
	struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
	u64 hash = moment_of(task, syscall_nr(task, regs)) ^ (u64)task->pid << 32 ^ task->start_time, *words;
	struct stack_scratch *scratch;

	if (task->flags & PF_KTHREAD || !(scratch = take_scratch()))
		return hash;
	hash = (hash ^ regs->ip) * 0x9E3779B97F4A7C15ULL;
	hash = (hash ^ regs->sp) * 0x9E3779B97F4A7C15ULL;
	words = (u64 *)scratch->record.user;
	if (!bpf_probe_read_user(words, SIGNATURE_WORDS * sizeof(u64), (void *)regs->sp))
		for (int i = 0; i < SIGNATURE_WORDS; i++)
			hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15ULL + (hash >> 32);
	leave_scratch(scratch);
	return hash;
}

/* The current task evicts pages. A call evicts many folios, one by one: it sends one stack. */
ONCE int stack_of_eviction(u64 pages)
{
	struct evictor fresh = {}, *known;
	u64 self = (u64)bpf_get_current_task(), signature;

	if (!STACKS)
		return 0;
	signature = call_signature();
	known = bpf_map_lookup_elem(&evictors, &self);
	if (known && known->signature == signature) {
		__sync_fetch_and_add(&known->pages, pages);
		return 0;
	}
	fresh.signature = signature;
	fresh.stack = send_stack(STACK_EVICTION);
	fresh.pages = pages;
	if (known)
		add_weight(known->stack, STACK_EVICTION, UNIT_PAGES, known->pages);
	if (bpf_map_update_elem(&evictors, &self, &fresh, BPF_ANY))
		add_weight(fresh.stack, STACK_EVICTION, UNIT_PAGES, pages);
	return 0;
}

#endif
