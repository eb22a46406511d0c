/* Children that are killed, one that leaves at once, and one that nobody waits for; they are zombies for a while. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int rounds, status, left;

static void compute(int end)
{
    for (;;)
        if (++rounds == 1000 && write(end, "x", 1) != 1)
            _exit(2);
}

static void reaped(pid_t pid)
{
    left -= pid > 0;
}

int main(void)
{
    int ends[2];
    char word;
    if (pipe(ends) != 0)
        return 1;
    pid_t computing = fork();
    if (computing == 0)
        compute(ends[1]);
    if (read(ends[0], &word, 1) != 1)
        return 2;
    pid_t leaving = fork();
    if (leaving == 0)
        _exit(5);
    left = 2;
    if (fork() == 0)
        _exit(6);
    if (kill(computing, SIGKILL) != 0)
        return 3;
    siginfo_t info;
    if (waitid(P_PID, (id_t)computing, &info, WEXITED | WNOWAIT) != 0)
        return 4;
    waitpid(computing, &status, 0);
    reaped(computing);
    int first = status;
    waitpid(leaving, &status, 0);
    reaped(leaving);
    printf("killed by %d, exited with %d, %d left\n", WTERMSIG(first), WEXITSTATUS(status), left);
    return 0;
}
