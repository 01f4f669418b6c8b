// SPDX-License-Identifier: MIT OR GPL-2.0-only
// The smallest program that needs what all others need: BTF, a typed tracepoint and a ring buffer.
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	MAP_INT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_INT(max_entries, 4096);
} events SEC(".maps");

SEC("tp_btf/sched_switch")
int probe_switch(u64 *ctx)
{
	struct task_struct *next = (struct task_struct *)ctx[2];

	// Never true; the verifier does not know that.
	if (next->pid < 0) {
		u64 *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
		if (event) {
			*event = bpf_ktime_get_ns();
			bpf_ringbuf_submit(event, 0);
		}
	}
	return 0;
}
