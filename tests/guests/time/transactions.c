// Transactions in a program that does not ask cpuid: whatever they do, the way out of one that fails is always there, and a
// lock that is elided counts right.
// hooked: nothing makes these instructions fault, so only text that is patched is recorded
#include "chance.h"

static uint64_t counter;
static int lock, began, failed;

static void increment(void) {
  unsigned status = ~0u;
  for (int tries = 0; tries < 3; tries++) {
    __asm__ volatile("xbegin 1f\n1:" : "+a"(status) : : "memory");
    if (status == ~0u) {
      counter++;
      __asm__ volatile("xend" : : : "memory");
      began++;
      return;
    }
    failed++;
    if (!(status & 2)) break;
    status = ~0u;
  }
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
  counter++;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static void try(void) { increment(); }

int main(void) {
  if (!works(try)) {
    puts("the processor has no transactions");
    return guest_ok();
  }
  counter = 0;
  for (int i = 0; i < 10000; i++) increment();
  CHECK(counter == 10000);
  unsigned char in = 9;
  __asm__ volatile("xtest\nsetnz %0" : "=r"(in) : : "cc");
  CHECK(in == 0);
  uint64_t kept = 0x1122334455667788, flags = 0;
  __asm__ volatile("mov %2, %%rcx\nstc\nxbegin 1f\nxend\n1: pushfq\npop %1\nmov %%rcx, %0" : "=r"(kept), "=r"(flags) : "r"(kept) : "rax", "rcx", "memory", "cc");
  CHECK(kept == 0x1122334455667788 && (flags & 1));
  printf("began %d failed %d\n", began, failed);
  return guest_ok();
}
