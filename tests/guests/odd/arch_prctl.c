// arch_prctl and the segment bases: FS is libc's, GS is free; per thread; kept over signals and fork.
#include "../guest.h"
#include <asm/prctl.h>

static uint64_t area[2][4] = {{11, 12}, {21, 22}};

static uint64_t gs_word(void) {
  uint64_t v;
  __asm__ volatile("movq %%gs:8, %0" : "=r"(v));
  return v;
}

static void handler(int sig) {
  (void)sig;
  CHECK(gs_word() == 12);
}

static void *body(void *arg) {
  uint64_t base = 99;
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && (base == 0 || base == (uintptr_t)area[0]));
  CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, area[1]) == 0);
  for (int i = 0; i < 10; i++) {
    sched_yield();
    CHECK(gs_word() == 22);
  }
  return arg;
}

int main(void) {
  uint64_t fs = 0;
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &fs) == 0 && fs == (uintptr_t)pthread_self());
  CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, area[0]) == 0 && gs_word() == 12);
  pthread_t t = start_thread(body, NULL);
  for (int i = 0; i < 10; i++) {
    sched_yield();
    CHECK(gs_word() == 12);
  }
  join_thread(t);
  on_signal(SIGUSR1, handler, 0);
  CHECK(raise(SIGUSR1) == 0);
  pid_t p = fork();
  if (p == 0) _exit(gs_word() == 12 ? 4 : 5);
  check_exited(p, 4);
  CHECK_ERRNO(syscall(SYS_arch_prctl, ARCH_SET_FS, 1ul << 63), EPERM);
  printf("fs %lx\n", fs);
  return guest_ok();
}
