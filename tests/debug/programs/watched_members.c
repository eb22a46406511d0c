/* Two members that change by turns. */
#include <stdio.h>

struct pair {
    long first;
    long second;
} pair;

static void set(long value)
{
    pair.first = value;
    pair.second = value * 2;
}

int main(void)
{
    for (int i = 1; i < 12; i++)
        set(i);
    printf("%ld\n", pair.first + pair.second);
    return 0;
}
