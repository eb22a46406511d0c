/* A thread holds a lock while the first one looks on. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
int guarded;

int peek(void)
{
    pthread_mutex_lock(&lock);
    int seen = guarded;
    pthread_mutex_unlock(&lock);
    return seen;
}

int is_free(void)
{
    return pthread_mutex_trylock(&lock) == 0;
}

static void held(void) {}

static void freed(void) {}

static void *hold(void *argument)
{
    pthread_mutex_lock(&lock);
    guarded = 1;
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    guarded = 2;
    pthread_mutex_unlock(&lock);
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, hold, NULL);
    pthread_barrier_wait(&both);
    held();
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    freed();
    printf("%d\n", peek());
    return 0;
}
