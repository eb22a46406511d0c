/* Threads that give themselves names, one after the other, and a while between. */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>

static void named(const char *name)
{
    printf("%s\n", name);
}

static void *work(void *name)
{
    prctl(PR_SET_NAME, name);
    struct timespec while_ = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&while_, NULL);
    named(name);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    named("nobody yet");
    pthread_create(&thread, NULL, work, "first worker");
    pthread_join(thread, NULL);
    prctl(PR_SET_NAME, "the main one");
    pthread_create(&thread, NULL, work, "a name that is too long");
    pthread_join(thread, NULL);
    named("at the end");
    return 0;
}
