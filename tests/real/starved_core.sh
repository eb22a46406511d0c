# Linux 6.18 gives a core for seconds to one of two sessions alone, where two processes of one hand over to each other there
# and a third wakes now and then on another core: to which of the two is chance. A supervisor that starves there goes to another core.
# needs: gcc
# needs hooks: with `-n` nothing keeps what cpuid says of the core from the program, so all of the recording stays on the first one
# needs bis: natively nobody sends a starved process to another core, and the kernel may leave it there for a minute
# limit: 60
# setup
cat >hog.c <<'end'
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

static cpu_set_t usable;

static void run_on(int wanted)
{
	cpu_set_t one;
	int core = -1;

	for (int i = 0; wanted >= 0 && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &usable)) {
			core = i;
			wanted--;
		}
	CPU_ZERO(&one);
	CPU_SET(core, &one);
	sched_setaffinity(0, sizeof one, &one);
}

static int begins(int core)
{
	if (fork())
		return 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on(core);
	return 1;
}

/* The shell that drives this may starve itself: it is here, where the core is given, that the end is noticed. */
static void hand_over(int from, int to)
{
	char byte = 0;

	for (int n = 0; read(from, &byte, 1) == 1; n++) {
		for (volatile int i = 0; i < 2000; i++)
			;
		if (n % 1000 == 0 && access("ended", F_OK) == 0)
			_exit(0);
		write(to, &byte, 1);
	}
	_exit(0);
}

int main(void)
{
	int there[2], back[2], last;

	sched_getaffinity(0, sizeof usable, &usable);
	last = CPU_COUNT(&usable) - 1;
	alarm(50);
	if (begins(0)) {
		setsid();
		for (;;)
			;
	}
	setsid();
	if (begins(0))
		for (;;)
			usleep(2000);
	pipe(there);
	pipe(back);
	if (begins(last)) {
		close(there[1]);
		close(back[0]);
		hand_over(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	run_on(last);
	write(there[1], "x", 1);
	hand_over(back[0], there[1]);
}
end
gcc -O2 -o hog hog.c
# record
until [ -e begun ]; do sleep 0.01; done
for i in $(seq 40); do /bin/true; done
: >ended
# drive
./hog &
sleep 0.5
: >begun
wait $!
rm begun ended
# check
[ ! -s "$OUT" ]
