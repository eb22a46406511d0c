/* For -O2: what is inlined, and values in registers. */
#include <stdio.h>
#include <stdlib.h>

static unsigned mix(unsigned value)
{
    value ^= value << 13;
    value ^= value >> 17;
    value ^= value << 5;
    return value;
}

unsigned last;

__attribute__((noinline)) unsigned churn(unsigned seed, int rounds)
{
    for (int i = 0; i < rounds; i++)
        seed = mix(seed);
    last = seed;
    return seed;
}

int main(void)
{
    unsigned value = churn(1, 10);
    value = churn(value, 1000);
    printf("%u\n", value);
    return 0;
}
