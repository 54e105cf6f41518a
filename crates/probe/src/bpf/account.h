/* SPDX-License-Identifier: GPL-2.0 */
/* From an event to the ledger that it is booked on. */
#ifndef CACHEWISE_ACCOUNT_H
#define CACHEWISE_ACCOUNT_H

#define ADD(ledger, counter, n)                                                                    \
	do {                                                                                       \
		if (ledger)                                                                        \
			__sync_fetch_and_add(&(ledger)->counter, (n));                             \
	} while (0)

static __always_inline u32 folio_flag(struct folio *folio, u64 bit)
{
	/* the flags are the first word of struct page and folio on every kernel, under changing names */
	unsigned long word = BY_HELPER ? peek((u64)folio) : *(volatile unsigned long *)folio;

	return word >> bit & 1;
}

static __always_inline u32 folio_pages(struct folio *folio)
{
	if (!folio_flag(folio, bpf_core_enum_value(enum pageflags, PG_head)))
		return 1;
	if (bpf_core_field_exists(struct folio___sized, _nr_pages))
		return READ((struct folio___sized *)folio, _nr_pages);
	if (bpf_core_field_exists(struct folio___sized, _folio_nr_pages))
		return READ((struct folio___sized *)folio, _folio_nr_pages);
	return 1u << (READ(folio, _flags_1) & 0xff);
}

/* tmpfs and other shared memory: no I/O brings its pages in, so they are neither hit nor miss */
static __always_inline bool folio_is_shmem(struct folio *folio)
{
	return folio_flag(folio, bpf_core_enum_value(enum pageflags, PG_swapbacked));
}

static __always_inline void process_of(struct task_struct *task, struct process_id *id)
{
	id->tgid = task->tgid;
	id->start = task->group_leader->start_time;
	id->cgroup = cgroup_id_of(task);
}

static __always_inline bool is_wanted(const struct file_id *id)
{
	struct file_id key = { .dev = id->dev, .inode = id->inode };

	return !config.file_filter || bpf_map_lookup_elem(&wanted, &key);
}

/* Which of the two tables rows are made in. It may change at any time: ask once, and stay with it. */
static __always_inline bool on_other_side(void)
{
	return config.intervals && *(volatile u32 *)&side;
}

static __always_inline struct ledger *find_row(bool other, const struct row_key *key)
{
	return other ? bpf_map_lookup_elem(&rows_other, key) : bpf_map_lookup_elem(&rows, key);
}

static __always_inline long make_row(bool other, const struct row_key *key, const struct ledger *ledger)
{
	return other ? bpf_map_update_elem(&rows_other, key, ledger, BPF_NOEXIST) :
		       bpf_map_update_elem(&rows, key, ledger, BPF_NOEXIST);
}

/* A row without counts, and the key of the row that user space made for events that find the table full. */
static const struct {
	struct ledger ledger;
	struct row_key overflow;
} blank;

/* Makes the row of that side if there is room for it, and there is none. The key is on the stack, as that of a map has to be. */
static __always_inline void make_empty_row(bool other, const struct row_key *key)
{
	int failed = make_row(other, key, &blank.ledger); /* before 6.4 only the lower half of what is returned is set */

	if (failed && failed != -EEXIST)
		__sync_fetch_and_add(&lost.rows, 1);
}

#if BY_HELPER
static __always_inline void add_row(bool other, const struct row_key *key)
{
	make_empty_row(other, key);
}
#else
ONCE int add_row(u32 other, const struct row_key *of)
{
	struct row_key key;

	if (!of)
		return 0;
	key = *of;
	make_empty_row(other, &key);
	return 0;
}
#endif

/* The row of that side, which has most likely to be made. */
static __always_inline struct ledger *new_row_on(bool other, struct row_key *key)
{
	struct ledger *row;

	add_row(other, key);
	row = find_row(other, key);
	if (row)
		return row;
	/* The table is full. User space made this row at the start, so that sums stay whole. */
	return find_row(other, &blank.overflow);
}

/* The row of that side; makes it where there is none. */
static __always_inline struct ledger *row_on(bool other, struct row_key *key)
{
	return find_row(other, key) ?: new_row_on(other, key);
}

static __always_inline struct ledger *row_of(struct row_key *key)
{
	return row_on(on_other_side(), key);
}

