// cflags: -static
// A static binary: no loader, vdso found through auxv, TLS, threads, fork.
#include "../guest.h"

static __thread int local = 3;

static void *body(void *arg) {
  local += 1;
  CHECK(local == 4);
  return arg;
}

int main(void) {
  join_thread(start_thread(body, NULL));
  CHECK(local == 3);
  pid_t p = fork();
  if (p == 0) _exit(local);
  check_exited(p, 3);
  struct timespec t;
  CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0);
  printf("%d at %ld, code at %p\n", p, t.tv_sec, (void *)main);
  return guest_ok();
}
