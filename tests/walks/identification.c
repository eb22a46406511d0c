// A flag that no debugger can set is another one in each thread, and is pushed with the others.
// modes: default software
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile unsigned long pushed[2], turn;

static void *goes_round(void *argument)
{
    unsigned long mine = (unsigned long)argument, flags;
    if (mine)
        __asm__ volatile("pushfq\n\torq $0x200000, (%%rsp)\n\tpopfq" ::: "cc", "memory");
    for (int i = 0; i < 40; i++) {
        while (turn != mine)
            usleep(10);
        __asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
        pushed[mine] += flags & 0x200000;
        turn = !mine;
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, goes_round, (void *)1);
    goes_round(NULL);
    pthread_join(thread, NULL);
    printf("%lx %lx\n", pushed[0], pushed[1]);
    return 0;
}