/* The key of what the current task does to a file; false: it is not to be counted. */
static __always_inline bool identify_row(struct inode *inode, struct row_key *key)
{
	CURRENT(trusted, task);

	file_of(inode, &key->file);
	if (!is_wanted(&key->file))
		return false;
	if (config.detail == DETAIL_ROWS)
		process_of(task, &key->process);
	return true;
}

#if BY_HELPER
static __always_inline bool key_of(struct inode *inode, struct row_key *key)
{
	return identify_row(inode, key);
}
#else
ONCE int key_at(u64 *address, struct row_key *key)
{
	return address && key && identify_row(PLAIN(inode, (void *)*address), key);
}

static __always_inline bool key_of(struct inode *inode, struct row_key *key)
{
	u64 address = (u64)inode;

	return key_at(&address, key);
}
#endif

/* The ledger for what the current task does to `inode`; NULL: not to be counted. */
static __always_inline struct ledger *ledger_of(struct inode *inode, u64 just_added, struct row_key *key)
{
	if (!key_of(inode, key))
		return NULL;
	if (config.detail == DETAIL_TOTALS)
		return cpu_total();
	bool other = on_other_side();
	struct ledger *row = find_row(other, key);

	if (row)
		return row;
	struct subject subject = { (u64)inode, just_added };

	meet_row();
	want_name(&subject, &key->file);
	return new_row_on(other, key);
}

/*
 * As above for a key that was kept. NULL only if user space's row for a full table is not there: a caller that adds more
 * than one count returns at once then, as otherwise the verifier explores all that follows for NULL too.
 */
static __always_inline struct ledger *ledger_of_key(struct row_key *key)
{
	if (config.detail == DETAIL_TOTALS)
		return cpu_total();
	return row_of(key);
}

/*
 * Marks the row of the current task and state->event_inode: a read that is about to be counted there, which names the
 * file, is counted with a wrong range.
 */
ONCE int mark_rangeless_read(struct task_state *state)
{
	struct ledger *ledger;
	struct row_key key = {};

	if (!state || !key_of(PLAIN(inode, (void *)state->event_inode), &key))
		return 0;
	ledger = ledger_of_key(&key);
	ADD(ledger, rangeless_reads, 1);
	return 0;
}

ONCE int empty_slot(struct slot *slot)
{
	struct ledger *row;
	bool other = on_other_side();
	struct row_key key;

	/* a later chunk of a call that began on another CPU leaves pages here without a request */
	if (!slot || !(slot->requests | slot->pages | slot->misses | slot->ahead | slot->write_requests | slot->write_bytes))
		return 0;
	key = slot->key; /* a map's key has to be on the stack */
	row = row_on(other, &key);
	if (slot->requests | slot->pages) {
		ADD(row, read_requests, slot->requests);
		ADD(row, read_requested_pages, slot->pages);
		ADD(row, read_requested_bytes, slot->bytes);
	}
	ADD(row, read_hit_pages, slot->hits);
	if (slot->misses | slot->ahead | slot->used) {
		ADD(row, read_missed_pages, slot->misses);
		ADD(row, readahead_pages, slot->ahead);
		ADD(row, readahead_hit_pages, slot->used);
	}
	if (slot->write_requests | slot->write_bytes) {
		ADD(row, write_requests, slot->write_requests);
		ADD(row, write_pages, slot->write_pages);
		ADD(row, write_bytes, slot->write_bytes);
	}
	slot->requests = slot->pages = slot->bytes = slot->hits = 0;
	slot->misses = slot->ahead = slot->used = 0;
	slot->write_requests = slot->write_pages = slot->write_bytes = 0;
	return 0;
}

/* Makes the slot that of the current process and the file; what it held is booked. */
ONCE int take_slot(struct slot *slot, struct subject *subject)
{
	CURRENT(trusted, task);
	struct inode *inode;

	if (!slot || !subject)
		return 0;
	empty_slot(slot);
	slot->mapping = 0;
	inode = PLAIN(inode, (void *)subject->inode);
	if (!key_of(inode, &slot->key))
		return 0;
	meet_row();
	want_name(subject, &slot->key.file);
	slot->mapping = (u64)READ(inode, i_mapping);
	slot->tgid = slot->key.process.tgid;
	slot->start = slot->key.process.start;
	slot->groups = (u64)task->cgroups;
	slot->inode = READ(inode, i_ino);
	slot->generation = READ(inode, i_generation);
	slot->begun = begun[watch_slot(slot->inode)];
	slot->era = era;
	return 1;
}

