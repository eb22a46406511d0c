// The main thread overflows its stack again and again, which has a limit lower than that of bis itself, while another
// one computes: it does so as often as it is to, and the stack ends where it ends without bis.
#include "../guest.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf out;
static volatile long computed;
static volatile int ends;
static char *volatile lowest;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  if (lowest == NULL || (char *)info->si_addr < lowest) lowest = info->si_addr;
  siglongjmp(out, 1);
}

static void *computes(void *arg) {
  while (!ends) computed++;
  return arg;
}

static int overflow(int depth) {
  volatile char place[16];
  place[0] = (char)depth;
  if (depth < 0) return 0;
  return overflow(depth + 1) + place[0];
}

int main(void) {
  struct rlimit limit = {512 << 10, RLIM_INFINITY};
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  limit.rlim_cur = 512 << 10;
  CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, computes, NULL) == 0);
  volatile int overflows = 0;
  while (overflows < 200) {
    if (!sigsetjmp(out, 1)) overflow(0);
    overflows++;
  }
  ends = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  // The arguments and the environment are part of it.
  long depth = (char *)&limit - lowest;
  CHECK(depth > (256 << 10) && depth <= (512 << 10));
  puts("guest ok");
  return 0;
}
