// A child whose parent traces it, and keeps from it what its instructions raise: breakpoints, over which the
// parent sets it back, one that stays, and a fault that is mended.
// modes: default no-hooks
// which: forked
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static long good = 77;

// An instruction begins behind the parent's breakpoint, too: a walk may have one of its own there.
int twice(int number);
__asm__(".pushsection .text; .globl twice; .type twice, @function\n"
        "twice: nop; leal (%rdi,%rdi), %eax; ret\n"
        ".size twice, . - twice; .popsection");

__attribute__((noinline)) static long read_from(volatile long *from)
{
    long value;
    __asm__ volatile("mov (%%rdi), %0" : "=r"(value) : "D"(from) : "memory");
    return value;
}

static int tracee(void)
{
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    int sum = 0;
    for (int i = 0; i < 3; i++) {
        sum += twice(i);
        __asm__ volatile("int3; inc %0" : "+r"(sum));
    }
    sum += read_from((volatile long *)16);
    __asm__ volatile("int3" ::: "memory");
    return sum != 2 * 3 + 3 + 77;
}

static int wait_stop(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSTOPPED(status) ? WSTOPSIG(status) : -status - 1;
}

int main(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(tracee());
    wait_stop(pid);
    unsigned long at = (unsigned long)twice;
    long text = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    ptrace(PTRACE_POKETEXT, pid, at, (text & ~0xffL) | 0xcc);
    int stop, traps = 0;
    for (ptrace(PTRACE_CONT, pid, 0, 0); (stop = wait_stop(pid)) >= 0; ptrace(PTRACE_CONT, pid, 0, 0)) {
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        traps += stop == SIGTRAP;
        if (stop == SIGSEGV) {
            regs.rdi = (unsigned long)&good;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        } else if (stop == SIGTRAP && regs.rip == at + 1) {
            regs.rip = at;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
            ptrace(PTRACE_POKETEXT, pid, at, text);
            ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
            wait_stop(pid);
            ptrace(PTRACE_POKETEXT, pid, at, (text & ~0xffL) | 0xcc);
        }
    }
    printf("%d traps, status %d\n", traps, -stop - 1);
    return 0;
}
