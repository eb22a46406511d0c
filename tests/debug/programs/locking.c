/* Two threads, each in a function of its own with arguments, turn by turn. */
#include <pthread.h>
#include <semaphore.h>

static sem_t first_turn, second_turn;
volatile int last;

__attribute__((noinline)) static void first(int number, double share)
{
    last = number + (int)share;
}

__attribute__((noinline)) static void second(int number, double share)
{
    last = number + (int)share;
}

static void *work(void *argument)
{
    for (int i = 0; i < 3; i++) {
        sem_wait(&second_turn);
        second(20 + i, 0.5 + i);
        sem_post(&first_turn);
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    sem_init(&first_turn, 0, 1);
    sem_init(&second_turn, 0, 0);
    pthread_create(&thread, 0, work, 0);
    for (int i = 0; i < 3; i++) {
        sem_wait(&first_turn);
        first(10 + i, 0.25 + i);
        sem_post(&second_turn);
    }
    pthread_join(thread, 0);
    return 0;
}
