// One process maps a file shared, after a fork; the other writes to it by call only, and never maps it. The mapping
// shows what was written, be it for reading only or for writing too.
#include "../guest.h"

int main(void) {
  for (int round = 0; round < 2; round++) {
    int fd = open("f", O_CREAT | O_TRUNC | O_RDWR, 0600), p[2];
    char c;
    CHECK(ftruncate(fd, PAGE) == 0 && pipe(p) == 0);
    pid_t pid = fork();
    if (pid == 0) {
      CHECK(read(p[0], &c, 1) == 1);
      int mine = open("f", O_RDWR);
      CHECK(write(mine, "written", 7) == 7);
      _exit(0);
    }
    volatile char *m = mmap(NULL, PAGE, round ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED && m[0] == 0);
    CHECK(write(p[1], "g", 1) == 1);
    check_exited(pid, 0);
    CHECK(memcmp((void *)m, "written", 7) == 0);
    printf("%d wrote to %p\n", pid, (void *)m);
    CHECK(munmap((void *)m, PAGE) == 0 && close(fd) == 0);
  }
  return guest_ok();
}
