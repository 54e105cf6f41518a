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
	unsigned long word = config.probe_reads ? peek((u64)folio) : *(volatile unsigned long *)folio;

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

/* btrfs gives each subvolume a device of its own, which stat(2) shows and s_dev does not. */
static __always_inline void file_of(struct inode *inode, struct file_id *id)
{
	id->inode = 0;
	id->generation = 0;
	if (S_ISBLK(READ(inode, i_mode))) {
		id->dev = READ(inode, i_rdev);
		return;
	}
	id->inode = READ(inode, i_ino);
	id->generation = READ(inode, i_generation);
	id->dev = READ(inode, i_sb, s_dev);
	if (READ(inode, i_sb, s_magic) == BTRFS_SUPER_MAGIC && bpf_core_type_exists(struct btrfs_inode)) {
		struct btrfs_inode *b =
			(void *)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode);

		id->dev = PEEK2(b, root, anon_dev);
	}
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

struct name_walk {
	struct file_record *record;
	struct dentry *dentry;
};

/* How much is used stands in the record and not in the walk: the verifier need not follow it there. */
static long name_step(u32 i, void *context)
{
	struct name_walk *walk = context;
	struct dentry *dentry = walk->dentry, *parent = PEEK1(dentry, d_parent);
	const unsigned char *name;
	long length;
	u32 used;

	if (!parent || parent == dentry) {
		walk->record->whole = 1;
		return 1;
	}
	name = PEEK1(dentry, d_name.name);
	used = walk->record->length;
	if (i == LEVELS_MAX || used >= NAMES_MAX)
		return 1;
	/* older verifiers forget the bounds of what was kept on the stack: they are set here again */
	barrier_var(used);
	used &= NAMES_MAX - 1;
	length = bpf_probe_read_kernel_str(&walk->record->names[used], NAME_MAX + 1, name);
	if (length <= 0)
		return 1;
	walk->record->length = used + length;
	walk->dentry = parent;
	return 0;
}

/* An inode, by its address, into which `just_added` pages were put a moment ago. */
struct subject {
	u64 inode;
	u64 just_added;
};

#define ALIASES_SEEN 64

static long older_alias(u32 i, void *context)
{
	struct hlist_node **alias = context, *next = NULL;

	if (*alias)
		next = PEEK1(*alias, next);
	if (!next)
		return 1;
	*alias = next;
	return 0;
}

/* Tells user space of a file: its name as the dentries have it, and what it had in the cache. */
ONCE int announce(struct subject *subject)
{
	struct cpu *cpu = this_cpu();
	struct name_walk walk = {};
	struct hlist_node *alias;
	struct inode *inode;
	struct file_id id;
	u32 zero = 0, round = naming_round, used, *known;
	u64 resident, waiting;
	long failed;

	if (!subject || !cpu)
		return 0;
	inode = PLAIN(inode, (void *)subject->inode);
	file_of(inode, &id);
	known = bpf_map_lookup_elem(&files, &id);
	if (known && *known == round)
		return 0;
	walk.record = bpf_map_lookup_elem(&scratch, &zero);
	if (!walk.record || cpu->naming)
		return 0;
	if (known) {
		*known = round; /* two CPUs at once: the record comes twice */
	} else if ((failed = bpf_map_update_elem(&files, &id, &round, BPF_NOEXIST))) {
		if (failed != -EEXIST)
			__sync_fetch_and_add(&lost.names, 1);
		return 0;
	}
	cpu->naming = 1;
	barrier();
	resident = READ(inode, i_mapping, nrpages);
	walk.record->id = id;
	walk.record->size = READ(inode, i_size);
	walk.record->resident_pages = resident > subject->just_added ? resident - subject->just_added : 0;
	walk.record->magic = READ(inode, i_sb, s_magic);
	walk.record->super_dev = READ(inode, i_sb, s_dev);
	walk.record->mode = READ(inode, i_mode);
	walk.record->unlinked = !READ(inode, i_nlink);
	walk.record->whole = walk.record->length = 0;
	/* of a hard-linked file's names the oldest that is cached: new ones come to the head */
	alias = READ(inode, i_dentry.first);
	bpf_loop(ALIASES_SEEN, older_alias, &alias, 0);
	if (alias && !S_ISBLK(walk.record->mode)) {
		struct dentry *dentry =
			(void *)alias - bpf_core_field_offset(struct dentry, d_u.d_alias);

		walk.dentry = dentry;
		if (!PEEK1(dentry, d_hash.pprev))
			walk.record->unlinked = 1;
		bpf_loop(LEVELS_MAX + 1, name_step, &walk, 0); /* the root has no name */
	}
	/* user space empties the ring when it looks at the rows; waking it for each record would cost more
	 * than the rest */
	waiting = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
	used = walk.record->length;
	if (used > sizeof(walk.record->names))
		walk.record->length = used = sizeof(walk.record->names);
	if (bpf_ringbuf_output(&records, walk.record,
			       __builtin_offsetof(struct file_record, names) + used,
			       waiting < RECORDS_BYTES / 4 ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP)) {
		__sync_fetch_and_add(&lost.names, 1);
		/* the next row of this file tries again; of one that has a name, in the next round */
		if (!known)
			bpf_map_delete_elem(&files, &id);
	}
	barrier();
	cpu->naming = 0;
	return 0;
}

