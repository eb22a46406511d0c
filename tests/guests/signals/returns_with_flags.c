// A program goes on by `iretq`, which loads the flags with the place, as Wine does behind its system calls.
// Whoever steps over it must leave no flag of a step behind: that would be a SIGTRAP for the program.
// steps: -DROUNDS=10
#include "../guest.h"

#ifndef ROUNDS
#define ROUNDS 20000
#endif

#define TRAP_FLAG 0x100l

// Goes on behind itself; and answers which flags it has 64 instructions later.
static long go_on(void) {
  long flags;
  __asm__ volatile(
      "movq %%rsp, %%rax\n movl %%ss, %%ecx\n subq $128, %%rsp\n"
      "pushq %%rcx\n pushq %%rax\n pushfq\n"
      "movl %%cs, %%ecx\n pushq %%rcx\n leaq 1f(%%rip), %%rcx\n pushq %%rcx\n iretq\n"
      "1: .rept 64\n nop\n .endr\n"
      "leaq -128(%%rsp), %%rsp\n pushfq\n popq %0\n leaq 128(%%rsp), %%rsp\n"
      : "=&r"(flags)
      :
      : "rax", "rcx", "cc", "memory");
  return flags;
}

static void *rounds(void *arg) {
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) CHECK((go_on() & TRAP_FLAG) == 0);
  return NULL;
}

int main(void) {
  pthread_t other = start_thread(rounds, NULL);
  rounds(NULL);
  join_thread(other);
  return guest_ok();
}
