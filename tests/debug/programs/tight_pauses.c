/* Two threads compute on one processor in loops of a few bytes, and so are stopped right beside whatever is counted
   there; now and then one changes a word. */
#include <pthread.h>
#include <stdio.h>

int milestones;

static void *compute(void *argument)
{
    unsigned rounds = 0;
    __asm__ volatile("1: inc %0\n\t"
                     "test $0x1ffffff, %0\n\t"
                     "jne 1b\n\t"
                     "lock incl %1\n\t"
                     "cmp $0x6000000, %0\n\t"
                     "jne 1b"
                     : "+r"(rounds), "+m"(milestones)
                     :
                     : "cc");
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
