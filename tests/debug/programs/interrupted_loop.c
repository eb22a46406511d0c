/* A timer interrupts a loop of a few instructions, again and again; then all of an array is written at once. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

char filled[64] __attribute__((aligned(64)));
char untouched[16] __attribute__((aligned(16)));
volatile int ticks;

static void tick(int signal)
{
    ticks++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval interval = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &interval, NULL);
    volatile long rounds = 0;
    while (ticks < 5)
        rounds++;
    memset(&interval, 0, sizeof interval);
    setitimer(ITIMER_REAL, &interval, NULL);
    memset(filled, 'a', sizeof filled);
    return filled[0] != 'a';
}
