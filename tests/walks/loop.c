// A small loop with calls, string instructions, flags that are pushed and popped, and a system call now and then.
// modes: default no-hooks software lazy
#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile unsigned long total;
static char from[256], to[256];

__attribute__((noinline)) unsigned long leaf(unsigned long x)
{
    total += x;
    return x * 3 + 1;
}

__attribute__((noinline)) unsigned long recurse(unsigned n)
{
    return n == 0 ? 1 : recurse(n - 1) + leaf(n);
}

__attribute__((noinline)) unsigned long odd(unsigned long x)
{
    unsigned long flags, count = sizeof from;
    const void *source = from;
    void *target = to;
    __asm__ volatile("pushfq\n\tpopq %0\n\tpushq %0\n\tpopfq" : "=r"(flags) : : "cc", "memory");
    from[x % sizeof from] = (char)x;
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    return flags + (unsigned char)to[x % sizeof to];
}

int main(void)
{
    unsigned long x = 1;
    for (int i = 0; i < 400; i++) {
        x = leaf(x) % 1000003;
        if (i % 7 == 0)
            x += recurse(i % 13);
        if (i % 11 == 0)
            x ^= odd(x);
        if (i % 50 == 0)
            printf("%d %lu\n", i, x);
        if (i % 100 == 0)
            getppid();
    }
    printf("total %lu\n", total);
    return 0;
}
