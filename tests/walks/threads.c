// Four threads that share a lock and a counter.
// modes: default no-hooks software lazy
#include <pthread.h>
#include <stdio.h>
#include <sched.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
volatile unsigned long shared;
static __thread unsigned long own;

__attribute__((noinline)) void add(unsigned long x)
{
    pthread_mutex_lock(&lock);
    shared += x;
    pthread_mutex_unlock(&lock);
}

static void *work(void *arg)
{
    pthread_barrier_wait(&barrier);
    for (unsigned long i = 0; i < 300; i++) {
        own = own * 5 + i;
        add(own ^ (unsigned long)arg);
        if (i % 16 == 0)
            sched_yield();
        // Long, and each instruction is executed once.
        __asm__ volatile(".rept 300\n\tpause\n\t.endr");
    }
    return 0;
}

int main(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, 0, 4);
    for (unsigned long i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    printf("%lu\n", shared);
    return 0;
}
