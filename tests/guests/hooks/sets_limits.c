// Limits that are set and asked for, of the process itself, of its parent and of its child, as compilers do it; of the address space,
// too. What is beyond a limit fails with and without hooks.
#include "../guest.h"

#include <sys/resource.h>
#include <sys/syscall.h>

static void set(int what, rlim_t soft) {
  struct rlimit old, now, got;
  CHECK(getrlimit(what, &old) == 0);
  now = old;
  now.rlim_cur = soft;
  CHECK(setrlimit(what, &now) == 0 && getrlimit(what, &got) == 0 && got.rlim_cur == soft && got.rlim_max == old.rlim_max);
  CHECK(syscall(SYS_setrlimit, what, &old) == 0);
  CHECK(prlimit(0, what, &now, &got) == 0 && got.rlim_cur == old.rlim_cur);
  CHECK(prlimit(getpid(), what, &old, &got) == 0 && got.rlim_cur == soft);
  CHECK(prlimit(0, what, NULL, NULL) == 0);
}

static void grow(int pages) {
  volatile char here[PAGE];
  here[0] = pages;
  if (pages) grow(pages - 1);
  CHECK(here[0] == (char)pages);
}

int main(void) {
  struct rlimit old, too_much;
  for (int round = 0; round < 20; round++) {
    set(RLIMIT_STACK, 4 << 20);
    set(RLIMIT_CORE, 0);
    set(RLIMIT_NOFILE, 64);
  }
  set(RLIMIT_AS, 1ul << 36);

  CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
  too_much = (struct rlimit){.rlim_cur = old.rlim_max, .rlim_max = old.rlim_max - 1};
  CHECK_ERRNO(setrlimit(RLIMIT_NOFILE, &too_much), EINVAL);
  CHECK_ERRNO(setrlimit(99, &old), EINVAL);
  CHECK_ERRNO(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 8, 0), EFAULT);
  CHECK_ERRNO(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, 8), EFAULT);
  int first = dup(0);
  struct rlimit few = {.rlim_cur = first + 1, .rlim_max = old.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK_ERRNO(dup(0), EMFILE);
  CHECK(close(first) == 0 && dup(0) == first && setrlimit(RLIMIT_NOFILE, &old) == 0);

  // The child sets its parent's, and its own, which its stack then has.
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit stack, none = {0, 0};
    CHECK(getrlimit(RLIMIT_STACK, &stack) == 0);
    if (stack.rlim_max == RLIM_INFINITY || stack.rlim_max > 32ul << 20) {
      stack.rlim_cur = 24 << 20;
      CHECK(setrlimit(RLIMIT_STACK, &stack) == 0);
      grow(5000);
    }
    CHECK(prlimit(getppid(), RLIMIT_CORE, &none, NULL) == 0);
    _exit(0);
  }
  check_exited(pid, 0);
  CHECK(getrlimit(RLIMIT_CORE, &old) == 0 && old.rlim_cur == 0 && old.rlim_max == 0);
  return guest_ok();
}
