/* A loop of more rounds than stops are made in, with a call and a branch in each, in text that the program may write. */
#include <stdint.h>
#include <sys/mman.h>

static volatile long word, sum;

__attribute__((noinline)) static long round_of(long n)
{
    return n & 1 ? n + 1 : n;
}

__attribute__((noinline)) static void behind(long n)
{
    word = n;
}

int main(void)
{
    if (mprotect((void *)((uintptr_t)&main & ~4095ul), 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
        return 1;
    for (long i = 0; i < 2500; i++)
        sum += round_of(i);
    behind(sum);
    return 0;
}
