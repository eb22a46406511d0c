/* Computes for a while, without system calls. */
#include <stdio.h>
#include <stdlib.h>

volatile unsigned long spins;
volatile int phase;

static void spin(unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        spins++;
}

int main(int argc, char **argv)
{
    phase = 1;
    spin(1000000);
    phase = 2;
    spin(argc > 1 ? strtoul(argv[1], NULL, 0) : 100000000);
    phase = 3;
    printf("%lu\n", spins);
    return 0;
}