/* Makes a row that has what a read did: one step instead of three. */
static __always_inline bool make_row_of_read(bool other, const struct row_key *key, const struct tally *tally)
{
	struct cpu *cpu = this_cpu();
	long failed;

	if (!cpu || cpu->busy)
		return false;
	cpu->busy = 1;
	barrier();
	cpu->fresh.read_requests = tally->requests;
	cpu->fresh.read_requested_pages = tally->pages;
	cpu->fresh.read_requested_bytes = tally->bytes;
	cpu->fresh.read_hit_pages = hits_of(tally);
	cpu->fresh.read_missed_pages = tally->misses;
	cpu->fresh.readahead_pages = tally->ahead;
	cpu->fresh.readahead_hit_pages = tally->used;
	failed = make_row(other, key, &cpu->fresh);
	barrier();
	cpu->busy = 0;
	return !failed;
}

/* As below, on the row itself. In a function of its own, whose memory is not taken together with that of the others. */
static __noinline int book_read_apart(u64 address, const struct tally *tally)
{
	struct address_space *mapping = PLAIN(address_space, (void *)address);
	struct ledger *ledger;
	struct row_key key;

	if (!tally || !key_of(READ(mapping, host), &key))
		return 0;
	if (config.detail == DETAIL_TOTALS) {
		ledger = cpu_total();
	} else {
		bool other = on_other_side();

		ledger = find_row(other, &key);
		if (!ledger) {
			struct subject subject = { (u64)READ(mapping, host), 0 };

			meet_row();
			want_name(&subject, &key.file);
			if (make_row_of_read(other, &key, tally))
				return 0;
			ledger = new_row_on(other, &key);
		}
	}
	ADD(ledger, read_requests, tally->requests);
	ADD(ledger, read_requested_pages, tally->pages);
	ADD(ledger, read_requested_bytes, tally->bytes);
	ADD(ledger, read_hit_pages, hits_of(tally));
	if (tally->misses | tally->ahead | tally->used) {
		ADD(ledger, read_missed_pages, tally->misses);
		ADD(ledger, readahead_pages, tally->ahead);
		ADD(ledger, readahead_hit_pages, tally->used);
	}
	return 0;
}

static __always_inline u64 slot_hash(struct task_struct *task, struct inode *inode)
{
	return (READ(inode, i_ino) ^ (u64)task->tgid << 32) * 0x9E3779B97F4A7C15ULL;
}

/* The place of the slot in which reads and writes of a file by a task are, among those of a CPU. */
static __always_inline u32 slot_place(u64 hash)
{
	return (u32)(hash >> 32) >> (32 - config.slot_bits) & (SLOTS_MAX - 1);
}

static __always_inline struct slot *slot_at(u32 place)
{
	u32 index = (bpf_get_smp_processor_id() << config.slot_bits) + place;

	return bpf_map_lookup_elem(&slots, &index);
}

/* The bit of the run of slots that one is in. */
static __always_inline u32 slot_run(u32 place)
{
	return 1U << (place >> SLOT_RUN_SHIFT);
}

static __always_inline u8 mark_of(u64 hash)
{
	return (u8)(hash >> 8) ?: 1;
}

/* Is it theirs now? */
static __always_inline bool is_slot_of(struct slot *slot, struct task_struct *task, struct inode *inode)
{
	return slot->mapping == (u64)READ(inode, i_mapping) && slot->tgid == task->tgid &&
	       slot->start == task->group_leader->start_time && slot->groups == (u64)task->cgroups &&
	       slot->inode == READ(inode, i_ino) && slot->generation == READ(inode, i_generation) &&
	       slot->era == era && slot->begun == begun[watch_slot(READ(inode, i_ino))];
}

