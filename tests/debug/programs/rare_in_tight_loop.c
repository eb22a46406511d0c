/* Two threads compute on one processor in loops of four bytes, and so are stopped right in front of an instruction
   that each executes now and then: wherever it is, that is among the five bytes behind it. */
#include <pthread.h>
#include <stdio.h>

#ifndef ROUNDS
#define ROUNDS 0x2000000
#endif

int milestones;

static void *compute(void *argument)
{
    for (int i = 0; i < 3; i++) {
        unsigned rounds = ROUNDS;
        __asm__ volatile("1: dec %0\n\t"
                         "jnz 1b\n"
                         "milestone: lock incl %1"
                         : "+r"(rounds), "+m"(milestones)
                         :
                         : "cc");
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, compute, NULL);
    compute(NULL);
    pthread_join(thread, NULL);
    printf("%d\n", milestones);
    return 0;
}
