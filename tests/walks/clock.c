// The clock is read through the kernel's own functions: a call of one may have an event in its middle.
// modes: default no-hooks software
#include <stdio.h>
#include <time.h>

volatile long sum;

__attribute__((noinline)) static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_nsec;
}

int main(void)
{
    for (int i = 0; i < 60; i++)
        sum += now() % 7 + i;
    printf("%d\n", sum > 0);
    return 0;
}
