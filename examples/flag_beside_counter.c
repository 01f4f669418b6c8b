/* A flag that everybody reads and nobody changes, beside a counter that one thread writes all the
 * time: every write takes the flag away from its readers. */
#include "common.h"

struct control {
	volatile int enabled;
	volatile int reserved;
	volatile uint64_t sequence_ctr;
};

static struct control control __attribute__((aligned(CACHE_LINE))) = { .enabled = 1 };

static void run(long id, const struct options *options)
{
	volatile uint64_t scratch[8];
	uint64_t hash = (uint64_t)id + 1;

	for (long i = 0; i < options->iterations; i++) {
		if (id == 0)
			control.sequence_ctr++;
		else if (!control.enabled)
			break;
		hash = private_work(options->work, hash, scratch);
	}
}

int main(int argc, char **argv)
{
	struct options defaults = { .iterations = 50000, .work = 3, .threads = 4 };

	return run_threads(run, options_from(argc, argv, defaults));
}