/* Which of the two tables rows are made in. It may change at any time: ask once, and stay with it. */
static __always_inline bool on_other_side(void)
{
	return config.stretches && *(volatile u32 *)&side;
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

static __noinline struct ledger *row_of(struct row_key *key)
{
	static const struct ledger empty;
	static const struct row_key overflow;
	bool other = on_other_side();
	struct ledger *row;

	if (!key)
		return NULL;
	row = find_row(other, key);
	if (row)
		return row;
	make_row(other, key, &empty);
	row = find_row(other, key);
	if (row)
		return row;
	/* The table is full. User space made this row at the start, so that sums stay whole. */
	__sync_fetch_and_add(&lost.rows, 1);
	return find_row(other, &overflow);
}

/* The ledger for what `task` does to `inode`; NULL: not to be counted. */
static __always_inline struct ledger *ledger_of(struct task_struct *task, struct inode *inode,
						u64 just_added, struct row_key *key)
{
	file_of(inode, &key->file);
	if (!is_wanted(&key->file))
		return NULL;
	if (config.detail == DETAIL_TOTALS)
		return cpu_total();
	process_of(task, &key->process);
	struct ledger *row = find_row(on_other_side(), key);

	if (row)
		return row;
	struct subject subject = { (u64)inode, just_added };

	meet_row();
	announce(&subject);
	return row_of(key);
}

/* As above for a key that was kept. */
static __always_inline struct ledger *ledger_of_key(struct row_key *key)
{
	if (config.detail == DETAIL_TOTALS)
		return cpu_total();
	return row_of(key);
}

ONCE int empty_slot(struct slot *slot)
{
	struct ledger *row;
	bool other = on_other_side();
	struct row_key key;

	/* a later chunk of a call that began on another CPU leaves pages here without a request */
	if (!slot || !(slot->requests | slot->pages | slot->misses | slot->ahead))
		return 0;
	key = slot->key; /* a map's key has to be on the stack */
	row = find_row(other, &key);
	if (!row) {
		/* mostly a short-lived process's only reads of a file: one step instead of three */
		struct cpu *cpu = this_cpu();

		if (!cpu)
			return 0;
		cpu->fresh.read_requests = slot->requests;
		cpu->fresh.read_requested_pages = slot->pages;
		cpu->fresh.read_requested_bytes = slot->bytes;
		cpu->fresh.read_hit_pages = slot->hits;
		cpu->fresh.read_missed_pages = slot->misses;
		cpu->fresh.readahead_pages = slot->ahead;
		cpu->fresh.readahead_hit_pages = slot->used;
		if (!make_row(other, &key, &cpu->fresh))
			goto booked;
		row = row_of(&key);
	}
	ADD(row, read_requests, slot->requests);
	ADD(row, read_requested_pages, slot->pages);
	ADD(row, read_requested_bytes, slot->bytes);
	ADD(row, read_hit_pages, slot->hits);
	if (slot->misses | slot->ahead | slot->used) {
		ADD(row, read_missed_pages, slot->misses);
		ADD(row, readahead_pages, slot->ahead);
		ADD(row, readahead_hit_pages, slot->used);
	}
booked:
	slot->requests = slot->pages = slot->bytes = slot->hits = 0;
	slot->misses = slot->ahead = slot->used = 0;
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
	file_of(inode, &slot->key.file);
	if (!is_wanted(&slot->key.file))
		return 0;
	process_of(task, &slot->key.process);
	meet_row();
	announce(subject);
	slot->mapping = (u64)READ(inode, i_mapping);
	slot->tgid = slot->key.process.tgid;
	slot->start = slot->key.process.start;
	slot->groups = (u64)task->cgroups;
	slot->inode = READ(inode, i_ino);
	slot->generation = READ(inode, i_generation);
	return 1;
}

/* Books what a read did: on the CPU's own sums, without atomics, if nothing is in the way. */
static __always_inline void book_read(struct task_struct *task, struct address_space *mapping,
				      const struct tally *tally)
{
	struct cpu *cpu = this_cpu();
	struct inode *inode = READ(mapping, host);
	struct row_key key;
	struct ledger *ledger;

	if (!cpu)
		return;
	if (!cpu->busy && config.detail == DETAIL_TOTALS) {
		if (config.file_filter) {
			file_of(inode, &key.file);
			if (!is_wanted(&key.file))
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
	if (!cpu->busy) {
		u64 hash = (READ(inode, i_ino) ^ (u64)task->tgid << 32) * 0x9E3779B97F4A7C15ULL;
		struct slot *slot = &cpu->slots[hash >> 58];
		bool mine = slot->mapping == (u64)READ(inode, i_mapping) && slot->tgid == task->tgid &&
			    slot->start == task->group_leader->start_time &&
			    slot->groups == (u64)task->cgroups && slot->inode == READ(inode, i_ino) &&
			    slot->generation == READ(inode, i_generation);

		cpu->busy = 1;
		barrier();
		if (!mine) {
			struct subject subject = { (u64)inode, 0 };

			mine = take_slot(slot, &subject);
		}
		if (mine) {
			slot->requests += tally->requests;
			slot->pages += tally->pages;
			slot->bytes += tally->bytes;
			slot->hits += hits_of(tally);
			slot->misses += tally->misses;
			slot->ahead += tally->ahead;
			slot->used += tally->used;
		}
		barrier();
		cpu->busy = 0;
		return;
	}
	ledger = ledger_of(task, inode, 0, &key);
	ADD(ledger, read_requests, tally->requests);
	ADD(ledger, read_requested_pages, tally->pages);
	ADD(ledger, read_requested_bytes, tally->bytes);
	ADD(ledger, read_hit_pages, hits_of(tally));
	ADD(ledger, read_missed_pages, tally->misses);
	ADD(ledger, readahead_pages, tally->ahead);
	ADD(ledger, readahead_hit_pages, tally->used);
}

#endif
