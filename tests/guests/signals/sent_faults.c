// Signals that look as if an instruction had raised them, but were sent: a handler of crashes does that, to have the default action
// after all. By a thread to itself, to its process, to another that computes or waits; while they are blocked; and for good.
#include "../guest.h"

static volatile int came;
static volatile int code;
static void *volatile addr;
static volatile uint64_t rounds;
static int ends[2];

static void handler(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  code = info->si_code;
  addr = info->si_addr;
  came++;
}

static siginfo_t like(int sig, int si_code) {
  siginfo_t info = {.si_signo = sig, .si_code = si_code};
  info.si_addr = (void *)(0x1000 + (uintptr_t)si_code);
  return info;
}

// All that the kernel reads: what is behind it need not be there.
#define READ 48

static char *last;

// To this thread alone.
static void send(int sig, int si_code) {
  siginfo_t info = like(sig, si_code);
  // The kernel puts the number in.
  info.si_signo = 0;
  memcpy(last, &info, READ);
  CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, last) == 0);
}

// To the process.
static void send_all(int sig, int si_code) {
  siginfo_t info = like(sig, si_code);
  CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), sig, &info) == 0);
}

static void block(int how, int sig) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, sig);
  CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

static void check(int times, int si_code) {
  CHECK(came == times && code == si_code && addr == (void *)(0x1000 + (uintptr_t)si_code));
  came = 0;
}

static void *compute(void *arg) {
  *(volatile bool *)arg = true;
  while (!came) rounds++;
  check(1, 2);
  return NULL;
}

static void *wait_for_byte(void *arg) {
  *(volatile bool *)arg = true;
  char c;
  CHECK_ERRNO(read(ends[0], &c, 1), EINTR);
  check(1, 1);
  return NULL;
}

static void to_thread(void *(*body)(void *), int sig, int si_code) {
  volatile bool is_there = false;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, (void *)&is_there) == 0);
  while (!is_there) sched_yield();
  struct timespec moment = {0, 20000000};
  nanosleep(&moment, NULL);
  block(SIG_BLOCK, sig);
  send_all(sig, si_code);
  CHECK(pthread_join(thread, NULL) == 0);
  block(SIG_UNBLOCK, sig);
}

int main(void) {
  char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && munmap(pages + PAGE, PAGE) == 0);
  last = pages + PAGE - READ;
  const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  for (int i = 0; i < 5; i++) {
    int sig = signals[i];
    on_siginfo(sig, handler, 0);
    send(sig, 1);
    check(1, 1);
    send_all(sig, SI_KERNEL);
    check(1, SI_KERNEL);
    block(SIG_BLOCK, sig);
    send(sig, 2);
    // The kernel keeps one of two.
    send(sig, 2);
    CHECK(came == 0 && getppid() > 0);
    block(SIG_UNBLOCK, sig);
    check(1, 2);
  }
  CHECK(pipe(ends) == 0);
  to_thread(compute, SIGSEGV, 2);
  to_thread(wait_for_byte, SIGBUS, 1);
  // Others may not be sent such a one.
  siginfo_t info = like(SIGSEGV, 1);
  CHECK_ERRNO((int)syscall(SYS_rt_sigqueueinfo, getppid(), SIGSEGV, &info), EPERM);
  // A real one, as the last that was sent.
  send(SIGILL, ILL_ILLOPN);
  check(1, ILL_ILLOPN);
  for (int i = 0; i < 2; i++) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      signal(SIGILL, SIG_DFL);
      if (i == 0) send(SIGILL, ILL_ILLOPN);
      __asm__ volatile("ud2");
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
  }
  printf("%lu rounds\n", rounds);
  return guest_ok();
}
