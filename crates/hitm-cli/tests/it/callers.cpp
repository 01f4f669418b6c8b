// Threads touch one line by functions whose callers the test knows, on ways that no shadow stack sees as calls
// and returns: longjmp, exceptions, coroutines, signals, tail calls, stacks of variable length.
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <ucontext.h>

#define APART __attribute__((noinline, noclone))
// Keeps a call from becoming a jump.
#define AFTER asm volatile("" ::: "memory")
#define TOUCH(name)                                                                                \
    APART void name() {                                                                            \
        for (int time = 0; time < 3; time++)                                                       \
            shared.value = shared.value + 1;                                                       \
    }

extern "C" {

static struct {
    alignas(64) volatile long value;
    char end[64];
} shared;

static pthread_barrier_t barrier;
static volatile int running = 2;

TOUCH(touch_plain)
APART void plain_inner() { touch_plain(); AFTER; }
APART void plain() { plain_inner(); AFTER; }

TOUCH(touch_recursion)
APART void recurse(int depth) {
    if (depth)
        recurse(depth - 1);
    else
        touch_recursion();
    AFTER;
}
APART void recursion() { recurse(4); AFTER; }

TOUCH(touch_tail)
APART void tail_calls() { touch_tail(); }
APART void tail() { tail_calls(); AFTER; }

TOUCH(touch_sized)
APART void sized_inner() { touch_sized(); AFTER; }
APART void sized(int size) {
    for (int round = 1; round < 3; round++) {
        volatile char array[size * round];
        array[0] = 1;
        (void)array[0];
        sized_inner();
    }
    volatile char *more = (volatile char *)alloca(size);
    more[size - 1] = 1;
    sized_inner();
    AFTER;
}

TOUCH(touch_deep)
TOUCH(touch_after_jump)
APART void jumps_deep(jmp_buf &there, int depth) {
    if (depth)
        jumps_deep(there, depth - 1);
    touch_deep();
    if (running)
        longjmp(there, 1);
    AFTER;
}
APART void after_jump() { touch_after_jump(); AFTER; }
APART void jump() {
    jmp_buf there;
    if (setjmp(there) == 0)
        jumps_deep(there, 2);
    // Nothing was called since.
    shared.value = shared.value + 1;
    after_jump();
    AFTER;
}

TOUCH(touch_thrown)
APART void throws_deep(int depth) {
    if (depth == 0)
        throw depth;
    throws_deep(depth - 1);
    AFTER;
}
APART void caught() { touch_thrown(); AFTER; }
APART void exception() {
    try {
        throws_deep(3);
    } catch (int) {
        shared.value = shared.value + 1;
        caught();
    }
    AFTER;
}

struct Coroutine {
    ucontext_t own, resumer;
    char stack[65536];
    bool is_done;
};
static thread_local Coroutine *current;

TOUCH(touch_coroutine)
TOUCH(touch_resumer)
APART void yield() {
    swapcontext(&current->own, &current->resumer);
    AFTER;
}
APART void step_inner() {
    touch_coroutine();
    yield();
    touch_coroutine();
    AFTER;
}
APART void step() { step_inner(); AFTER; }
void body() {
    step();
    step();
    current->is_done = true;
    AFTER;
}
APART void resume(Coroutine *coroutine) {
    current = coroutine;
    swapcontext(&coroutine->resumer, &coroutine->own);
    touch_resumer();
    AFTER;
}
APART void coroutines(Coroutine *all, int count) {
    for (int index = 0; index < count; index++) {
        Coroutine &one = all[index];
        getcontext(&one.own);
        one.own.uc_stack.ss_sp = one.stack;
        one.own.uc_stack.ss_size = sizeof one.stack;
        one.own.uc_link = &one.resumer;
        one.is_done = false;
        makecontext(&one.own, body, 0);
    }
    for (int left = count; left;) {
        left = 0;
        for (int index = 0; index < count; index++) {
            if (!all[index].is_done) {
                resume(&all[index]);
                left++;
            }
        }
    }
    AFTER;
}

static thread_local sigjmp_buf out_of_handler;
TOUCH(touch_handler)
TOUCH(touch_left_handler)
TOUCH(touch_after_signal)
APART void in_handler() { touch_handler(); AFTER; }
void on_signal(int) { in_handler(); AFTER; }
APART void leaves_handler() { touch_left_handler(); AFTER; }
void on_leaving_signal(int) {
    leaves_handler();
    siglongjmp(out_of_handler, 1);
}
APART void after_signal() { touch_after_signal(); AFTER; }
APART void signals() {
    pthread_kill(pthread_self(), SIGUSR1);
    after_signal();
    if (sigsetjmp(out_of_handler, 1) == 0)
        pthread_kill(pthread_self(), SIGUSR2);
    after_signal();
    AFTER;
}

void *worker(void *argument) {
    char *stack = (char *)malloc(1 << 16);
    stack_t alternative = {};
    alternative.ss_sp = stack;
    alternative.ss_size = 1 << 16;
    if (argument)
        sigaltstack(&alternative, nullptr);
    Coroutine *all = (Coroutine *)malloc(3 * sizeof *all);
    pthread_barrier_wait(&barrier);
    for (int round = 0; round < ROUNDS; round++) {
        plain();
        recursion();
        tail();
        sized(100 + round % 1000);
        jump();
        exception();
        coroutines(all, 3);
        signals();
        plain();
    }
    __atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
    return nullptr;
}

int main() {
    pthread_t threads[2];
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    action.sa_handler = on_leaving_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, nullptr);
    pthread_barrier_init(&barrier, nullptr, 2);
    for (long index = 0; index < 2; index++)
        pthread_create(&threads[index], nullptr, worker, (void *)index);
    // Signals that come at any moment.
    while (running == 2) {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, nullptr);
        if (running == 2)
            pthread_kill(threads[0], SIGUSR1);
    }
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
    return 0;
}
}
