/* A loop of many rounds in which nothing happens, without events. */
#include <stdio.h>

volatile int total;

__attribute__((noinline)) int add(int a, int b)
{
    return a + b;
}

int main(void)
{
    puts("begin");
    for (int i = 0; i < 7000; i++)
        total = add(total, i);
    puts("end");
    return 0;
}
