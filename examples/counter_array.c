/* Per-thread counters side by side in an array: no two threads touch the same bytes, all of them
 * touch the same line. */
#include "common.h"

static volatile uint64_t counters[8] __attribute__((aligned(CACHE_LINE)));

static void count(long id, const struct options *options)
{
	volatile uint64_t scratch[8];
	uint64_t hash = (uint64_t)id + 1;

	for (long i = 0; i < options->iterations; i++) {
		counters[id % 8]++;
		hash = private_work(options->work, hash, scratch);
	}
}

int main(int argc, char **argv)
{
	struct options defaults = { .iterations = 50000, .work = 3, .threads = 4 };

	return run_threads(count, options_from(argc, argv, defaults));
}
