/* Rounds of work, each of which tells what it has done. */
#include <stdio.h>

int total;

static int work(int n)
{
    int sum = 0;
    for (int i = 1; i <= n; i++)
        sum += i;
    total += sum;
    return sum;
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("begin");
    for (int round = 1; round <= 3; round++) {
        int got = work(10 * round);
        printf("round %d: %d\n", round, got);
    }
    printf("end %d\n", total);
    return 7;
}
