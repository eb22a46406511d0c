/* A timer interrupts a loop of thousands of instructions that write beside three words; then these are written. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

struct {
    long words[3];
    volatile long beside;
} all;
volatile int ticks;

static void tick(int signal)
{
    ticks++;
}

#define TEN(writes) writes writes writes writes writes writes writes writes writes writes

int main(void)
{
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval interval = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &interval, NULL);
    while (ticks < 5) {
        TEN(TEN(TEN(all.beside++; all.beside++;)))
    }
    memset(&interval, 0, sizeof interval);
    setitimer(ITIMER_REAL, &interval, NULL);
    all.words[0] = 1;
    all.words[1] = 2;
    all.words[2] = 3;
    return 0;
}
