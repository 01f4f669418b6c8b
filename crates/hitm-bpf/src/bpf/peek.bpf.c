// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Reads the kernel's memory, when user space runs it (BPF_PROG_TEST_RUN of a raw tracepoint, Linux 5.10). It is
// attached to nothing.
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PIECE_BYTES 4096

struct piece {
	u8 bytes[PIECE_BYTES];
};

struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct piece);
} pieces SEC(".maps");

// Arguments: an address, and the bytes to read. Returns 0 when all of them could be read.
SEC("raw_tp")
int peek(u64 *ctx)
{
	u32 first = 0;
	struct piece *piece = bpf_map_lookup_elem(&pieces, &first);
	u64 size = ctx[1];

	if (!piece || size > PIECE_BYTES)
		return 1;
	return bpf_probe_read_kernel(piece->bytes, size, (const void *)ctx[0]) != 0;
}
