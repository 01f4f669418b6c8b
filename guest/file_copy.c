// Writers that share one file, as the copies of UnixBench's file-copy test do: every write takes the
// inode's lock.
//
// usage: file_copy [-t WRITERS] [-b BYTES of a write] [-f BLOCKS of the file] [-n ROUNDS: each writes all
//                  blocks]
// It prints the bytes written in all and in a second of the machine's time.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATH "/tmp/file_copy.data"

static long writers, block_bytes = 4096, blocks = 64, rounds = 4;

static void *writer(void *argument)
{
	char *block = calloc(1, block_bytes);
	int fd = open(PATH, O_RDWR);

	(void)argument;
	if (fd < 0 || !block) {
		fprintf(stderr, "file_copy: %s: %s\n", PATH, strerror(errno));
		exit(1);
	}
	for (long round = 0; round < rounds; round++) {
		lseek(fd, 0, SEEK_SET);
		for (long i = 0; i < blocks; i++) {
			if (write(fd, block, block_bytes) != block_bytes) {
				fprintf(stderr, "file_copy: write: %s\n", strerror(errno));
				exit(1);
			}
		}
	}
	close(fd);
	free(block);
	return NULL;
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value <= 0 || value > 100000000) {
		fprintf(stderr, "file_copy: '%s' is not a number above 0\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	int option, fd;

	writers = sysconf(_SC_NPROCESSORS_ONLN);
	while ((option = getopt(argc, argv, "t:b:f:n:")) != -1) {
		switch (option) {
		case 't': writers = number(optarg); break;
		case 'b': block_bytes = number(optarg); break;
		case 'f': blocks = number(optarg); break;
		case 'n': rounds = number(optarg); break;
		default: return 2;
		}
	}
	pthread_t *threads = calloc(writers, sizeof(*threads));
	fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || !threads) {
		fprintf(stderr, "file_copy: %s: %s\n", PATH, strerror(errno));
		return 1;
	}
	close(fd);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (long i = 0; i < writers; i++)
		if (pthread_create(&threads[i], NULL, writer, NULL)) {
			fprintf(stderr, "file_copy: cannot start a thread\n");
			return 1;
		}
	for (long i = 0; i < writers; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	double seconds = (end.tv_sec - begin.tv_sec) + (end.tv_nsec - begin.tv_nsec) / 1e9;
	double kib = (double)writers * rounds * blocks * block_bytes / 1024;
	printf("file_copy: %ld writers, %.0f KiB, %.0f KiB a second\n", writers, kib, kib / seconds);
	return 0;
}
