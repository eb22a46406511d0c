// A tracer follows its child from call to call: what it reads of registers and memory, what it changes
// there, a call that it lets not be made, and signals that it keeps back or gives.
#include "../guest.h"
#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static volatile long shared_word = 41;
static volatile sig_atomic_t got;
static void handler(int number) { got = number; }

static int child(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    raise(SIGSTOP);
    syscall(SYS_getppid);
    // The tracer has put another number there.
    CHECK(shared_word == 4711);
    // It is not made, and this is what the tracer says that it returns.
    CHECK(syscall(SYS_getuid, 1, 2, 3) == 1234);
    // Another call is made in its place.
    CHECK(syscall(SYS_getgid) == getpid());
    raise(SIGUSR1);
    CHECK(got == 0);
    raise(SIGUSR2);
    CHECK(got == SIGUSR1);
    _exit(7);
}

static int next(pid_t pid, int how, int signal) {
    int status;
    CHECK(ptrace(how, pid, 0, signal) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

// To the entry of the next call of this number.
static void to_call(pid_t pid, long number) {
    for (;;) {
        int status = next(pid, PTRACE_SYSCALL, 0);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
        struct __ptrace_syscall_info info;
        long len = ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info);
        CHECK(len > 0 && info.arch == 0xc000003e);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && (long)info.entry.nr == number)
            return;
    }
}

int main(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        return child();
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(waitpid(pid, &status, WNOHANG) == 0);
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_signo == SIGSTOP);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid + 1000000, 0, &info) == -1 && errno == ESRCH);

    to_call(pid, SYS_getppid);
    struct user_regs_struct regs;
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    CHECK(regs.orig_rax == SYS_getppid && (long)regs.rax == -ENOSYS);
    CHECK(ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0) == (long)regs.rip);
    errno = 0;
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &shared_word, 0) == 41 && errno == 0);
    CHECK(ptrace(PTRACE_PEEKDATA, pid, 8, 0) == -1 && errno == EIO);
    CHECK(ptrace(PTRACE_POKEDATA, pid, &shared_word, 4711) == 0);
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &shared_word, 0) == 4711);
    CHECK(shared_word == 41);
    CHECK(WSTOPSIG(next(pid, PTRACE_SYSCALL, 0)) == (SIGTRAP | 0x80));
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    CHECK((pid_t)regs.rax == getpid() && regs.orig_rax == SYS_getppid);

    to_call(pid, SYS_getuid);
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
    CHECK(regs.rdi == 1 && regs.rsi == 2 && regs.rdx == 3);
    regs.orig_rax = -1;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    CHECK(WSTOPSIG(next(pid, PTRACE_SYSCALL, 0)) == (SIGTRAP | 0x80));
    struct iovec iov = { &regs, sizeof regs };
    CHECK(ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof regs);
    regs.rax = 1234;
    CHECK(ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov) == 0);

    to_call(pid, SYS_getgid);
    CHECK(ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), SYS_getpid) == 0);

    // One signal is kept back, another is given in place of the one that has come.
    status = next(pid, PTRACE_CONT, 0);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    status = next(pid, PTRACE_CONT, 0);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR2);
    status = next(pid, PTRACE_CONT, SIGUSR1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(waitpid(pid, &status, 0) == -1 && errno == ECHILD);
    return guest_ok();
}
