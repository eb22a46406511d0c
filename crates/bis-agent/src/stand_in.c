/*
 * The stand-in: the program that a recorded process becomes in place of one that is left out of the recording. That one runs
 * outside; its keeper (bis-tracee/outside.rs) tells us by a socket how it fares. What we make of it are recorded calls like any
 * program's, so replay needs nothing for them.
 *
 * All signals are blocked, and those that come are told to the keeper, which sends them to the program. When that stops, we stop by
 * the same signal; when it ends, we end as it did.
 */

#include <asm/errno.h>
#include <asm/poll.h>
#include <asm/signal.h>
#include <asm/unistd.h>
#include <linux/prctl.h>
#include <linux/resource.h>

#include "shared.h"

static long call(long number, u64 a, u64 b, u64 c, u64 d)
{
	register u64 r10 __asm__("r10") = d;
	long result;
	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
	return result;
}

static void mask(u64 blocked)
{
	call(__NR_rt_sigprocmask, SIG_SETMASK, (u64)&blocked, 0, 8);
}

/* What the signal does by itself happens to us. */
static void suffer(u32 signal)
{
	u64 action[4] = { 0, 0, 0, 0 };
	if (signal != SIGKILL && signal != SIGSTOP)
		call(__NR_rt_sigaction, signal, (u64)action, 0, 8);
	call(__NR_kill, call(__NR_getpid, 0, 0, 0, 0), signal, 0, 0);
	mask(~(1ul << (signal - 1)));
	mask(~0ul);
}

static const char *base_name(const char *path)
{
	const char *name = path;
	for (; *path; path++)
		if (*path == '/' && path[1])
			name = path + 1;
	return name;
}

void stand_in(u64 *stack)
{
	const char **argv = (const char **)(stack + 1);
	u32 message[2];
	u32 info[32];
	struct { int fd; short events, revents; } polled[2];

	mask(~0ul);
	long channel = call(OWN_NUMBER, OWN_CHANNEL, 0, 0, 0);
	if (channel < 0)
		call(__NR_exit_group, 125, 0, 0, 0);
	/* What the program has open is its own to close. */
	if (channel > 0)
		call(__NR_close_range, 0, channel - 1, 0, 0);
	call(__NR_close_range, channel + 1, ~0u, 0, 0);
	if (stack[0] > 0)
		call(__NR_prctl, PR_SET_NAME, (u64)base_name(argv[0]), 0, 0);
	u64 all = ~0ul;
	long signals = call(__NR_signalfd4, -1ul, (u64)&all, 8, 0);
	polled[0].fd = channel;
	polled[1].fd = signals;
	polled[0].events = polled[1].events = POLLIN;
	for (;;) {
		polled[0].revents = polled[1].revents = 0;
		if (call(__NR_poll, (u64)polled, 2, -1ul, 0) < 0)
			continue;
		if (polled[1].revents && call(__NR_read, signals, (u64)info, sizeof info, 0) == sizeof info) {
			message[0] = info[0]; /* ssi_signo */
			message[1] = info[2]; /* ssi_code */
			call(__NR_write, channel, (u64)message, sizeof message, 0);
		}
		if (!polled[0].revents)
			continue;
		long len = call(__NR_read, channel, (u64)message, sizeof message, 0);
		/* The keeper has ended before it read the last signal of ours. Its own last word comes behind this error. */
		if (len == -ECONNRESET)
			len = call(__NR_read, channel, (u64)message, sizeof message, 0);
		if (len != sizeof message)
			call(__NR_exit_group, 125, 0, 0, 0); /* nobody tells us any more how the program fares */
		switch (message[0]) {
		case STOPPED:
			suffer(message[1]);
			break;
		case KILLED: {
			u64 none[2] = { 0, 0 };
			call(__NR_setrlimit, RLIMIT_CORE, (u64)none, 0, 0);
			suffer(message[1]);
			call(__NR_exit_group, 128 + message[1], 0, 0, 0);
			break;
		}
		case EXITED:
			call(__NR_exit_group, message[1], 0, 0, 0);
		}
	}
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall stand_in\n\thlt\n");
