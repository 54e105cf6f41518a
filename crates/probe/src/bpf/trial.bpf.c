// SPDX-License-Identifier: GPL-2.0
/* One program for each way to hook into the kernel, to be tried one at a time. They do nothing. */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/mm_filemap_add_to_page_cache")
int try_raw_tracepoint(void *context)
{
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int try_btf_tracepoint(void *context)
{
	return 0;
}

SEC("fentry/filemap_add_folio")
int try_fentry(void *context)
{
	return 0;
}

SEC("kprobe/filemap_add_folio")
int try_kprobe(void *context)
{
	return 0;
}

SEC("iter/task")
int try_iterator(void *context)
{
	return 0;
}
