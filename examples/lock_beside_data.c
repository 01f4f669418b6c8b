/* A spin lock in the line of the data that it protects: every CPU that waits for the lock takes the
 * line away from the one that works under it. */
#include "common.h"

#include <stdatomic.h>

struct account {
	atomic_int lock;
	volatile long balance;
	volatile long transfers;
};

static struct account account __attribute__((aligned(CACHE_LINE)));

static void lock(struct account *a)
{
	while (atomic_exchange_explicit(&a->lock, 1, memory_order_acquire))
		while (atomic_load_explicit(&a->lock, memory_order_relaxed))
			__builtin_ia32_pause();
}

static void unlock(struct account *a)
{
	atomic_store_explicit(&a->lock, 0, memory_order_release);
}

static void transfer(long id, const struct options *options)
{
	volatile uint64_t scratch[8];
	uint64_t hash = (uint64_t)id + 1;

	for (long i = 0; i < options->iterations; i++) {
		lock(&account);
		account.balance += id;
		account.transfers++;
		unlock(&account);
		hash = private_work(options->work, hash, scratch);
	}
}

int main(int argc, char **argv)
{
	struct options defaults = { .iterations = 10000, .work = 8, .threads = 4 };

	return run_threads(transfer, options_from(argc, argv, defaults));
}
