// cflags: -m32
// needs: /usr/lib32/crt1.o
// Signals: handlers with and without siginfo, on a stack of their own, and waits that they end.
#include "../guest.h"
#include <ucontext.h>

static volatile sig_atomic_t count, value, code, was_on_stack;
static char *stack;

static void simple(int sig) { count += sig; }

static void detailed(int sig, siginfo_t *info, void *context) {
  ucontext_t *uc = context;
  CHECK(info->si_signo == sig && uc->uc_mcontext.gregs[REG_EIP] != 0);
  char here;
  was_on_stack = &here >= stack && &here < stack + 65536;
  value = info->si_value.sival_int;
  code = info->si_code;
  count++;
}

// The instruction is 2 bytes long.
static void steps_over(int sig, siginfo_t *info, void *context) {
  (void)sig;
  code = info->si_code;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EIP] += 2;
}

int main(void) {
  on_signal(SIGUSR1, simple, SA_RESTART);
  CHECK(raise(SIGUSR1) == 0 && count == SIGUSR1);
  stack = malloc(65536);
  stack_t alternate = {.ss_sp = stack, .ss_size = 65536}, old;
  CHECK(sigaltstack(&alternate, &old) == 0 && old.ss_flags == SS_DISABLE);
  on_siginfo(SIGRTMIN + 1, detailed, SA_ONSTACK);
  count = 0;
  CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = -77}) == 0);
  CHECK(count == 1 && value == -77 && code == SI_QUEUE && was_on_stack);
  struct sigaction was;
  CHECK(sigaction(SIGRTMIN + 1, NULL, &was) == 0);
  CHECK(was.sa_sigaction == detailed && (was.sa_flags & SA_SIGINFO) && (was.sa_flags & SA_ONSTACK));
  // Blocked, pending, and awaited in two ways.
  sigset_t set, none, pending;
  sigemptyset(&none);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  count = 0;
  CHECK(raise(SIGUSR1) == 0 && count == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
  CHECK_ERRNO(sigsuspend(&none), EINTR);
  CHECK(count == SIGUSR1);
  CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = 55}) == 0);
  siginfo_t info;
  CHECK(sigtimedwait(&set, &info, &(struct timespec){1, 0}) == SIGRTMIN + 1);
  CHECK(info.si_value.sival_int == 55 && info.si_pid == getpid() && info.si_uid == getuid());
  CHECK_ERRNO(sigtimedwait(&set, &info, &(struct timespec){0, 1000000}), EAGAIN);
  CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
  // Faults of the processor.
  on_siginfo(SIGILL, steps_over, 0);
  __asm__ volatile("ud2");
  CHECK(code == ILL_ILLOPN);
  // A read that a handler without SA_RESTART interrupts, and one with it does not. The child sends the signal
  // more than once, since the first may come before the read begins.
  int ends[2];
  CHECK(pipe(ends) == 0);
  on_signal(SIGUSR2, simple, 0);
  volatile int *interrupted = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int restarts = 0; restarts < 2; restarts++) {
    *interrupted = 0;
    pid_t child = fork();
    if (child == 0) {
      for (int i = 0; restarts ? i < 3 : !*interrupted; i++) {
        sleep_ms(20);
        kill(getppid(), restarts ? SIGUSR1 : SIGUSR2);
      }
      CHECK(write(ends[1], "x", 1) == 1);
      _exit(0);
    }
    char got;
    if (!restarts) {
      CHECK_ERRNO(read(ends[0], &got, 1), EINTR);
      *interrupted = 1;
    }
    ssize_t len;
    do len = read(ends[0], &got, 1);
    while (!restarts && len == -1 && errno == EINTR);
    CHECK(len == 1 && got == 'x');
    int status;
    while (waitpid(child, &status, 0) == -1) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  puts("all signals came");
  return guest_ok();
}
