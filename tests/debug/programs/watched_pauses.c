/* Two threads compute on one processor, and so are stopped in the middle of their loops; now and then one changes a word. */
#include <pthread.h>
#include <stdio.h>

volatile int milestones;

static void *compute(void *argument)
{
    volatile unsigned *sum = argument;
    for (unsigned i = 1; i <= 60 * 1000 * 1000; i++) {
        *sum = *sum * 33 + i;
        if (i % (20 * 1000 * 1000) == 0)
            __atomic_fetch_add(&milestones, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned sums[2] = {0, 1};
    pthread_create(&thread, NULL, compute, &sums[1]);
    compute(&sums[0]);
    pthread_join(thread, NULL);
    printf("%d\n", milestones);
    return 0;
}
