/* A timer interrupts a computation that comes by the same registers again and again: only one word of memory says which time it is. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long round_now;

static volatile long seen_in;
static int forks;

/* The number of the round is what the kernel is asked with. */
static void interrupted(int signal)
{
    (void)signal;
    if (forks) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    seen_in = round_now;
    syscall(SYS_getpgid, (int)(1000000 + round_now));
}

static __attribute__((noinline)) void compute(long n)
{
    /* No register tells of the round. */
    __asm__ volatile("mov %0, %%rcx\n"
                     "xor %%eax, %%eax\n"
                     "1: dec %%rcx\n"
                     "jnz 1b\n"
                     :
                     : "r"(n)
                     : "rax", "rcx", "cc");
}

/* How many turns of the loop take about so many milliseconds of processor time. */
static long turns_of(long ms)
{
    const long turns = 1 << 22;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    compute(turns);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    long ns = (end.tv_sec - begin.tv_sec) * 1000000000L + end.tv_nsec - begin.tv_nsec;
    return (long)((double)turns * 1e6 * (double)ms / (double)(ns + 1));
}

int main(int argc, char **argv)
{
    (void)argv;
    forks = argc > 1;
    struct sigaction action = {.sa_handler = interrupted};
    struct itimerval timer = {.it_value.tv_usec = 100000};
    long turns = turns_of(40);
    printf("it begins\n");
    fflush(stdout);
    sigaction(SIGPROF, &action, NULL);
    for (int i = 0; i < 40; i++)
        syscall(SYS_getpgid, 2000000 + i);
    setitimer(ITIMER_PROF, &timer, NULL);
    for (round_now = 0; round_now < 6; round_now++)
        compute(turns);
    printf("it came in round %ld\n", seen_in);
    return 0;
}
