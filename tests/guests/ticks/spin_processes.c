// Two processes wait for each other in shared memory, in loops that make no call.
#include "../guest.h"

int main(void) {
  volatile int *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(m != MAP_FAILED);
  pid_t p = fork();
  if (p == 0) {
    for (int i = 0; i < 20; i++) {
      while (m[0] != 2 * i + 1) {
      }
      m[0] = 2 * i + 2;
    }
    _exit(0);
  }
  for (int i = 0; i < 20; i++) {
    m[0] = 2 * i + 1;
    while (m[0] != 2 * i + 2) {
    }
  }
  check_exited(p, 0);
  printf("%d\n", m[0]);
  return guest_ok();
}
