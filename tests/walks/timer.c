// Signals of a timer, in the middle of a computation and of a blocking call; and one that the program sends itself.
// modes: default no-hooks software lazy
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long ticks, total;

static void on_tick(int signal)
{
    (void)signal;
    ticks++;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_tick};
    sigaction(SIGALRM, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    struct itimerval every = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; ticks < 20 && i < 1000000; i++) {
        total += i ^ (total << 1);
        // Long, and each instruction is executed once.
        __asm__ volatile(".rept 300\n\tpause\n\t.endr");
        if (i % 500 == 0)
            getppid();
    }
    raise(SIGUSR1);
    struct timespec nap = {0, 20000000};
    nanosleep(&nap, 0);
    printf("%lu\n", ticks > 20);
    return 0;
}
