// What a tracer finds in the registers at the events of a fork, a vfork and an exec, which are in the middle of
// their calls: their numbers, and -ENOSYS, which no change replaces. Where nobody asked for the event of an exec,
// its SIGTRAP comes behind the end of the call.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void tracee(char *self)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	pid_t child = fork();
	if (!child)
		_exit(3);
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3)
		_exit(1);
	child = vfork();
	if (!child)
		_exit(4);
	if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 4)
		_exit(2);
	execl(self, self, "again", NULL);
	_exit(5);
}

// Prints the stops of one tracee in the middle of calls, and those of an exec.
static int trace(char *self, long options)
{
	pid_t first = fork();
	if (!first)
		tracee(self);
	int status, is_near = 0;
	waitpid(first, &status, 0);
	ptrace(PTRACE_SETOPTIONS, first, 0, options | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	ptrace(PTRACE_SYSCALL, first, 0, 0);
	for (;;) {
		pid_t pid = waitpid(-1, &status, __WALL);
		if (pid < 0)
			return 1;
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (pid != first)
				continue;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
		}
		int signal = WSTOPSIG(status), event = status >> 16;
		if (pid != first) {
			ptrace(PTRACE_CONT, pid, 0, event || signal == SIGSTOP ? 0 : signal);
			continue;
		}
		struct user_regs_struct regs;
		ptrace(PTRACE_GETREGS, pid, 0, &regs);
		int is_call = signal == (SIGTRAP | 0x80);
		if (event) {
			printf("event %d: call %ld, %ld\n", event, (long)regs.orig_rax, (long)regs.rax);
			regs.rax = 77;
			if (event == PTRACE_EVENT_FORK)
				ptrace(PTRACE_SETREGS, pid, 0, &regs);
		} else if (is_call && (long)regs.orig_rax == SYS_execve) {
			printf("execve: %ld\n", (long)regs.rax);
			is_near = 1;
		} else if (is_near) {
			// What comes right behind it.
			printf("%s\n", is_call ? "another call" : strsignal(signal));
			is_near = 0;
		}
		ptrace(PTRACE_SYSCALL, pid, 0, is_call || event || signal == SIGTRAP || signal == SIGCHLD ? 0 : signal);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	if (argc > 1)
		return 7;
	setvbuf(stdout, NULL, _IONBF, 0);
	long births = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE;
	int with = trace(argv[0], births | PTRACE_O_TRACEEXEC), without = trace(argv[0], births);
	printf("%d %d\n", with, without);
	if (with != 7 || without != 7)
		return 1;
	puts("guest ok");
	return 0;
}
