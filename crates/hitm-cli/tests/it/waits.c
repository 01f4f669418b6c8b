/* Ways to wait: four threads take turns at a lock of one kind, and work under it on what nobody else uses.
 * `work` has the same work and no lock. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 30, WORK = 4000 };

struct node {
    _Alignas(64) struct node *next;
    int ready;
};

static _Alignas(64) int word;
static _Alignas(64) int turn;
static _Alignas(64) unsigned next_ticket;
static _Alignas(64) unsigned serving;
static _Alignas(64) struct node *tail;
static struct node nodes[THREADS + 1];
static _Alignas(64) pthread_spinlock_t spinlock;
static _Alignas(64) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(64) sem_t semaphore;
static _Alignas(64) struct {
    pthread_mutex_t mutex;
    pthread_cond_t free;
    int held;
} gil = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
static _Alignas(64) struct {
    pthread_mutex_t mutex;
    pthread_cond_t jobs;
    int count, is_over;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static _Alignas(64) int parking;
static _Alignas(64) struct {
    int is_taken;
    struct sleeper *first, **last;
} queue = {0, NULL, &queue.first};
static struct sleeper {
    _Alignas(64) int sleeps;
    struct sleeper *next;
} sleepers[THREADS];

static void work(void) {
    for (volatile int done = 0; done < WORK; done++) {
    }
}

#define LOAD(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define STORE(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define SWAP(place, value) __atomic_exchange_n(place, value, __ATOMIC_ACQ_REL)

static void no_lock(long me) {
    (void)me;
    work();
}

static void test_and_set(long me) {
    (void)me;
    while (SWAP(&word, 1)) {
    }
    work();
    STORE(&word, 0);
}

static void test_and_test_and_set(long me) {
    (void)me;
    do {
        while (LOAD(&word))
            __builtin_ia32_pause();
    } while (SWAP(&word, 1));
    work();
    STORE(&word, 0);
}

static void back_off(long me) {
    (void)me;
    for (int pauses = 1; SWAP(&word, 1); pauses += pauses < 64 ? pauses : 0)
        for (int pause = 0; pause < pauses; pause++)
            __builtin_ia32_pause();
    work();
    STORE(&word, 0);
}

static void compare_and_swap(long me) {
    (void)me;
    int expected = 0;
    while (!__atomic_compare_exchange_n(&word, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        expected = 0;
    work();
    STORE(&word, 0);
}

static void yield(long me) {
    (void)me;
    while (SWAP(&word, 1))
        sched_yield();
    work();
    STORE(&word, 0);
}

static void ticket(long me) {
    (void)me;
    unsigned mine = __atomic_fetch_add(&next_ticket, 1, __ATOMIC_RELAXED);
    while (LOAD(&serving) != mine)
        __builtin_ia32_pause();
    work();
    STORE(&serving, mine + 1);
}

static void mcs(long me) {
    struct node *mine = &nodes[me], *expected = mine;
    mine->next = NULL;
    mine->ready = 0;
    struct node *before = SWAP(&tail, mine);
    if (before) {
        STORE(&before->next, mine);
        while (!LOAD(&mine->ready))
            __builtin_ia32_pause();
    }
    work();
    if (!LOAD(&mine->next)) {
        if (__atomic_compare_exchange_n(&tail, &expected, NULL, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
        while (!LOAD(&mine->next))
            __builtin_ia32_pause();
    }
    STORE(&mine->next->ready, 1);
}

static void clh(long me) {
    static _Thread_local struct node *mine;
    if (!mine)
        mine = &nodes[me];
    mine->ready = 0;
    struct node *before = SWAP(&tail, mine);
    while (!LOAD(&before->ready))
        __builtin_ia32_pause();
    work();
    STORE(&mine->ready, 1);
    mine = before;
}

static void flag(long me) {
    while (LOAD(&turn) != me) {
    }
    work();
    STORE(&turn, (me + 1) % THREADS);
}

static void pthread_spin(long me) {
    (void)me;
    pthread_spin_lock(&spinlock);
    work();
    pthread_spin_unlock(&spinlock);
}

static void pthread_mutex(long me) {
    (void)me;
    pthread_mutex_lock(&mutex);
    work();
    pthread_mutex_unlock(&mutex);
}

static void posix_semaphore(long me) {
    (void)me;
    sem_wait(&semaphore);
    work();
    sem_post(&semaphore);
}

enum { HELD = 1, HAS_SLEEPERS = 2 };

static int changes(int *place, int from, int to) {
    return __atomic_compare_exchange_n(place, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void take_queue(void) {
    while (!changes(&queue.is_taken, 0, 1)) {
    }
}

static void sleep_for_parking(struct sleeper *me) {
    take_queue();
    int is_held = LOAD(&parking) == (HELD | HAS_SLEEPERS);
    if (is_held) {
        STORE(&me->sleeps, 1);
        me->next = NULL;
        *queue.last = me;
        queue.last = &me->next;
    }
    STORE(&queue.is_taken, 0);
    while (is_held && LOAD(&me->sleeps))
        syscall(SYS_futex, &me->sleeps, FUTEX_WAIT_PRIVATE, 1, NULL);
}

static void wake_one(void) {
    take_queue();
    struct sleeper *first = queue.first;
    queue.first = first ? first->next : NULL;
    if (!queue.first)
        queue.last = &queue.first;
    STORE(&parking, queue.first ? HAS_SLEEPERS : 0);
    STORE(&queue.is_taken, 0);
    if (!first)
        return;
    STORE(&first->sleeps, 0);
    syscall(SYS_futex, &first->sleeps, FUTEX_WAKE_PRIVATE, 1);
}

/* As parking_lot has it: each thread sleeps at a word of its own, and a queue elsewhere says who is next. */
static void parking_lot(long me) {
    for (;;) {
        int state = LOAD(&parking);
        if (!(state & HELD)) {
            if (changes(&parking, state, state | HELD))
                break;
        } else if ((state & HAS_SLEEPERS) || changes(&parking, state, state | HAS_SLEEPERS)) {
            sleep_for_parking(&sleepers[me]);
        }
    }
    work();
    if (!changes(&parking, HELD, 0))
        wake_one();
}

