// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Sums of a program, and what did not fit. COUNTS, their number, is defined before.
#pragma once

struct {
	MAP_INT(type, BPF_MAP_TYPE_ARRAY);
	MAP_INT(max_entries, COUNTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} counts SEC(".maps");