/* Books a request for a page that was there; false: not on the CPU's own sums. */
static __always_inline bool book_page(struct task_struct *task, struct address_space *mapping, u64 bytes)
{
	struct inode *inode = READ(mapping, host);
	struct cpu *cpu = this_cpu();
	struct slot *slot;
	u64 hash;
	u32 place;

	if (!cpu || cpu->busy)
		return false;
	if (config.detail == DETAIL_TOTALS) {
		if (config.file_filter)
			return false;
		cpu->busy = 1;
		barrier();
		cpu->requests++;
		cpu->pages++;
		cpu->bytes += bytes;
		cpu->hits++;
		barrier();
		cpu->busy = 0;
		return true;
	}
	hash = slot_hash(task, inode);
	place = slot_place(hash);
	if (cpu->marks[place].owner != mark_of(hash) || !(slot = slot_at(place)) || !is_slot_of(slot, task, inode))
		return false;
	cpu->busy = 1;
	barrier();
	slot->requests++;
	slot->pages++;
	slot->bytes += bytes;
	slot->hits++;
	cpu->used |= slot_run(place);
	cpu->marks[place].candidate = 0;
	barrier();
	cpu->busy = 0;
	return true;
}

/*
 * The slot of a file and the current process; NULL: they have none, and book on their row. The CPU is busy until
 * close_slot(). A slot that is not free is theirs when they have used the file twice and its owner not at all: of more files
 * than there are slots, which are used once each, most are booked on their rows, and the others keep their slots.
 */
static __always_inline struct slot *open_slot(struct cpu *cpu, struct task_struct *task, struct inode *inode)
{
	u64 hash = slot_hash(task, inode);
	u32 place = slot_place(hash);
	struct mark *mark = &cpu->marks[place];
	struct subject subject = { (u64)inode, 0 };
	u8 own = mark_of(hash);
	struct slot *slot;
	bool mine;

	if (mark->owner && mark->owner != own && mark->candidate != own) {
		mark->candidate = own;
		return NULL;
	}
	slot = slot_at(place);
	if (!slot)
		return NULL;
	mine = mark->owner == own && is_slot_of(slot, task, inode);
	cpu->busy = 1;
	barrier();
	mark->candidate = 0;
	cpu->used |= slot_run(place);
	if (mine)
		return slot;
	mark->owner = 0;
	if (take_slot(slot, &subject)) {
		mark->owner = own;
		return slot;
	}
	cpu->busy = 0;
	return NULL;
}

static __always_inline void close_slot(struct cpu *cpu)
{
	barrier();
	cpu->busy = 0;
}

/* Books a write on the slot of its file and process, without atomics; false: there is none. */
static __always_inline bool book_write_in_slot(struct task_struct *task, struct inode *inode, u64 requests, u64 pages,
					       u64 bytes)
{
	struct cpu *cpu = this_cpu();
	struct slot *slot;

	if (config.detail == DETAIL_TOTALS || !cpu || cpu->busy || !(slot = open_slot(cpu, task, inode)))
		return false;
	slot->write_requests += requests;
	slot->write_pages += pages;
	slot->write_bytes += bytes;
	close_slot(cpu);
	return true;
}

/* Books what a read did: on the CPU's own sums, without atomics, if nothing is in the way. */
static __always_inline void book_read(struct task_struct *task, struct address_space *mapping,
				      const struct tally *tally)
{
	struct cpu *cpu = this_cpu();
	struct inode *inode = READ(mapping, host);
	struct slot *slot;

	if (!cpu)
		return;
	if (!cpu->busy && config.detail == DETAIL_TOTALS) {
		if (config.file_filter) {
			struct file_id id;

			file_of(inode, &id);
			if (!is_wanted(&id))
				return;
		}
		cpu->busy = 1;
		barrier();
		cpu->requests += tally->requests;
		cpu->pages += tally->pages;
		cpu->bytes += tally->bytes;
		cpu->hits += hits_of(tally);
		barrier();
		cpu->busy = 0;
		if (tally->misses | tally->ahead | tally->used) {
			ADD(&cpu->total, read_missed_pages, tally->misses);
			ADD(&cpu->total, readahead_pages, tally->ahead);
			ADD(&cpu->total, readahead_hit_pages, tally->used);
		}
		return;
	}
	if (!cpu->busy && (slot = open_slot(cpu, task, inode))) {
		slot->requests += tally->requests;
		slot->pages += tally->pages;
		slot->bytes += tally->bytes;
		slot->hits += hits_of(tally);
		slot->misses += tally->misses;
		slot->ahead += tally->ahead;
		slot->used += tally->used;
		close_slot(cpu);
		return;
	}
	book_read_apart((u64)mapping, tally);
}

#endif
