// A process of one thread that is found in the middle of its computation: its memory, vector registers, heap, handlers and
// descriptors are there, and what it does from then on is recorded.
#include "found.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { LEN = 1 << 20 };

static unsigned char table[LEN];
static volatile int alarms;

static void count_alarm(int signal) {
    (void)signal;
    alarms++;
}

static unsigned long step(unsigned long sum, double *value, const unsigned char *heap) {
    for (int i = 0; i < 200000; i++) {
        sum = sum * 31 + heap[sum % LEN] + table[i % LEN] + 1;
        *value = *value * 1.0000001 + 1e-9;
    }
    return sum;
}

int main(int argc, char **argv) {
    unsigned char *heap = malloc(LEN);
    for (int i = 0; i < LEN; i++) heap[i] = i * 7, table[i] = i * 3;
    signal(SIGALRM, count_alarm);
    int zero = open("/dev/urandom", O_RDONLY);
    unsigned long sum = 1;
    double value = 1.5;
    begin(argc, argv);
    while (!is_found()) sum = step(sum, &value, heap);
    for (int i = 0; i < 20; i++) sum = step(sum, &value, heap);

    unsigned char chance[8];
    if (read(zero, chance, sizeof chance) != sizeof chance) return 1;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    while (alarms == 0) sum = step(sum, &value, heap);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char *large = malloc(32 << 20);
    memset(large, sum, 32 << 20);
    printf("sum %lx value %.17g at %ld, chance %d, large %d\n", sum, value, now.tv_nsec, chance[0], large[12345]);
    free(large);
    free(heap);
    return 7;
}
