/* Waits for some seconds. */
#include <stdio.h>
#include <unistd.h>

volatile int phase;

static void waits(void)
{
    phase = 2;
    sleep(5);
}

int main(void)
{
    phase = 1;
    waits();
    puts("waited");
    return 0;
}
