/* Two threads add to a counter without a lock: what one of them adds is lost. Exits with 1 then. */
#include <pthread.h>
#include <time.h>

volatile int counter;

__attribute__((noinline)) static void add(int amount)
{
    int seen = counter;
    struct timespec while_ = {.tv_nsec = amount * 2000000};
    nanosleep(&while_, NULL);
    counter = seen + amount;
}

static void *work(void *amount)
{
    add(*(int *)amount);
    return NULL;
}

int main(void)
{
    int ten = 10, twenty = 20;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, work, &ten);
    pthread_create(&threads[1], NULL, work, &twenty);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return counter != 30;
}
