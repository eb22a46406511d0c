// String instructions that go round often, and end in the middle, in faults too, with other rounds between.
// modes: default software
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MANY 30000ul
#define PAGE 4096ul

static char from[MANY], to[MANY], *fresh;
volatile unsigned long faults, sum;

static void opens(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    faults++;
    if (mprotect((void *)((unsigned long)info->si_addr & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE))
        _Exit(2);
}

__attribute__((noinline)) static void fill(void *at, size_t left, int value)
{
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(left) : "a"(value) : "memory");
}

__attribute__((noinline)) static void copy(void *at, const void *source, size_t left)
{
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(source), "+c"(left) : : "memory");
}

__attribute__((noinline)) static size_t sought(const void *at, size_t left, int value)
{
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(left) : "a"(value) : "memory", "cc");
    return left;
}

__attribute__((noinline)) static size_t differs(const void *at, const void *other, size_t left)
{
    __asm__ volatile("repe cmpsb" : "+D"(at), "+S"(other), "+c"(left) : : "memory", "cc");
    return left;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = opens, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    fresh = mmap(NULL, 8 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 20; i++) {
        fill(from, MANY, i + 1);
        copy(to, from, MANY);
        from[i * 1000] = 0;
        sum += sought(from, MANY, 0);
        sum += differs(from, to, MANY);
        sum += differs(from, from, i);
        fill(fresh, i, i);
    }
    fill(fresh, 8 * PAGE, 9);
    printf("%lu %lu\n", faults, sum);
    return 0;
}
