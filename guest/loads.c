// Loads that fight for one lock of the kernel or of the C library, to show what finds it.
//
// usage: loads LOAD [--threads N] [--seconds S] [OPTIONS of the load]
//
//   file-copy  copies through one pair of files, as UnixBench's copies did until 2023: the inode's i_rwsem
//              --block BYTES of a read and a write (4096), --blocks BLOCKS of the file (8000)
//              --folder PATH of the files (/tmp)
//   mmap       maps, touches and unmaps memory of one process: its mmap_lock
//              --pages PAGES of a mapping (16)
//   mutex      work inside and outside of one pthread mutex, which waits by futex
//              --inside NANOSECONDS (1000), --outside NANOSECONDS (1000)
//   dup        takes and gives back descriptors of one process: the spinlock of its table of files
//   hogs       threads that never sleep
//              --cgroup FOLDER whose cgroup.procs this process is written to
//
// It prints one line: threads, seconds of the machine's time, operations a second in all. file-copy prints
// UnixBench's points as well: KB a second over its baseline, times ten.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long threads, seconds = 5;
static long block_bytes = 4096, blocks = 8000, pages = 16, inside = 1000, outside = 1000;
static const char *folder = "/tmp", *cgroup;

static atomic_int is_over;
static char source[4096], copy[4096];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

// What a thread has done, on a line of its own.
struct worker {
	_Alignas(128) long operations;
	const struct load *load;
};

struct load {
	const char *name;
	void (*prepare)(void);
	// Works until `is_over`.
	void (*run)(struct worker *);
	void (*clean)(void);
};

