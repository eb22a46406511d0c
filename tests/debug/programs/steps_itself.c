/* A program that single-steps itself over system calls, with the trap flag and a handler of SIGTRAP. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile long steps;

static void on_trap(int signal)
{
    (void)signal;
    steps++;
}

/* getppid, three times. */
__asm__(".text\n.globl stepped\n.globl behind\n"
        "stepped:\n"
        "  mov $3, %ebx\n"
        "1: mov $110, %eax\n"
        "  syscall\n"
        "  mov %eax, %edi\n"
        "  dec %ebx\n"
        "  jnz 1b\n"
        "behind:\n"
        "  ret\n");

int main(void)
{
    signal(SIGTRAP, on_trap);
    /* Often enough that hooks make the call. */
    for (int round = 0; round < 40; round++)
        syscall(SYS_getppid);
    for (int round = 0; round < 3; round++)
        __asm__ volatile("lea -128(%%rsp), %%rsp\n pushf\n orq $0x100, (%%rsp)\n popf\n"
                         "call stepped\n"
                         "pushf\n andq $~0x100, (%%rsp)\n popf\n lea 128(%%rsp), %%rsp" ::
                             : "rax", "rbx", "rcx", "rdi", "r11", "memory", "cc");
    printf("%ld steps\n", steps);
    return 0;
}
