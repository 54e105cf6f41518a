/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_uring's requests in flight. A buffered read is retried wherever its task returns to user space, from a system
 * call or an interrupt, or in io_uring_enter(2): so its events are recognised by the request. A worker names the
 * request that it is at; of other tasks the requests in flight are kept by file, and by the last page that events name.
 */
#ifndef CACHEWISE_FLIGHT_H
#define CACHEWISE_FLIGHT_H

/* By the request's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u64);
	__type(value, struct flight);
} flights SEC(".maps");

#define ANY_PAGE (~0ULL)

struct flight_key {
	u64 mapping, last; /* ANY_PAGE: those with any last page */
	u32 task, write;
};

/* Requests in flight: their number, the sum of their addresses, and the inserts that may belong to any of them. */
struct flight_group {
	u64 sum;
	u32 count, doubts;
};

/* A group of no requests is forgotten when there is no room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct flight_key);
	__type(value, struct flight_group);
} flight_groups SEC(".maps");

/* Keeps pages lo..=hi of a mapping as those of the event at hand. */
static __always_inline void set_event(struct task_state *state, u64 mapping, u64 lo, u64 hi)
{
	state->event_mapping = mapping;
	state->event_lo = lo;
	state->event_hi = hi;
}

/* Can an event of this task belong to io_uring? Tasks that have submitted, and workers, have an epoch. */
static __always_inline bool in_uring(struct task_state *state, u32 nr)
{
	return state->epoch && (nr == NR_io_uring_enter || nr == NR_none);
}

/* Adds a flight to its group, or takes it away. */
ONCE int count_flight(struct flight *flight, u64 id, u64 last, bool enters)
{
	struct flight_key key = {};
	struct flight_group *group, fresh = {};

	if (!flight)
		return 0;
	key.mapping = flight->mapping;
	key.last = last;
	key.task = flight->task;
	key.write = flight->write;
	group = bpf_map_lookup_elem(&flight_groups, &key);
	if (!group && enters) {
		bpf_map_update_elem(&flight_groups, &key, &fresh, BPF_NOEXIST);
		group = bpf_map_lookup_elem(&flight_groups, &key);
	}
	if (!group) {
		__sync_fetch_and_add(&lost.flights, 1);
		return 0;
	}
	__sync_fetch_and_add(&group->sum, enters ? id : -id);
	if (enters) {
		if (last == ANY_PAGE)
			flight->doubts = group->doubts;
		__sync_fetch_and_add(&group->count, 1);
	} else {
		if (last == ANY_PAGE && flight->doubts != group->doubts)
			flight->doubtful = 1;
		/* if another CPU adds one at this moment, find_flight falls back to the file */
		if (__sync_fetch_and_add(&group->count, -1) == 1 && last != ANY_PAGE)
			bpf_map_delete_elem(&flight_groups, &key);
	}
	return 0;
}

/* Notes what direct I/O has moved for a request, which can go on; true: it had moved some before. */
static __always_inline bool move_directly(struct kiocb *raw_iocb, u64 bytes)
{
	struct kiocb *iocb = PLAIN(kiocb, raw_iocb);
	/* a request begins with its kiocb */
	u64 id = (u64)raw_iocb - bpf_core_field_offset(struct io_kiocb, cmd);
	struct flight *flight;

	if (!READ(iocb, ki_complete))
		return false;
	flight = bpf_map_lookup_elem(&flights, &id);
	if (!flight)
		return false;
	flight->before += bytes;
	return flight->before > bytes;
}

enum found { FOUND_NONE, FOUND_SOME, FOUND_BY_FILE, FOUND };

/* Looks up the current task's requests in flight on a mapping, with this last page. */
static __always_inline enum found find_in_group(struct task_state *state, u64 mapping, u64 last, bool write)
{
	CURRENT(trusted, task);
	struct flight_key key = { mapping, last, task->pid, write };
	struct flight_group *group = bpf_map_lookup_elem(&flight_groups, &key);
	struct flight *flight;
	u64 id;

	if (!group || (s32)group->count <= 0)
		return FOUND_NONE;
	if (group->count > 1)
		return FOUND_SOME;
	id = group->sum;
	flight = bpf_map_lookup_elem(&flights, &id);
	if (!flight || flight->mapping != mapping)
		return FOUND_SOME;
	state->found.id = id;
	return FOUND;
}

/*
 * Finds the request that an event on a mapping is of, as state->found.id: FOUND_BY_FILE is the only one of the task
 * on this file; FOUND_SOME is one of several.
 */
ONCE int find_flight(struct task_state *state, u64 mapping, u64 last)
{
	CURRENT(trusted, task);
	struct flight *flight;
	enum found found;
	u64 id;

	if (!state)
		return FOUND_NONE;
	id = (u64)request_at_work(task);
	if (id) {
		flight = bpf_map_lookup_elem(&flights, &id);
		if (!flight || (flight->mapping && flight->mapping != mapping))
			return FOUND_NONE;
		state->found.id = id;
		return FOUND;
	}
	if (last != ANY_PAGE && find_in_group(state, mapping, last, false) == FOUND)
		return FOUND;
	found = find_in_group(state, mapping, ANY_PAGE, false);
	return found == FOUND ? FOUND_BY_FILE : found;
}

#endif
