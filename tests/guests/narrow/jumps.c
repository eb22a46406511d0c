// cflags: -m32
// needs: /usr/lib32/crt1.o
// Jumps out of handlers, many times, with the mask and the floating-point state as they should be.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf with_mask;
static jmp_buf plain;

static void leaves(int sig) {
  if (sig == SIGUSR1) siglongjmp(with_mask, 5);
  longjmp(plain, 6);
}

int main(void) {
  on_signal(SIGUSR1, leaves, 0);
  on_signal(SIGUSR2, leaves, SA_NODEFER);
  volatile int count = 0;
  volatile double sum = 0;
  for (volatile int i = 0; i < 200; i++) {
    int from = sigsetjmp(with_mask, 1);
    if (from == 0) {
      sum += 1.0 / 3;
      raise(SIGUSR1);
      CHECK(!"the handler returned");
    }
    CHECK(from == 5);
    count++;
    sigset_t mask;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1));
    from = setjmp(plain);
    if (from == 0) {
      raise(SIGUSR2);
      CHECK(!"the handler returned");
    }
    CHECK(from == 6);
  }
  CHECK(count == 200 && sum > 66.6 && sum < 66.7);
  printf("%d jumps\n", count);
  return guest_ok();
}