/* As interpreters have it: the lock is a flag, and a condition variable says when it is free. */
static void interpreter(long me) {
    (void)me;
    pthread_mutex_lock(&gil.mutex);
    while (gil.held)
        pthread_cond_wait(&gil.free, &gil.mutex);
    gil.held = 1;
    pthread_mutex_unlock(&gil.mutex);
    work();
    pthread_mutex_lock(&gil.mutex);
    gil.held = 0;
    pthread_cond_signal(&gil.free);
    pthread_mutex_unlock(&gil.mutex);
}

/* One job of a pool, which are far between. */
static void pool_thread(long me) {
    (void)me;
    pthread_mutex_lock(&pool.mutex);
    while (!pool.count && !pool.is_over)
        pthread_cond_wait(&pool.jobs, &pool.mutex);
    pool.count -= pool.count > 0;
    pthread_mutex_unlock(&pool.mutex);
}

static void idle(long me) {
    (void)me;
    usleep(100);
}

static const struct {
    const char *name;
    void (*turn)(long);
} kinds[] = {
    {"work", no_lock},
    {"test_and_set", test_and_set},
    {"test_and_test_and_set", test_and_test_and_set},
    {"back_off", back_off},
    {"compare_and_swap", compare_and_swap},
    {"yield", yield},
    {"ticket", ticket},
    {"mcs", mcs},
    {"clh", clh},
    {"flag", flag},
    {"pthread_spin", pthread_spin},
    {"pthread_mutex", pthread_mutex},
    {"posix_semaphore", posix_semaphore},
    {"parking_lot", parking_lot},
    {"interpreter", interpreter},
    {"pool", pool_thread},
    {"idle", idle},
};

static void (*take_turn)(long);

static void *run(void *me) {
    for (int done = 0; done < TURNS; done++)
        take_turn((long)me);
    return NULL;
}

static void give_jobs(void) {
    for (int job = 0; job < TURNS; job++) {
        for (int part = 0; part < 4; part++)
            work();
        pthread_mutex_lock(&pool.mutex);
        pool.count++;
        pthread_mutex_unlock(&pool.mutex);
        pthread_cond_signal(&pool.jobs);
    }
    pthread_mutex_lock(&pool.mutex);
    pool.is_over = 1;
    pthread_cond_broadcast(&pool.jobs);
    pthread_mutex_unlock(&pool.mutex);
}

int main(int count, char **arguments) {
    for (size_t kind = 0; count > 1 && kind < sizeof kinds / sizeof *kinds; kind++)
        if (!strcmp(kinds[kind].name, arguments[1]))
            take_turn = kinds[kind].turn;
    if (!take_turn)
        return 2;
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    sem_init(&semaphore, 0, 1);
    if (take_turn == clh) {
        nodes[THREADS].ready = 1;
        tail = &nodes[THREADS];
    }
    pthread_t threads[THREADS];
    for (long me = 0; me < THREADS; me++)
        pthread_create(&threads[me], NULL, run, (void *)me);
    if (take_turn == pool_thread)
        give_jobs();
    for (int me = 0; me < THREADS; me++)
        pthread_join(threads[me], NULL);
    return 0;
}
