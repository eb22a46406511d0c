// A word changes three times; between the changes there are signals, calls and a child.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int word;
static volatile int heard;

static void hear(int number) {
    heard += number;
}

__attribute__((noinline)) static void touch(void) {
    word++;
}

static void between(void) {
    raise(SIGUSR1);
    for (int i = 0; i < 5; i++)
        getppid();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
}

int main(void) {
    signal(SIGUSR1, hear);
    for (int i = 0; i < 3; i++) {
        between();
        touch();
    }
    between();
    return 0;
}
