// Stops that SIGCONT takes back soon, of a process that shares memory and makes calls: it goes on each time.
#include "../guest.h"

enum { PAIRS = 100 };

// Computes with what it shares, and answers whoever asks.
static void computes(volatile long *shared, int asked, int answers) {
  CHECK(fcntl(asked, F_SETFL, O_NONBLOCK) == 0);
  char byte;
  ssize_t got;
  do {
    for (int n = 0; n < 100; n++) shared[0]++;
    got = read(asked, &byte, 1);
    CHECK(got >= 0 || errno == EAGAIN);
    if (got == 1) CHECK(write(answers, &byte, 1) == 1);
  } while (got);
  _exit(0);
}

int main(void) {
  volatile long *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  int ask[2], answer[2];
  CHECK(pipe(ask) == 0 && pipe(answer) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(ask[1]);
    computes(shared, ask[0], answer[1]);
  }
  close(ask[0]);
  CHECK(munmap((void *)shared, PAGE) == 0);
  for (int i = 0; i < PAIRS; i++) {
    CHECK(kill(child, SIGSTOP) == 0);
    for (volatile int spin = i % 60 * i; spin > 0; spin--);
    CHECK(kill(child, SIGCONT) == 0);
    char byte = 0;
    CHECK(write(ask[1], &byte, 1) == 1 && read(answer[0], &byte, 1) == 1);
  }
  close(ask[1]);
  check_exited(child, 0);
  return guest_ok();
}
