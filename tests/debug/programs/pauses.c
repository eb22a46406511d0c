/* Rounds that take a while, and rounds that change much memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[1 << 20];
int rounds;

static void one(int number)
{
    rounds = number;
    memset(memory, number, sizeof memory);
    usleep(20000);
}

int main(int argc, char **argv)
{
    for (int i = 1; i <= 40; i++)
        one(i);
    puts("all");
    return argc > 1 ? atoi(argv[1]) : 0;
}