static void fail(const char *what)
{
	fprintf(stderr, "loads: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int going_on(void)
{
	return !atomic_load_explicit(&is_over, memory_order_relaxed);
}

// The file copy of UnixBench: fstime.c's c_test, whose copies all name the same two files.

static void file_copy_prepare(void)
{
	char *block = calloc(1, block_bytes);

	snprintf(source, sizeof(source), "%s/loads.%d.in", folder, getpid());
	snprintf(copy, sizeof(copy), "%s/loads.%d.out", folder, getpid());
	int in = open(source, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int out = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0600);

	if (in < 0 || out < 0 || !block)
		fail(folder);
	for (long i = 0; i < blocks; i++)
		if (write(in, block, block_bytes) != block_bytes)
			fail(source);
	close(in);
	close(out);
	free(block);
}

static void file_copy_run(struct worker *self)
{
	char *block = calloc(1, block_bytes);
	int in = open(source, O_RDONLY), out = open(copy, O_WRONLY);

	if (in < 0 || out < 0 || !block)
		fail("file-copy");
	for (long at = 0; going_on(); at++) {
		if (at == blocks) {
			lseek(in, 0, SEEK_SET);
			lseek(out, 0, SEEK_SET);
			at = 0;
		}
		if (read(in, block, block_bytes) != block_bytes)
			fail(source);
		if (write(out, block, block_bytes) != block_bytes)
			fail(copy);
		self->operations++;
	}
	close(in);
	close(out);
	free(block);
}

static void file_copy_clean(void)
{
	unlink(source);
	unlink(copy);
}

static void mmap_run(struct worker *self)
{
	long page = sysconf(_SC_PAGESIZE);

	for (; going_on(); self->operations++) {
		char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			fail("mmap");
		for (long i = 0; i < pages; i++)
			memory[i * page] = 1;
		munmap(memory, pages * page);
	}
}

static uint64_t nanos(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void work(long length)
{
	for (uint64_t start = nanos(); (long)(nanos() - start) < length;)
		;
}

static void mutex_run(struct worker *self)
{
	for (; going_on(); self->operations++) {
		pthread_mutex_lock(&mutex);
		work(inside);
		pthread_mutex_unlock(&mutex);
		work(outside);
	}
}

// Each thread duplicates a file of its own, so that they share nothing but the table of descriptors.
static void dup_run(struct worker *self)
{
	int file = eventfd(0, 0);

	if (file < 0)
		fail("eventfd");
	for (; going_on(); self->operations++) {
		int other = dup(file);

		if (other < 0)
			fail("dup");
		close(other);
	}
	close(file);
}

static void hogs_prepare(void)
{
	char path[4096];

	if (!cgroup)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, "0", 1) != 1)
		fail(path);
	close(file);
}

static void hogs_run(struct worker *self)
{
	for (; going_on(); self->operations++)
		for (volatile int i = 0; i < 1000; i++)
			;
}

static void nothing(void)
{
}

static const struct load loads[] = {
	{ "file-copy", file_copy_prepare, file_copy_run, file_copy_clean },
	{ "mmap", nothing, mmap_run, nothing },
	{ "mutex", nothing, mutex_run, nothing },
	{ "dup", nothing, dup_run, nothing },
	{ "hogs", hogs_prepare, hogs_run, nothing },
};

static void *body(void *argument)
{
	struct worker *self = argument;

	self->load->run(self);
	return NULL;
}

// UnixBench's baselines in KB a second, of its three sizes: fsbuffer, fstime, fsdisk.
static double baseline(void)
{
	switch (block_bytes) {
	case 256: return 1655;
	case 1024: return 3960;
	case 4096: return 5800;
	default: return 0;
	}
}

static void print(const struct load *load, long operations, double took)
{
	printf("%s: %ld threads, %.2f s, %.0f operations/s", load->name, threads, took,
	       operations / took);
	if (load->run == file_copy_run) {
		double kib = operations * (block_bytes / 1024.0) / took;

		printf(", %.0f KB/s", kib);
		if (baseline() > 0)
			printf(", %.1f points", kib / baseline() * 10);
	}
	putchar('\n');
}

static void run(const struct load *load)
{
	struct timespec duration = { seconds, 0 };
	struct worker *workers = aligned_alloc(128, threads * sizeof(*workers));
	pthread_t *ids = calloc(threads, sizeof(*ids));
	long operations = 0;

	if (!workers || !ids)
		fail("memory");
	load->prepare();
	uint64_t start = nanos();
	for (long i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .operations = 0, .load = load };
		errno = pthread_create(&ids[i], NULL, body, &workers[i]);
		if (errno)
			fail("a thread");
	}
	while (nanosleep(&duration, &duration) && errno == EINTR)
		;
	atomic_store(&is_over, 1);
	for (long i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	double took = (nanos() - start) / 1e9;
	for (long i = 0; i < threads; i++)
		operations += workers[i].operations;
	load->clean();
	print(load, operations, took);
}

static long number(const char *option, const char *text, long least)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end || value < least || value > 1000000000) {
		fprintf(stderr, "loads: %s %s: expected a number of %ld or more\n", option, text, least);
		exit(2);
	}
	return value;
}

static void set(const char *option, const char *value)
{
	static const struct {
		const char *name;
		long *value, least;
	} numbers[] = {
		{ "--threads", &threads, 1 },  { "--seconds", &seconds, 1 }, { "--block", &block_bytes, 1 },
		{ "--blocks", &blocks, 1 },    { "--pages", &pages, 1 },     { "--inside", &inside, 0 },
		{ "--outside", &outside, 0 },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(option, numbers[i].name)) {
			*numbers[i].value = number(option, value, numbers[i].least);
			return;
		}
	if (!strcmp(option, "--folder")) {
		folder = value;
	} else if (!strcmp(option, "--cgroup")) {
		cgroup = value;
	} else {
		fprintf(stderr, "loads: %s: no such option\n", option);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	const struct load *load = NULL;

	threads = sysconf(_SC_NPROCESSORS_ONLN);
	for (size_t i = 0; argc > 1 && i < sizeof(loads) / sizeof(*loads); i++)
		if (!strcmp(argv[1], loads[i].name))
			load = &loads[i];
	if (!load || argc % 2) {
		fprintf(stderr, "usage: loads file-copy|mmap|mutex|dup|hogs [--threads N] "
				"[--seconds S] [--OPTION VALUE]\n");
		return 2;
	}
	for (int i = 2; i < argc; i += 2)
		set(argv[i], argv[i + 1]);
	run(load);
	return 0;
}
