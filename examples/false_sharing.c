/* The example of the false-sharing talk: four threads, each with a member of its own in one struct;
 * one reads, the others increment. Packed, the members share a line; with -DPADDED each has a line
 * of its own. */
#include "common.h"

#ifdef PADDED
#define OWN_LINE __attribute__((aligned(CACHE_LINE)))
#else
#define OWN_LINE
#endif

struct foo {
	OWN_LINE volatile int w;
	OWN_LINE volatile int x;
	OWN_LINE volatile int y;
	OWN_LINE volatile int z;
};

static struct foo f __attribute__((aligned(CACHE_LINE)));

static volatile int *member_of(long id)
{
	volatile int *members[] = { &f.x, &f.y, &f.z, &f.w };

	return members[id % 4];
}

static void touch_own_member(long id, const struct options *options)
{
	volatile int *member = member_of(id);
	volatile uint64_t scratch[8];
	uint64_t hash = (uint64_t)id + 1;
	int sum = 0;

	if (id == 0) {
		for (long i = 0; i < options->iterations; i++) {
			sum += *member;
			hash = private_work(options->work, hash, scratch);
		}
	} else {
		for (long i = 0; i < options->iterations; i++) {
			++*member;
			hash = private_work(options->work, hash, scratch);
		}
	}
	scratch[0] = hash + (uint64_t)sum;
}

int main(int argc, char **argv)
{
	struct options defaults = { .iterations = 100000, .work = 3, .threads = 4 };

	return run_threads(touch_own_member, options_from(argc, argv, defaults));
}
