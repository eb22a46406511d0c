/* A loop of many rounds between two calls, one event behind the other. */
#include <unistd.h>

volatile unsigned long sum;

__attribute__((noinline)) static void done(void)
{
    write(1, "done\n", 5);
}

int main(void)
{
    write(1, "begin\n", 6);
    unsigned long rounds = 40 * 1000 * 1000;
    __asm__ volatile("1: add %0, %1\n\t"
                     "dec %0\n\t"
                     "jne 1b"
                     : "+r"(rounds), "+m"(sum)
                     :
                     : "cc");
    done();
    return 0;
}
