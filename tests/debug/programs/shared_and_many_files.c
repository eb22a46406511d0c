/* Shared memory, and then more files than a replayed process keeps descriptors open for. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECES = 3, FILES = 140, ROUNDS = 30 };

static int *pieces[PIECES];

static void map_file(int number)
{
    FILE *file = tmpfile();
    if (!file || fprintf(file, "%d", number) < 0 || fflush(file) != 0)
        abort();
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
        abort();
    fclose(file);
}

static void round_ends(int round)
{
    printf("round %d: %d\n", round, *pieces[0]);
    fflush(stdout);
}

int main(void)
{
    for (int i = 0; i < PIECES; i++)
        pieces[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < FILES; i++)
        map_file(i);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < PIECES; i++)
            *pieces[i] += i == 0 ? 1 : *pieces[i - 1];
        /* Long enough for checkpoints on the way. */
        for (volatile int i = 0; i < 60000000; i++)
            ;
        round_ends(round);
    }
    return 0;
}
