/* Many writes to a word; on their way, events of children come between those of this process. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

volatile long total;
volatile int handled;

static void handler(int sig)
{
    (void)sig;
    handled++;
}

static void add(void)
{
    for (int i = 1; i <= 5000; i++)
        total += i;
}

int main(void)
{
    signal(SIGUSR1, handler);
    for (int round = 0; round < 3; round++) {
        add();
        raise(SIGUSR1);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        add();
        waitpid(child, 0, 0);
        add();
        child = vfork();
        if (child == 0)
            _exit(0);
        add();
    }
    return 0;
}
