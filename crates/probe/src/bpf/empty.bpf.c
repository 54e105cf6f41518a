// SPDX-License-Identifier: GPL-2.0
/* Programs that do nothing, on the same tracepoints: what the hooks themselves cost (see the bench). */
#include "kernel.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/mm_filemap_get_pages")
int empty_get_pages(void *context)
{
	return 0;
}

SEC("raw_tp/mm_filemap_add_to_page_cache")
int empty_insert(void *context)
{
	return 0;
}

SEC("raw_tp/mm_filemap_delete_from_page_cache")
int empty_delete(void *context)
{
	return 0;
}

SEC("raw_tp/mm_filemap_map_pages")
int empty_map_pages(void *context)
{
	return 0;
}

SEC("raw_tp/mm_filemap_fault")
int empty_fault(void *context)
{
	return 0;
}
