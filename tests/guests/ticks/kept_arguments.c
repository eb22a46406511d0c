// The dynamic linker keeps vector registers on the stack while it looks for a function, those that the processor takes to
// be in use. Which those are among registers that are zero is by chance, and stays in sight, at another place of the stack
// in each of these programs, when frames of other calls cover the rest.
#include "../guest.h"
#include <sys/time.h>

#define PROGRAMS 48

static volatile sig_atomic_t came;

static void handler(int sig) {
  (void)sig;
  came++;
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 0;
  CHECK(signal(SIGALRM, handler) != SIG_ERR);
  struct itimerval every = {{0, 300}, {0, 300}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  int until = came + 3;
  while (came < until)
    __asm__ volatile(
        "pxor %%xmm0, %%xmm0\n pxor %%xmm1, %%xmm1\n pxor %%xmm2, %%xmm2\n pxor %%xmm3, %%xmm3\n"
        "pxor %%xmm4, %%xmm4\n pxor %%xmm5, %%xmm5\n pxor %%xmm6, %%xmm6\n pxor %%xmm7, %%xmm7\n"
        "pxor %%xmm8, %%xmm8\n pxor %%xmm9, %%xmm9\n pxor %%xmm10, %%xmm10\n pxor %%xmm11, %%xmm11\n"
        "pxor %%xmm12, %%xmm12\n pxor %%xmm13, %%xmm13\n pxor %%xmm14, %%xmm14\n pxor %%xmm15, %%xmm15\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
              "xmm12", "xmm13", "xmm14", "xmm15");
  // The first call of printf; then events, at which all memory is looked at.
  printf("%d\n", n);
  fflush(stdout);
  until = came + 2;
  while (came < until) {}
  struct itimerval never = {0};
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  if (n == PROGRAMS) return guest_ok();
  char number[12], padding[PAGE + 16] = "PADDING=";
  snprintf(number, sizeof number, "%d", n + 1);
  memset(padding + 8, 'x', PAGE / PROGRAMS * n);
  char *environment[] = {padding, NULL};
  execle("/proc/self/exe", argv[0], number, NULL, environment);
  return 1;
}
