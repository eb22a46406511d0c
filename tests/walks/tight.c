// Threads that are stopped in the middle of loops of a few bytes, right beside what they execute now and then; walks are short
// modes: default no-hooks software
#include <pthread.h>
#include <stdio.h>

volatile unsigned long milestones, others;

static void *compute(void *argument)
{
    for (int i = 0; i < 3; i++) {
        unsigned rounds = 0x1000000;
        __asm__ volatile("1: dec %0\n\t"
                         "jnz 1b\n"
                         "milestone: lock incq %1"
                         : "+r"(rounds), "+m"(milestones)
                         :
                         : "cc");
        rounds = 0x400000;
        __asm__ volatile("2: inc %0\n\t"
                         "test $0xfffff, %0\n\t"
                         "jnz 3f\n"
                         "seldom: lock incq %1\n"
                         "3: cmp $0x800000, %0\n\t"
                         "jne 2b"
                         : "+r"(rounds), "+m"(others)
                         :
                         : "cc");
    }
    return argument;
}

int main(void)
{
    pthread_t thread;
    if (pthread_create(&thread, 0, compute, 0))
        return 1;
    compute(0);
    pthread_join(thread, 0);
    printf("%lu %lu\n", milestones, others);
    return 0;
}
