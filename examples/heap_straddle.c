/* Per-thread structs of 48 bytes in one heap array: neighbours share lines, and some structs lie
 * across a line boundary. */
#include "common.h"

struct worker {
	volatile uint64_t done;
	volatile uint64_t bytes;
	volatile uint64_t errors;
	uint64_t padding[3];
};

static struct worker *workers;

static void work(long id, const struct options *options)
{
	struct worker *own = &workers[id];
	volatile uint64_t scratch[8];
	uint64_t hash = (uint64_t)id + 1;

	for (long i = 0; i < options->iterations; i++) {
		own->done++;
		own->bytes += 64;
		hash = private_work(options->work, hash, scratch);
	}
}

int main(int argc, char **argv)
{
	struct options defaults = { .iterations = 50000, .work = 3, .threads = 4 };
	struct options options = options_from(argc, argv, defaults);

	/* 16 bytes beyond a line boundary, where malloc puts blocks of this size. */
	workers = calloc((size_t)options.threads, sizeof(*workers));
	if (!workers)
		return 1;
	return run_threads(work, options);
}
