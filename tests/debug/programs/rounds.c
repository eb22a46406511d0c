/* A loop with many rounds, and no system call in it. */
#include <stdio.h>

int rounds;

static void one_round(int number)
{
    rounds = number;
}

int main(void)
{
    for (int i = 1; i <= 5000; i++)
        one_round(i);
    printf("%d\n", rounds);
    return 0;
}
