/* String instructions that repeat themselves: each round is an instruction to whoever steps, or stops there. */
#include <stdio.h>

unsigned long words[64];
int round_number;

__attribute__((noinline, aligned(64))) void fill(unsigned long value)
{
    void *to = words;
    unsigned long count = sizeof words / sizeof *words;
    /* Behind it is room for a jump. */
    __asm__ volatile(".globl filling\nfilling:\n\trep stosq\n\tmov %%rax, %%rax\n\tmov %%rax, %%rax"
                     : "+D"(to), "+c"(count)
                     : "a"(value)
                     : "memory");
}

int main(void)
{
    for (round_number = 0; round_number < 3; round_number++)
        fill(round_number + 1);
    printf("%lu\n", words[63]);
    return 0;
}
