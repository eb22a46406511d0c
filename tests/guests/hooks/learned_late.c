// A thread waits in a call; meanwhile another comes by the same instruction, which leads to the hooks from then on. Signals
// that nobody looks at interrupt the call, and the kernel makes it again, at the instruction where it was made.
#include "../guest.h"
#include <sys/epoll.h>

// Two ways to lie in the text: what moves begins with the syscall, or ends with it because a branch leads behind it.
#define BEFORE_COMPARISON "syscall\n cmp $-4096, %%rax\n"
#define BEFORE_TARGET "mov $2, %%r8d\n syscall\n 1: dec %%r8d\n jnz 1b\n"

#define SITE(name, text)                                                                           \
  __attribute__((noinline)) static long name(long nr, long a, long b, long c, long d) {            \
    register long r10 __asm__("r10") = d;                                                          \
    long result;                                                                                   \
    __asm__ volatile(text                                                                          \
                     : "=a"(result)                                                                \
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)                                   \
                     : "rcx", "r8", "r11", "cc", "memory");                                        \
    return result;                                                                                 \
  }
typedef long site(long, long, long, long, long);

// Each is used once: afterwards it leads to the hooks.
SITE(futex_1, BEFORE_COMPARISON)
SITE(futex_2, BEFORE_TARGET)
SITE(timeout_1, BEFORE_COMPARISON)
SITE(timeout_2, BEFORE_TARGET)
SITE(sleep_1, BEFORE_COMPARISON)
SITE(sleep_2, BEFORE_TARGET)
SITE(read_1, BEFORE_COMPARISON)
SITE(read_2, BEFORE_TARGET)
SITE(epoll_1, BEFORE_COMPARISON)
SITE(epoll_2, BEFORE_TARGET)
SITE(wait_1, BEFORE_COMPARISON)
SITE(wait_2, BEFORE_TARGET)

static const struct timespec long_time = {20, 0}, short_time = {0, 60000000};
static int word, p[2];
static char byte;
static struct epoll_event event;
static int status;
static pid_t child;

struct case_ {
  site *call;
  long nr, a, b, c, d, result;
};
static _Atomic pid_t waiter;

static void *body(void *arg) {
  const struct case_ *c = arg;
  waiter = gettid();
  long result = c->call(c->nr, c->a, c->b, c->c, c->d);
  CHECK(result == (child ? child : c->result));
  return arg;
}

static bool sleeps(pid_t tid) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return false;
  ssize_t got = read(fd, text, sizeof text - 1);
  CHECK(got > 0 && close(fd) == 0);
  text[got] = 0;
  char *end = strrchr(text, ')');
  CHECK(end);
  return end[2] == 'S';
}

static void check(const struct case_ *c) {
  child = 0;
  word = 1;
  waiter = 0;
  byte = 0;
  if (c->nr == SYS_wait4) {
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      pause();
      _exit(0);
    }
  }
  pthread_t t = start_thread(body, (void *)c);
  while (waiter == 0 || !sleeps(waiter)) usleep(1000);
  CHECK(c->call(SYS_getppid, 0, 0, 0, 0) == getppid());
  for (int i = 0; i < 3; i++) {
    // Who sleeps for a while may be gone.
    CHECK(syscall(SYS_tgkill, getpid(), waiter, SIGURG) == 0 || errno == ESRCH);
    usleep(3000);
  }
  if (c->nr == SYS_futex) {
    // It may be on its way back into the call.
    while (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL) == 0) usleep(1000);
  } else if (c->nr == SYS_read) {
    CHECK(write(p[1], "x", 1) == 1);
  } else if (child) {
    CHECK(kill(child, SIGKILL) == 0);
  }
  join_thread(t);
  CHECK(c->nr != SYS_read || byte == 'x');
  CHECK(!child || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

int main(void) {
  CHECK(pipe(p) == 0);
  int e = epoll_create1(0);
  CHECK(e >= 0);
  const long w = (long)&word, forever = 0, timed = (long)&long_time;
  const struct case_ cases[] = {
      {futex_1, SYS_futex, w, FUTEX_WAIT_PRIVATE, 1, forever, 0},
      {futex_2, SYS_futex, w, FUTEX_WAIT_PRIVATE, 1, forever, 0},
      {timeout_1, SYS_futex, w, FUTEX_WAIT_PRIVATE, 1, timed, 0},
      {timeout_2, SYS_futex, w, FUTEX_WAIT_PRIVATE, 1, timed, 0},
      {sleep_1, SYS_nanosleep, (long)&short_time, 0, 0, 0, 0},
      {sleep_2, SYS_nanosleep, (long)&short_time, 0, 0, 0, 0},
      {read_1, SYS_read, p[0], (long)&byte, 1, 0, 1},
      {read_2, SYS_read, p[0], (long)&byte, 1, 0, 1},
      {epoll_1, SYS_epoll_wait, e, (long)&event, 1, 60, 0},
      {epoll_2, SYS_epoll_wait, e, (long)&event, 1, 60, 0},
      {wait_1, SYS_wait4, -1, (long)&status, 0, 0, 0},
      {wait_2, SYS_wait4, -1, (long)&status, 0, 0, 0},
  };
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i]);
  printf("%d %d\n", getpid(), waiter);
  return guest_ok();
}
