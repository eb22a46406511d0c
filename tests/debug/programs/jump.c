/* longjmp over several frames. */
#include <setjmp.h>
#include <stdio.h>

static jmp_buf saved;
int rounds;

static void deepest(int value)
{
    rounds = value;
    longjmp(saved, value);
}

static void middle(int value)
{
    deepest(value);
    rounds = -1;
}

int main(void)
{
    int value = setjmp(saved);
    if (value < 3)
        middle(value + 1);
    printf("%d\n", rounds);
    return 0;
}
