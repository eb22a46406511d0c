// A child executes breakpoint instructions, and its parent, who traces it, keeps the signals from it.
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        int count = 0;
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        __asm__ volatile("trap: int3; inc %0; int3; inc %0" : "+r"(count));
        _exit(count);
    }
    int status = 0, traps = 0;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        traps += WSTOPSIG(status) == SIGTRAP;
        ptrace(PTRACE_CONT, pid, 0, 0);
    }
    printf("%d traps, status %d\n", traps, WEXITSTATUS(status));
    return 0;
}
