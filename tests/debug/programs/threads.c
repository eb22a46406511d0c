/* Two threads beside the first: each adds to a counter under a lock. */
#include <pthread.h>
#include <stdio.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int counter;
int by_second;
__thread int own;

static void *work(void *argument)
{
    int number = *(int *)argument;
    own = number;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_lock(&lock);
        counter += number;
        pthread_mutex_unlock(&lock);
    }
    if (number == 2)
        by_second = own + 20;
    return argument;
}

static void finished(void) {}

int main(void)
{
    pthread_t threads[2];
    int numbers[2] = {1, 2};
    own = 7;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    finished();
    printf("%d %d %d\n", counter, by_second, own);
    return 0;
}
