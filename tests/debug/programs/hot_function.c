/* A function that is called often, many events later the end. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile unsigned long sum;
int calls;

__attribute__((noinline)) unsigned long leaf(unsigned long x)
{
    unsigned long y = x * 2654435761u;
    y ^= y >> 13;
    return y;
}

__attribute__((noinline)) unsigned long hot(unsigned long x)
{
    unsigned long r = leaf(x);
    calls++;
    r ^= leaf(x + 1);
    return r;
}

int main(void)
{
    int pipes[2];
    char byte = 0;
    puts("begin");
    for (int i = 0; i < 20000000; i++)
        sum += hot(i);
    if (pipe(pipes))
        return 1;
    for (int i = 0; i < 250; i++)
        if (write(pipes[1], &byte, 1) != 1 || read(pipes[0], &byte, 1) != 1)
            return 1;
    sum += hot(5);
    puts("end");
    return 0;
}
