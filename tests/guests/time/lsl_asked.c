// lsl of the segment whose limit is the core's number, and rdpid, in a program that has asked for one core: they say that
// one, as getcpu does, also where there is no room for a jump.
// hooked: nothing makes them fault, so only text that is patched is told what the program asked for
#include "chance.h"

static inline uint32_t limit(void) {
  uint32_t limit = 0;
  __asm__ volatile("lsl %1, %0\nnop\nnop" : "+r"(limit) : "r"(0x7b) : "cc");
  return limit;
}

__asm__(".p2align 4,0xcc\n.globl short_limit\n.type short_limit,@function\nshort_limit: lsl %edi, %eax\nret\n"
        ".size short_limit,.-short_limit\n.p2align 4,0xcc\n.globl short_rdpid\n.type short_rdpid,@function\n"
        "short_rdpid: rdpid %rax\nret\n.size short_rdpid,.-short_rdpid\n.p2align 4,0xcc\n");
uint32_t short_limit(uint32_t selector);
uint64_t short_rdpid(void);

static void try(void) { rdpid(); }

// On each of them one after the other.
static void on_each(const cpu_set_t *all, bool has_rdpid) {
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    for (int i = 0; i < 20; i++) {
      unsigned cpu, node;
      CHECK(getcpu(&cpu, &node) == 0 && (int)cpu == core && sched_getcpu() == core);
      CHECK((limit() & 0xfff) == cpu && (short_limit(0x7b) & 0xfff) == cpu);
      if (has_rdpid) CHECK((rdpid() & 0xfff) == cpu && (short_rdpid() & 0xfff) == cpu);
      if (i == 10) printf("%x\n", limit());
    }
  }
}

static void *in_thread(void *all) {
  on_each(all, works(try));
  return all;
}

int main(void) {
  cpu_set_t all;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  on_each(&all, works(try));
  join_thread(start_thread(in_thread, &all));
  pid_t p = fork();
  if (p == 0) {
    on_each(&all, works(try));
    _exit(4);
  }
  check_exited(p, 4);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
  for (int i = 0; i < 100; i++) {
    unsigned cpu = limit() & 0xfff;
    CHECK(CPU_ISSET(cpu, &all));
    printf("%u\n", cpu);
  }
  return guest_ok();
}
