/* A word that is written four thousand times, without a call in between. */
#include <stdio.h>

volatile unsigned long sum;

__attribute__((noinline)) static void adds(unsigned long more)
{
    sum += more;
}

int main(void)
{
    puts("begin");
    for (unsigned long i = 1; i <= 4000; i++)
        adds(i);
    printf("%lu\n", sum);
    return 0;
}
