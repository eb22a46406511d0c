/* Processes and threads that compute and wait, for some seconds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long total;

static void work(long ms)
{
    for (long i = 0; i < ms; i++) {
        for (long j = 0; j < 100000; j++)
            total += j;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void *thread(void *ms)
{
    work((long)ms);
    return NULL;
}

int main(int argc, char **argv)
{
    long ms = argc > 1 ? atol(argv[1]) : 1000;
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            pthread_t other;
            if (pthread_create(&other, NULL, thread, (void *)ms))
                _exit(1);
            work(ms);
            pthread_join(other, NULL);
            _exit(0);
        }
    work(ms);
    while (wait(NULL) > 0)
        ;
    return 0;
}
