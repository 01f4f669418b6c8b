/* Waits for locks of the kernel: threads take one of a kind again and again. By the kernel's own count it prints the
 * time of all threads and the part of it in which they had no CPU. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 256, PAGES = 16, PAGE_BYTES = 4096, BLOCK_BYTES = 65536 };

static int thread_count, turns;
static void (*take_turn)(void);
static atomic_int ready_count;
static atomic_long all_ns, asleep_ns;
static int shared_file;
static char block[BLOCK_BYTES];

static long now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* The memory map's rwsem, whose holder may sleep itself. */
static void map(void) {
    char *pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        exit(1);
    for (int page = 0; page < PAGES; page++)
        pages[page * PAGE_BYTES] = 1;
    munmap(pages, PAGES * PAGE_BYTES);
}

/* The inode's rwsem, for which writers spin. */
static void write_file(void) {
    if (pwrite(shared_file, block, sizeof block, 0) < 0)
        exit(1);
}

/* The mutex of a file's position. */
static void read_file(void) {
    char text[BLOCK_BYTES];
    if (read(shared_file, text, sizeof text) < 0)
        exit(1);
    lseek(shared_file, 0, SEEK_SET);
}

/* The spinlock of the table of files. */
static void duplicate(void) {
    close(dup(shared_file));
}

static const struct {
    const char *name;
    void (*turn)(void);
} kinds[] = {{"rwsem", map}, {"osq", write_file}, {"mutex", read_file}, {"qspinlock", duplicate}};

static void *run(void *unused) {
    ready_count++;
    while (ready_count < thread_count) {
    }
    long start = now_ns(CLOCK_MONOTONIC), ran = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int turn = 0; turn < turns; turn++)
        take_turn();
    ran = now_ns(CLOCK_THREAD_CPUTIME_ID) - ran;
    long all = now_ns(CLOCK_MONOTONIC) - start;
    all_ns += all;
    asleep_ns += all > ran ? all - ran : 0;
    return unused;
}

int main(int count, char **arguments) {
    if (count != 4)
        return 2;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (!strcmp(kinds[kind].name, arguments[1]))
            take_turn = kinds[kind].turn;
    thread_count = atoi(arguments[2]);
    turns = atoi(arguments[3]);
    shared_file = open("/tmp/shared", O_CREAT | O_RDWR, 0600);
    if (!take_turn || thread_count > THREADS_MAX || shared_file < 0 || write(shared_file, block, sizeof block) < 0)
        return 2;
    pthread_t threads[THREADS_MAX];
    for (int thread = 0; thread < thread_count; thread++)
        pthread_create(&threads[thread], NULL, run, NULL);
    for (int thread = 0; thread < thread_count; thread++)
        pthread_join(threads[thread], NULL);
    printf("%s: %ld ns of the threads' %ld ns without a CPU\n", arguments[1], asleep_ns, all_ns);
    return 0;
}
