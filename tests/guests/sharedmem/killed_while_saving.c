// A process is killed while it counts in memory that others see, and saves its vector registers each time, as the dynamic linker
// does when a function is called first. Often it is killed in what comes behind that instruction.
// hooked: nothing makes the instruction fault, so only text that is patched is recorded
#include "../guest.h"
#include <cpuid.h>

enum { ROUNDS = 2 };
__attribute__((used, aligned(64))) static char area[4096];

static int has_xsavec(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE) && __get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 2);
}

// The loop's registers are all that a function may use, and they are what tells its rounds apart. Only where the loop in it is, it can be
// stopped: a tenth of the time where a processor saves AVX-512's registers, which takes 200 ns.
__attribute__((noinline)) static void saves(volatile unsigned long *counts) {
  __asm__ volatile("1: incq (%0); incq %%rbx; incq %%r8; xorq %%rbx, %%r15; leaq (%%r8, %%r15), %%r11\n"
                   "movl $7, %%eax; xorl %%edx, %%edx; .rept 8; xsavec area(%%rip); .endr\n"
                   "movl $500, %%ecx; 2: decl %%ecx; jnz 2b; jmp 1b"
                   :
                   : "r"(counts)
                   : "rax", "rbx", "rcx", "rdx", "r8", "r11", "r15", "memory", "cc");
}

static void kills(pid_t victim, volatile unsigned long *counts, int round) {
  CHECK(munmap((void *)counts, PAGE) == 0);
  usleep(30 * round);
  CHECK(kill(victim, SIGKILL) == 0);
  _exit(0);
}

int main(void) {
  if (!has_xsavec()) return guest_ok();
  volatile unsigned long *counts = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(counts != MAP_FAILED);
  for (int round = 0; round < ROUNDS; round++) {
    unsigned long before = *counts;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) saves(counts);
    while (*counts == before) sched_yield();
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0) kills(child, counts, round);
    check_killed(child, SIGKILL);
    printf("%d: %lu\n", round, *counts);
    check_exited(killer, 0);
  }
  return guest_ok();
}
