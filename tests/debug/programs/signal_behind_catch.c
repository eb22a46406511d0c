/* A handler whose first call is a write. */
#include <signal.h>
#include <unistd.h>

static volatile int handled;

static void on_signal(int signal)
{
    (void)signal;
    handled = 1;
    if (write(1, "handled\n", 8) != 8)
        _exit(1);
}

int main(void)
{
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    return handled - 1;
}
