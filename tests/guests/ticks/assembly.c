// Loops of one kind of instruction each, interrupted by a timer: where the handler came is seen in memory that the loop
// changes far away, or in registers of one kind only.
// steps: -DSIZE=512 -DTURNS=200 -DPASSES=500
#include "../guest.h"
#include <sys/time.h>

#ifndef SIZE
#define SIZE (1 << 16)
#endif

#ifndef TURNS
#define TURNS 3000
#endif

#ifndef PASSES
#define PASSES 20000
#endif

static volatile sig_atomic_t came;
static char from[SIZE], to[SIZE];
static volatile uint64_t far_away[SIZE];

static void handler(int sig) {
  (void)sig;
  came++;
}

// Runs `code` until three more signals have come; `r12` is free for it.
#define UNTIL(...)                    \
  do {                                \
    int until = came + 3;             \
    while (came < until) __VA_ARGS__; \
  } while (0)

static uint64_t loops(void) {
  uint64_t sum = 0;
  UNTIL({
    // Copies, stores, comparisons and searches that repeat themselves, in both directions.
    void *d = to, *s = from;
    size_t n = sizeof from;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
    d = to, n = sizeof to / 8;
    __asm__ volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(0x0101010101010101ul * (unsigned char)came) : "memory");
    d = to, n = sizeof to - 1;
    __asm__ volatile("repe scasb" : "+D"(d), "+c"(n) : "a"((unsigned char)to[0]) : "cc");
    CHECK(n == 0);
    d = to + sizeof to - 1, s = from + sizeof from - 1, n = sizeof from;
    __asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory", "cc");
    d = to, s = from, n = sizeof from;
    __asm__ volatile("repe cmpsb" : "+D"(d), "+S"(s), "+c"(n) : : "cc");
    CHECK(n == 0);
    sum++;
  });
  printf("strings: %lu\n", sum), sum = 0;
  UNTIL({
    // Flags in and out of memory; nothing of a step may be seen in them.
    uint64_t flags;
    int n = TURNS;
    __asm__ volatile(
        "1: stc\n pushfq\n pop %0\n test $0x100, %0\n jnz 2f\n push %0\n popfq\n jnc 2f\n dec %1\n jnz 1b\n2:"
        : "=&r"(flags), "+r"(n)
        :
        : "cc", "memory");
    CHECK(n == 0);
    sum++;
  });
  printf("flags: %lu\n", sum), sum = 0;
  UNTIL({
    // Instructions of one byte, and of no use.
    int n = TURNS;
    __asm__ volatile("1: nop\n cmc\n clc\n stc\n cld\n push %%rax\n pop %%rax\n dec %0\n jnz 1b" : "+r"(n) : : "cc", "memory");
    sum++;
  });
  printf("bytes: %lu\n", sum), sum = 0;
  UNTIL({
    // Jumps to the second and third byte of what a breakpoint at the first must replace.
    uint64_t n = TURNS, odd = 0;
    __asm__ volatile(
        "1: nop\n2: nop\n3: inc %1\n dec %0\n jz 4f\n test $1, %0\n jz 2b\n test $2, %0\n jz 3b\n jmp 1b\n4:"
        : "+r"(n), "+r"(odd)
        :
        : "cc");
    CHECK(n == 0 && odd == TURNS);
    sum += odd;
  });
  printf("middles: %lu\n", sum), sum = 0;
  UNTIL({
    // Jumps that look at rcx.
    uint64_t n = 30, rounds = 0;
    __asm__ volatile("3: mov $100, %%ecx\n1: inc %1\n loop 1b\n jrcxz 2f\n ud2\n2: dec %0\n jnz 3b" : "+r"(n), "+r"(rounds) : : "rcx", "cc");
    CHECK(rounds == 3000);
    sum++;
  });
  printf("loops: %lu\n", sum), sum = 0;
  UNTIL({
    // The x87's stack alone says where this is; its count of passes is in st(0).
    double result;
    __asm__ volatile(
        "fldl %1\n fldz\n1: fld1\n faddp\n fcomi %%st(1), %%st\n jb 1b\n fstpl %0\n fstp %%st(0)"
        : "=m"(result)
        : "m"((double){PASSES})
        : "cc", "st", "st(1)", "st(2)");
    CHECK(result == PASSES);
    sum++;
  });
  printf("x87: %lu\n", sum), sum = 0;
  if (__builtin_cpu_supports("avx2")) {
    UNTIL({
      // Only the upper half of ymm5 changes.
      uint64_t n = PASSES, out[4], one[4] = {0, 0, 0, 1}, limit[4] = {0, 0, 0, n};
      __asm__ volatile(
          "vpxor %%xmm5, %%xmm5, %%xmm5\n vmovdqu %1, %%ymm6\n vmovdqu %2, %%ymm7\n"
          "1: vpaddq %%ymm6, %%ymm5, %%ymm5\n vpcmpeqq %%ymm7, %%ymm5, %%ymm4\n vptest %%ymm4, %%ymm4\n jz 1b\n"
          "vpxor %%ymm4, %%ymm4, %%ymm4\n vptest %%ymm7, %%ymm5\n vmovdqu %%ymm5, %0\n vzeroupper"
          : "=m"(out)
          : "m"(one), "m"(limit)
          : "xmm4", "xmm5", "xmm6", "xmm7", "cc");
      CHECK(out[3] == n || out[0] == 0);
      sum++;
    });
    printf("ymm: %lu\n", sum), sum = 0;
  }
  UNTIL({
    // Only a word of memory that no register points to changes.
    far_away[SIZE / 2] = PASSES;
    __asm__ volatile("1: subq $1, %0\n jnz 1b" : "+m"(far_away[SIZE / 2]) : : "cc");
    sum++;
  });
  printf("memory: %lu\n", sum);
  return sum;
}

int main(void) {
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  memset(from, 5, sizeof from);
  CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
  loops();
  CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
  return guest_ok();
}
