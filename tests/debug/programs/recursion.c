/* A function that calls itself. */
#include <stdio.h>

int depth_max;

int factorial(int n)
{
    if (n > depth_max)
        depth_max = n;
    if (n <= 1)
        return 1;
    int rest = factorial(n - 1);
    return n * rest;
}

int main(void)
{
    int result = factorial(5);
    printf("%d\n", result);
    return 0;
}
