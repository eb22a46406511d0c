/* A handler that changes a value, signals that are blocked, and a fault that is survived. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile int handled;
volatile int faults;
static sigjmp_buf saved;

static void on_user(int number)
{
    handled = number;
}

static void on_fault(int number)
{
    faults++;
    siglongjmp(saved, number);
}

int main(void)
{
    signal(SIGUSR1, on_user);
    signal(SIGSEGV, on_fault);
    raise(SIGUSR1);
    handled = 100;
    if (sigsetjmp(saved, 1) == 0)
        *(volatile int *)8 = 1;
    handled = 200;
    printf("%d %d\n", handled, faults);
    return 0;
}
