// rdtsc in code that is made at run time, where bis lets it fault: in threads that have blocked SIGSEGV, and in a
// process that ignores it. The program's handler, what is blocked and what is ignored stay as they are, in the
// children of forks, too; and a fault of the program's own comes to its handler.
#include "../guest.h"
#include <setjmp.h>
#include <sys/mman.h>

static unsigned long (*counter)(void);
static sigjmp_buf out;
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)context;
  CHECK(signal == SIGSEGV && info->si_addr == (void *)0x10);
  faults++;
  siglongjmp(out, 1);
}

static int is_blocked(int signal) {
  sigset_t mask;
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
  return sigismember(&mask, signal);
}

static void (*action(void))(int, siginfo_t *, void *) {
  struct sigaction now;
  CHECK(sigaction(SIGSEGV, NULL, &now) == 0);
  return now.sa_sigaction;
}

static void count(void) {
  unsigned long before = counter();
  for (int i = 0; i < 5; i++) CHECK(counter() > before);
}

static void *blocks(void *arg) {
  sigset_t all;
  sigfillset(&all);
  CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
  count();
  CHECK(is_blocked(SIGSEGV) && is_blocked(SIGUSR1) && action() == on_fault);
  return arg;
}

static void fault(void) {
  int before = faults;
  if (sigsetjmp(out, 1) == 0) *(volatile int *)0x10 = 1;
  CHECK(faults == before + 1);
}

int main(void) {
  unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  // rdtsc; shl $32,%rdx; or %rdx,%rax; ret
  memcpy(code, "\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3", 10);
  counter = (unsigned long (*)(void))code;
  struct sigaction action_ = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action_, NULL) == 0);
  fault();
  count();
  CHECK(!is_blocked(SIGSEGV) && action() == on_fault);
  pthread_t thread;
  for (int i = 0; i < 2; i++) {
    CHECK(pthread_create(&thread, NULL, blocks, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    fault();
  }
  pid_t child = fork();
  if (child == 0) {
    blocks(NULL);
    sigset_t none;
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
    fault();
    signal(SIGSEGV, SIG_IGN);
    count();
    CHECK(action() == (void (*)(int, siginfo_t *, void *))SIG_IGN);
    CHECK(kill(getpid(), SIGSEGV) == 0);
    _exit(7);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  fault();
  printf("%d faults\n", faults);
  puts("guest ok");
  return 0;
}
