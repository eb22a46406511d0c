// Processes that are killed in the middle of calls: by the kernel's own rules, by another, by a thread.
#include "../guest.h"

static void *busy(void *arg) {
  int fd = *(int *)arg;
  char buf[128];
  for (;;) {
    CHECK(write(fd, buf, sizeof buf) == sizeof buf);
    getppid();
  }
}

int main(void) {
  static const int deaths[] = {SIGKILL, SIGTERM, SIGUSR1, SIGXCPU};
  int null = open("/dev/null", O_WRONLY), up[2];
  CHECK(null >= 0 && pipe(up) == 0);
  for (int i = 0; i < 16; i++) {
    int sig = deaths[i % 4];
    pid_t child = fork();
    if (child == 0) {
      CHECK(write(up[1], "r", 1) == 1);
      if (i >= 8) start_thread(busy, &null);
      if (i % 8 >= 4) {
        // One that waits.
        int p[2];
        char c;
        CHECK(pipe(p) == 0);
        read(p[0], &c, 1);
      }
      busy(&null);
    }
    char c;
    CHECK(read(up[0], &c, 1) == 1);
    sleep_ms(1 + i % 3);
    CHECK(kill(child, sig) == 0);
    check_killed(child, sig);
    printf("%d\n", child);
  }
  return guest_ok();
}
