/* What `bis-bench debug` records: `small`, `steps`, `word ROUNDS`, `condition TIMES`, `memory MB`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile long word;
static volatile long number;
static unsigned char table[1 << 16];

__attribute__((noinline)) static void stop_here(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) static void set_word(long value)
{
    word = value;
}

__attribute__((noinline)) static void called(long argument)
{
    number = argument;
}

/* Computes in memory, with a call now and then. */
__attribute__((noinline)) static unsigned work(long rounds)
{
    unsigned state = 1;
    for (long round = 0; round < rounds; round++) {
        state = state * 1103515245u + 12345u;
        table[state >> 16] += (unsigned char)state;
        if (round % 1000 == 0)
            called(round);
    }
    return state;
}

__attribute__((noinline)) static unsigned steps(void)
{
    unsigned sum = 0;
    for (int i = 0; i < 100; i++) {
        sum += work(2000);
        sum ^= work(1000);
        set_word(sum);
        sum += (unsigned)i;
    }
    stop_here();
    return sum;
}

__attribute__((noinline)) static void touch(char *memory, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        memory[at] = (char)at;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "small";
    long amount = argc > 2 ? atol(argv[2]) : 0;
    unsigned sum = 0;
    if (strcmp(what, "small") == 0) {
        sum = work(1000);
    } else if (strcmp(what, "steps") == 0) {
        sum = steps();
    } else if (strcmp(what, "word") == 0) {
        set_word(amount);
        sum = work(amount);
        stop_here();
    } else if (strcmp(what, "condition") == 0) {
        for (long i = 1; i <= amount; i++)
            called(i);
        stop_here();
    } else if (strcmp(what, "memory") == 0) {
        size_t size = (size_t)amount << 20;
        char *memory = malloc(size);
        if (memory == NULL)
            return 1;
        touch(memory, size);
        for (int i = 0; i < 200; i++) {
            touch(memory + (size / 256) * (size_t)i, 16 * 4096);
            stop_here();
        }
        free(memory);
    }
    printf("%u\n", sum);
    return 0;
}
