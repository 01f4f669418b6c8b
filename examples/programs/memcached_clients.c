/*
 * Clients of memcached on a socket of the file system: SOCKET CLIENTS ROUNDS. Each sets and gets one of 100 keys a
 * round. Prints how many keys were found.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *path;
static int rounds;
static long hits[64][8];

static void *work(void *arg)
{
	long me = (long)arg;
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char out[256], in[4096];
	int fd;
	strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
	for (;;) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (void *)&to, sizeof(to)) == 0)
			break;
		close(fd);
		usleep(1000);
	}
	for (int i = 0; i < rounds; i++) {
		int key = (i * 7 + me) % 100;
		int n = snprintf(out, sizeof(out), "set k%d 0 0 8\r\n12345678\r\nget k%d\r\n", key, key);
		if (write(fd, out, n) != n)
			exit(1);
		for (n = 0;;) {
			n += read(fd, in + n, sizeof(in) - 1 - n);
			in[n] = 0;
			if (strstr(in, "END\r\n"))
				break;
		}
		hits[me][0] += strstr(in, "VALUE") != NULL;
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	long sum = 0;
	int count = atoi(argv[2]);
	path = argv[1];
	rounds = atoi(argv[3]);
	for (long i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (long i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		sum += hits[i][0];
	}
	printf("hits %ld\n", sum);
	return 0;
}
