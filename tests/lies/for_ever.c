/* A computation that a timer interrupts, and that comes by the same state again and again until then, for ever if need be. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

static volatile sig_atomic_t came;

static void comes(int signal)
{
    (void)signal;
    came = 1;
}

int main(void)
{
    struct itimerval in = {{0, 0}, {0, 20000}};
    signal(SIGALRM, comes);
    setitimer(ITIMER_REAL, &in, NULL);
    while (!came)
        ;
    puts("it came");
    return 0;
}
