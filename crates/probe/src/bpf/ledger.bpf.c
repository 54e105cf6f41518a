// SPDX-License-Identifier: GPL-2.0
/*
 * The ledger: exact accounts of what tasks ask of the page cache, from raw tracepoints (6.12 and later).
 * Definitions of every number: `cachewise_model::Counter`.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "ledger.h"
#include "maps.h"
#include "arch.h"
#include "request.h"
#include "aio.h"
#include "identity.h"
#include "file.h"
#include "naming.h"
#include "account.h"
#include "access.h"
#include "prefetch.h"
#include "again.h"
#include "fetch.h"
#include "stack.h"
#include "result.h"
#include "flight.h"
#include "served.h"
#include "read.h"
#include "evict.h"
#include "insert.h"
#include "fault.h"
#include "write.h"
#include "direct.h"
#include "uring.h"
#include "landing.h"
#include "function.h"
#include "syscall.h"
#include "process.h"
#include "change.h"
#include "timing.h"
#include "wait.h"
#include "walk.h"

char LICENSE[] SEC("license") = "GPL";
