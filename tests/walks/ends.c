// Threads that wait while the process exits: all of them end, one after the other, and the end is where the first does.
// modes: default no-hooks
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int begun;

static void *waits(void *number)
{
    __atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    return number;
}

int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, waits, (void *)i);
    while (begun < 3)
        usleep(1000);
    printf("%d\n", begun);
    exit(0);
}
