// A call that bis does not know, of a program that reserves 4 TB: what it has changed is found by comparing
// memory. That takes as long as is right for what is in use, not for what is reserved.
#include "../guest.h"
#include <sys/ioctl.h>

static const size_t RESERVED = 4ul << 40;

static double now(void) {
  struct timespec time;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(void) {
  char *memory = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    puts("this machine does not let a program reserve so much");
    return guest_ok();
  }
  for (size_t at = 0; at < RESERVED; at += RESERVED / 8) memory[at] = memory[at + RESERVED / 8 - 1] = 1;
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0);
  double begin = now();
  for (int i = 0; i < 3; i++) CHECK_ERRNO(ioctl(fd, 0xabcd1234, memory), ENOTTY);
  double took = now() - begin;
  printf("%.3f s\n", took);
  CHECK(took < 20);

  // A child has all of it, too.
  pid_t child = fork();
  if (child == 0) {
    for (size_t at = 0; at < RESERVED; at += RESERVED / 8) CHECK(memory[at] == 1 && memory[at + PAGE] == 0);
    _exit(0);
  }
  check_exited(child, 0);
  return guest_ok();
}
