/* Threads that have the kernel do one thing again and again, for which it has one object for all of them.
 *
 *   kernel_work open  [THREADS [ROUNDS]]    open and close a file: their process's table of files
 *   kernel_work write [THREADS [ROUNDS]]    write to one file, each at its own place: the file's inode
 *   kernel_work fork  [THREADS [ROUNDS]]    fork and wait for the child: their process's memory
 *
 * 2 threads, 100,000 rounds each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 64

static long rounds = 100000;
static atomic_int has_failed;
static int shared_file;

static void *open_and_close(void *number)
{
	for (long i = 0; i < rounds; i++) {
		int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		if (file < 0)
			has_failed = 1;
		close(file);
	}
	return number;
}

static void *write_at_own_place(void *number)
{
	char bytes[64] = "";

	for (long i = 0; i < rounds; i++)
		if (pwrite(shared_file, bytes, sizeof bytes, (long)number * (long)sizeof bytes) < 0)
			has_failed = 1;
	return number;
}

static void *fork_and_wait(void *number)
{
	for (long i = 0; i < rounds; i++) {
		pid_t child = fork();
		if (!child)
			_exit(0);
		if (child < 0 || waitpid(child, NULL, 0) != child)
			has_failed = 1;
	}
	return number;
}

static void *(*work_of(const char *name))(void *)
{
	if (!strcmp(name, "open"))
		return open_and_close;
	if (!strcmp(name, "write"))
		return write_at_own_place;
	if (!strcmp(name, "fork"))
		return fork_and_wait;
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	void *(*work)(void *) = argc > 1 ? work_of(argv[1]) : NULL;
	int count = argc > 2 ? atoi(argv[2]) : 2;
	char name[] = "kernel_work.XXXXXX";

	if (argc > 3)
		rounds = atol(argv[3]);
	if (!work || count < 1 || count > THREADS_MAX) {
		fprintf(stderr, "usage: kernel_work open|write|fork [THREADS [ROUNDS]], up to %d threads\n", THREADS_MAX);
		return 2;
	}
	shared_file = mkstemp(name);
	if (shared_file < 0)
		return 1;
	unlink(name);
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return has_failed;
}
