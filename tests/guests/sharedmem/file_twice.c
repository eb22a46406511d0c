// One file mapped shared by two programs that do not share a fork: parent and an exec'd child talk through it.
#include "../guest.h"

static volatile uint32_t *open_it(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
  volatile uint32_t *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED && close(fd) == 0);
  return m;
}

static void wait_for(volatile uint32_t *word, uint32_t want) {
  uint32_t v;
  while ((v = __atomic_load_n(word, __ATOMIC_SEQ_CST)) < want) futex((void *)word, FUTEX_WAIT, v, NULL, NULL, 0);
}

static void tell(volatile uint32_t *word, uint32_t v) {
  __atomic_store_n(word, v, __ATOMIC_SEQ_CST);
  futex((void *)word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int main(int argc, char **argv) {
  volatile uint32_t *m = open_it();
  if (argc > 1) {
    for (uint32_t i = 1; i <= 50; i++) {
      wait_for(&m[0], i);
      m[2] = m[2] * 3 + m[3];
      tell(&m[1], i);
    }
    return 17;
  }
  pid_t p = fork();
  if (p == 0) {
    execl("/proc/self/exe", argv[0], "child", NULL);
    _exit(99);
  }
  uint32_t want = 0;
  for (uint32_t i = 1; i <= 50; i++) {
    m[3] = i * 7;
    want = want * 3 + i * 7;
    tell(&m[0], i);
    wait_for(&m[1], i);
    CHECK(m[2] == want);
  }
  check_exited(p, 17);
  printf("%x at %p\n", m[2], (void *)m);
  return guest_ok();
}
