/* A loop that is much longer than the debugger waits for an event, and in its middle a timer's signal. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

volatile sig_atomic_t rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

static __attribute__((noinline)) void compute(void)
{
    __asm__ volatile("movabsq $800000000, %%rax\n"
                     "1: decq %%rax\n"
                     "jnz 1b\n"
                     :
                     :
                     : "rax", "cc");
}

static __attribute__((noinline)) void done(void) { puts(rung > 0 ? "rung" : "silent"); }

int main(void)
{
    struct sigaction action = {.sa_handler = ring};
    sigaction(SIGALRM, &action, 0);
    struct itimerval once = {{0, 0}, {0, 100000}};
    setitimer(ITIMER_REAL, &once, 0);
    compute();
    done();
    return 0;
}
