/* SPDX-License-Identifier: GPL-2.0 */
/* The times of a task, and the table of them. */
#ifndef CACHEWISE_TIMING_H
#define CACHEWISE_TIMING_H

/* The times, in the order of the ledger. */
enum time {
#define X(name) TIME_##name,
	TIMES(X)
#undef X
	TIMES_COUNT,
};
#define FIRST_TIME_OF_NO_FILE TIME_waited_throttle_seconds

/* Of one task. A time that is booked on rows is 0 again; only the task itself and a walk over all tasks change it. */
struct timing {
	u64 since;	     /* off its CPU, or the latest walk */
	u64 woken;	     /* on a run queue after its wait; 0: not, or the event was not seen */
	u64 entered;	     /* on its CPU */
	u64 waited;	     /* the latest time off its CPU, not yet divided between its cause and the run queue */
	u32 cause;
	u32 off;
	u64 queued, charged; /* the kernel's accounts of its run queues and CPU time, as they were last seen */
	u64 read_bytes;	     /* that it had submitted to devices at its latest wait */
	u64 mapping;	     /* of the file that it waits for, or waited for last, by address; 0: no file */
	struct file_id file;
	u64 alive; /* since then, or the latest walk */
	u64 stack; /* of the wait, by its id */
	u64 stack_kind;
	u64 spent[TIMES_COUNT];
};

/* Entries are made in the scheduler, where no memory can be allocated: not the task's storage. */
#define TIMING_BITS 14
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << TIMING_BITS);
	__type(key, u32);
	__type(value, struct timing);
} timings SEC(".maps");

/*
 * The addresses of the tasks that have the entries; 0: free. A task's entry is one of the SET_ENTRIES of two sets, by a
 * hash of its address: a set is a line of the CPU's cache, and a program finds the first entry without calling a helper.
 */
#define SET_ENTRIES 8
u64 timed[1 << TIMING_BITS] __attribute__((aligned(64))) = {};

static __always_inline u32 first_set(u64 self)
{
	return (self * 0x9E3779B97F4A7C15ULL >> (64 - TIMING_BITS)) & -SET_ENTRIES;
}

static __always_inline u32 second_set(u64 self)
{
	return (self * 0x9E3779B97F4A7C15ULL >> (64 - 2 * TIMING_BITS)) & -SET_ENTRIES;
}

#define NO_ENTRY (1 << TIMING_BITS)

/* The entry of a set that a task has. */
static __always_inline u32 entry_in(u32 set, u64 self)
{
#pragma unroll
	for (u32 i = 0; i < SET_ENTRIES; i++)
		if (timed[(set + i) & (NO_ENTRY - 1)] == self)
			return (set + i) & (NO_ENTRY - 1);
	return NO_ENTRY;
}

/* The entry of the task at this address. */
ONCE u32 entry_of(u64 *address)
{
	u64 self;
	u32 entry;

	if (!address)
		return NO_ENTRY;
	self = *address;
	entry = entry_in(first_set(self), self);
	return entry == NO_ENTRY ? entry_in(second_set(self), self) : entry;
}

/* Takes a free entry of a set for a task that has none. */
static __always_inline u32 take_entry_in(u32 set, u64 self)
{
#pragma unroll
	for (u32 i = 0; i < SET_ENTRIES; i++) {
		u64 *place = &timed[(set + i) & (NO_ENTRY - 1)];

		if (!*place && !__sync_val_compare_and_swap(place, 0, self))
			return (set + i) & (NO_ENTRY - 1);
	}
	return NO_ENTRY;
}

ONCE u32 take_entry(u64 *address)
{
	u64 self;
	u32 entry;

	if (!address)
		return NO_ENTRY;
	self = *address;
	entry = take_entry_in(first_set(self), self);
	return entry == NO_ENTRY ? take_entry_in(second_set(self), self) : entry;
}

/* The timing of the task at this address, a number to the verifier; NULL: it has none. */
static __always_inline struct timing *timing_of(u64 self)
{
	u32 entry = first_set(self) & (NO_ENTRY - 1);

	if (timed[entry] != self)
		entry = entry_of(&self);
	return bpf_map_lookup_elem(&timings, &entry);
}

#endif
