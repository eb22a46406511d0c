// What changes in these loops is neither in a register, nor near the top of the stack, nor among what the next
// instructions use at any one place: it lies in a page of its own, is used once in a long pass, or is three pointers away.
// How often they have gone round when a signal comes is all that tells one pass from the next.
#include "../guest.h"
#include <sys/time.h>

static volatile sig_atomic_t came;
static uint64_t counts[3][20];

struct node {
  struct node *next;
  volatile uint64_t count;
};
static volatile uint64_t counter __attribute__((aligned(4096)));
static volatile uint64_t elsewhere[3 * 512] __attribute__((aligned(4096)));
static struct node *chain;
static int which;

static uint64_t now(void) {
  if (which < 2) return counter;
  struct node *n = chain;
  while (n->next) n = n->next;
  return n->count;
}

static void handler(int sig) {
  (void)sig;
  if (came < 20) counts[which][came] = now();
  came++;
}

// A long pass that comes back to the same registers, and counts once.
static void long_pass(void) {
  __asm__ volatile(
      "1: incq %0\n"
      ".rept 60\n xor %%eax, %%eax\n nop\n inc %%eax\n .endr\n"
      "xor %%eax, %%eax\n cmpl $20, %1\n jl 1b"
      : "+m"(counter)
      : "m"(came)
      : "rax", "cc", "memory");
}

// The count is behind a call.
__attribute__((noinline, noclone)) static void count_there(void) { counter++; }
__attribute__((noinline, noclone)) static void idle(void) {
  __asm__ volatile(".rept 40\n nop\n .endr" : : : "memory");
}

static void calls(void) {
  while (came < 20) {
    idle();
    count_there();
    idle();
    idle();
  }
}

// The count is at the end of a chain of pointers, and nothing of the way is kept in a register for long.
static void pointers(void) {
  while (came < 20) {
    struct node *n = *(struct node *volatile *)&chain;
    while (n->next) n = n->next;
    n->count++;
    n = NULL;
    __asm__ volatile("" : "+r"(n));
    idle();
    idle();
  }
}

int main(void) {
  static struct node nodes[40];
  for (int i = 0; i < 39; i++) nodes[i].next = &nodes[i + 1];
  chain = nodes;
  elsewhere[0] = 1;
  struct itimerval on = {{0, 1000}, {0, 1000}}, off = {0};
  on_signal(SIGALRM, handler, 0);
  void (*const loops[])(void) = {long_pass, calls, pointers};
  for (which = 0; which < 3; which++) {
    came = 0, counter = 0;
    CHECK(setitimer(ITIMER_REAL, &on, NULL) == 0);
    loops[which]();
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    for (int i = 0; i < 20; i++) {
      CHECK(i == 0 || counts[which][i] >= counts[which][i - 1]);
      printf("%lu ", counts[which][i]);
    }
    puts("");
  }
  return guest_ok();
}
