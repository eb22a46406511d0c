/* Calls, a loop, and output. */
#include <stdio.h>

int total;

int add(int a, int b)
{
    int sum = a + b;
    total = sum;
    return sum;
}

int twice(int value)
{
    int first = add(value, value);
    int second = add(first, 1);
    return second;
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        twice(i);
    printf("total %d\n", total);
    return 3;
}
