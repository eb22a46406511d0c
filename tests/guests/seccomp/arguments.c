// Filters look at arguments and at the address of the call; calls that bis makes without a stop obey them as well. What the
// vdso answers is no call: filters say nothing of it.
#include "filter.h"

int main(void) {
  int fds[2];
  char byte;
  CHECK(pipe(fds) == 0 && write(fds[1], "abcdefgh", 8) == 8);
  for (int i = 0; i < 4; i++) CHECK(read(fds[0], &byte, 1) == 1 && getppid() > 0);
  give_up_privileges();
  // Reads from descriptor 77, and none longer than 100 bytes; getppid with an argument that is odd in its upper half.
  struct sock_filter code[] = {
      LOAD(nr),
      IS(SYS_read, 0, 5),
      LOAD_ARG(0),
      IS(77, 0, 1),
      ANSWER(SECCOMP_RET_ERRNO | 5),
      LOAD_ARG(2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 100, 5, 6),
      IS(SYS_getppid, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 4),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 1),
      BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 7),
      IS(7, 0, 1),
      ANSWER(SECCOMP_RET_ERRNO | 7),
      ANSWER(SECCOMP_RET_ALLOW),
  };
  CHECK(INSTALL(code, 0) == 0);
  CHECK(dup2(fds[0], 77) == 77);
  for (int i = 0; i < 3; i++) {
    CHECK(read(fds[0], &byte, 1) == 1 && byte == 'e' + i);
    CHECK_ERRNO(read(77, &byte, 1), 5);
    char big[200];
    CHECK_ERRNO(read(fds[0], big, sizeof big), 7);
    CHECK(syscall(SYS_getppid, 0ul) == getppid());
    CHECK(syscall(SYS_getppid, 1ul) == getppid());
    CHECK_ERRNO(syscall(SYS_getppid, 1ul << 32), 7);
  }
  // No clock by a call.
  struct sock_filter clock[] = ONE(SYS_clock_gettime, SECCOMP_RET_ERRNO | 9);
  struct timespec t, u;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  CHECK(INSTALL(clock, 0) == 0);
  for (int i = 0; i < 3; i++) {
    CHECK_ERRNO(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &u), 9);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &u) == 0 && now_ns() > 0);
    CHECK(u.tv_sec * 1000000000ll + u.tv_nsec >= t.tv_sec * 1000000000ll + t.tv_nsec);
  }
  // Only the calls of one place.
  uint64_t here;
  long result;
  struct sock_filter place[] = {
      LOAD(nr), IS(SYS_getpgrp, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
      IS(0, 1, 0), ANSWER(SECCOMP_RET_ERRNO | 11), ANSWER(SECCOMP_RET_ALLOW),
  };
  for (int i = 0; i < 4; i++) {
    __asm__ volatile("syscall\n1: lea 1b(%%rip), %%rdx" : "=a"(result), "=&d"(here) : "0"(SYS_getpgrp) : "rcx", "r11");
    CHECK(result == (i < 2 ? getpgrp() : result));
    if (i == 1) {
      place[3].k = (uint32_t)here;
      CHECK(INSTALL(place, 0) == 0);
    }
    if (i >= 2) CHECK(result == getpgid(0));
  }
  CHECK_ERRNO(syscall(SYS_getpgrp), 11);
  printf("%d %ld\n", getpid(), (long)u.tv_nsec);
  return guest_ok();
}
