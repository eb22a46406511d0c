// unstopped: set_tid_address arch_prctl
// Each thread names a word of its own by hand (set_tid_address), more than once: the kernel clears the last one and wakes. And
// thread-local storage that moves (ARCH_SET_FS) is where the thread has put it last, also in the thread of a process that has forked.
#include "../guest.h"
#include <asm/prctl.h>

enum { THREADS = 20, TIMES = 10 };

static volatile uint32_t words[THREADS][2], before[THREADS];
static uint64_t areas[2][2] = {{11, 12}, {21, 22}};

static inline long raw(long nr, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

// What lies at fs:8 while thread-local storage is in each of the areas; no library function is called meanwhile.
static uint64_t look_around(void) {
  uint64_t own, word, sum = 0;
  raw(SYS_arch_prctl, ARCH_GET_FS, (long)&own);
  for (int i = 0; i < TIMES; i++) {
    if (raw(SYS_arch_prctl, ARCH_SET_FS, (long)areas[i % 2])) sum = 1000000;
    __asm__ volatile("movq %%fs:8, %0" : "=r"(word));
    sum += word;
  }
  raw(SYS_arch_prctl, ARCH_SET_FS, (long)own);
  return sum;
}

static int body(void *arg) {
  long n = (long)arg, tid = raw(SYS_gettid, 0, 0);
  for (int i = 0; i < TIMES; i++)
    if (raw(SYS_set_tid_address, (long)&words[n][i % 2], 0) != tid) raw(SYS_exit_group, 9, 0);
  before[n] = look_around() == TIMES / 2 * (12 + 22);
  raw(SYS_exit, 0, 0);
  return 0;
}

int main(void) {
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
  for (long n = 0; n < THREADS; n++) {
    char *stack = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    words[n][0] = words[n][1] = 7;
    CHECK(clone(body, stack + 4 * PAGE, flags, (void *)n, NULL, areas[0], NULL) > 0);
    while (words[n][1] != 0) futex((void *)&words[n][1], FUTEX_WAIT, 7, NULL, NULL, 0);
    CHECK(words[n][0] == 7 && before[n]);
  }
  CHECK(look_around() == TIMES / 2 * (12 + 22));
  pid_t child = fork();
  if (child == 0) _exit(look_around() == TIMES / 2 * (12 + 22) ? 4 : 5);
  check_exited(child, 4);
  return guest_ok();
}
