/* Signals whose numbers are others in gdb's protocol than they are on Linux, with a handler each. */
#include <signal.h>
#include <stdio.h>

volatile int handled;

static void on_signal(int number)
{
    handled = number;
}

int main(void)
{
    static const int numbers[] = {SIGUSR1, SIGCHLD, SIGBUS, SIGIO};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        signal(numbers[i], on_signal);
        raise(numbers[i]);
    }
    printf("%d\n", handled);
    return 0;
}
