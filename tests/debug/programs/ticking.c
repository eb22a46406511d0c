/* A timer's signals come in the middle of computations; a register goes on pointing at an instruction, to which the task has returned. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

volatile sig_atomic_t rings;

static void ring(int signal)
{
    (void)signal;
    rings++;
}

static __attribute__((noinline)) void call_and_compute(void)
{
    long result = 110;
    __asm__ volatile("syscall\n"
                     ".globl called\n"
                     "called: jmp 2f\n"
                     ".skip 256\n"
                     "2: movl $60000000, %%eax\n"
                     "1: decl %%eax\n"
                     "jnz 1b\n"
                     : "+a"(result)
                     :
                     : "rcx", "r11", "memory", "cc");
}

int main(void)
{
    struct sigaction action = {.sa_handler = ring};
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 4; i++)
        call_and_compute();
    puts(rings > 0 ? "rung" : "silent");
    return 0;
}
