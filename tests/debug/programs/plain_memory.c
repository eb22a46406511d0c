/* Memory that comes and goes: it is filled, protected, and unmapped, round after round. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4 * 4096 };

volatile int turn;
char *memory;
void *end;
int pid;

__attribute__((noinline)) void filled(void)
{
    __asm__ volatile("");
}

__attribute__((noinline)) void protected(void)
{
    __asm__ volatile("");
}

int main(void)
{
    pid = getpid();
    for (turn = 0; turn < 600; turn++) {
        memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || memory[0] || memory[BYTES - 1])
            return 1;
        for (int at = 0; at < BYTES; at += 8)
            *(volatile long *)(memory + at) = (turn & 255) * 0x101010101010101;
        filled();
        if (mprotect(memory, 4096, PROT_READ) != 0)
            return 2;
        /* So much that it soon lies where something near the text has room. */
        if (sbrk(16 * 4096) == (void *)-1)
            return 3;
        end = sbrk(0);
        protected();
        if (munmap(memory, BYTES) != 0)
            return 4;
    }
    return 0;
}
