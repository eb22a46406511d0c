// Two processes map the same new file at the same moment: one of them is the first, and the other finds it there.
#include "../guest.h"

static void child(const char *name, int gate) {
  char c;
  CHECK(read(gate, &c, 1) == 0);
  int fd = open(name, O_RDWR);
  CHECK(fd >= 0);
  volatile uint32_t *m = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);
  __atomic_fetch_add(m, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(m, __ATOMIC_SEQ_CST) != 2) usleep(100);
  _exit(0);
}

int main(void) {
  for (int round = 0; round < 20; round++) {
    char name[16];
    snprintf(name, sizeof name, "f%d", round);
    int fd = open(name, O_RDWR | O_CREAT, 0600), gate[2];
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0 && pipe2(gate, O_CLOEXEC) == 0);
    pid_t kids[2];
    for (int i = 0; i < 2; i++) {
      kids[i] = fork();
      if (kids[i] == 0) close(gate[1]), child(name, gate[0]);
    }
    close(gate[0]), close(gate[1]);
    for (int i = 0; i < 2; i++) check_exited(kids[i], 0);
    uint32_t both = 0;
    CHECK(pread(fd, &both, 4, 0) == 4 && both == 2 && close(fd) == 0);
  }
  return guest_ok();
}
