// A computation in which nothing is recorded.
// modes: default software
#include <stdio.h>

volatile unsigned long milestones;

__attribute__((noinline)) unsigned long mix(unsigned long x)
{
    return x ^ (x << 13) ^ (x >> 7);
}

int main(void)
{
    unsigned long x = 88172645463325252ul;
    for (unsigned long i = 0; i < 300000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (i % 10000 == 0) {
            x += mix(x);
            milestones++;
        }
    }
    printf("%lx\n", x);
    return 0;
}
