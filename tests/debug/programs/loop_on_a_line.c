/* Loops that are written on one line: one that goes round fifty million times, one that is left by a return, one with a system call
 * in each round, and one from which a signal's handler is called. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

volatile unsigned long sum, handled;

static void on_usr1(int signal)
{
    handled += signal;
}

static unsigned long first_above(unsigned long limit)
{
    for (unsigned long i = 0;; i++) if (i * i > limit) return i;
}

int main(void)
{
    signal(SIGUSR1, on_usr1);
    puts("begin");
    for (unsigned long i = 0; i < 50000000; i++) sum += i ^ (sum >> 3);
    sum = first_above(400000000000000);
    for (int i = 0; i < 2000; i++) sum += getppid() > 0;
    for (unsigned long i = 0; i < 30000000; i++) if ((sum += i & 1) == 30000000 && !handled) raise(SIGUSR1);
    puts("end");
    return 0;
}
