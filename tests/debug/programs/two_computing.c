/* Two threads that compute at the same time, and for longer than a turn on any machine: they are stopped in the middle of it. */
#include <pthread.h>
#include <stdio.h>

static void *compute(void *argument)
{
    volatile unsigned *sum = argument;
    for (unsigned i = 0; i < 240 * 1000 * 1000; i++)
        *sum = *sum * 33 + i;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    unsigned sums[2] = {0, 1};
    pthread_create(&thread, NULL, compute, &sums[1]);
    compute(&sums[0]);
    pthread_join(thread, NULL);
    printf("%u %u\n", sums[0], sums[1]);
    return 0;
}
