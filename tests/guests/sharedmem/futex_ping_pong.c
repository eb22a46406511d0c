// Two processes take turns through a shared word and futexes, 200 times each way.
#include "../guest.h"

int main(void) {
  uint32_t *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  uint32_t *turn = m, *waits = m + 1, *log = m + 16;
  pid_t p = fork();
  uint32_t me = p == 0;
  for (int i = 0; i < 200; i++) {
    while (__atomic_load_n(turn, __ATOMIC_SEQ_CST) % 2 != me) {
      uint32_t seen = __atomic_load_n(turn, __ATOMIC_SEQ_CST);
      if (seen % 2 == me) break;
      __atomic_add_fetch(waits, 1, __ATOMIC_SEQ_CST);
      futex(turn, FUTEX_WAIT, seen, NULL, NULL, 0);
    }
    log[i] += me ? 1000 : 1;
    __atomic_add_fetch(turn, 1, __ATOMIC_SEQ_CST);
    futex(turn, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  if (p == 0) _exit(0);
  check_exited(p, 0);
  CHECK(*turn == 400);
  for (int i = 0; i < 200; i++) CHECK(log[i] == 1001);
  printf("%u waits\n", *waits);
  return guest_ok();
}
