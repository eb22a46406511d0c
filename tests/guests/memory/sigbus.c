// A mapping past a file's end raises SIGBUS; after the file grows the same load works.
#include "../guest.h"

static int fd;
static volatile int count;

static void handler(int sig, siginfo_t *info, void *ctx) {
  (void)sig, (void)ctx;
  CHECK(info->si_code == BUS_ADRERR);
  count++;
  CHECK(ftruncate(fd, 2 * PAGE) == 0 && pwrite(fd, "grown", 5, PAGE) == 5);
}

int main(void) {
  fd = open("f", O_CREAT | O_RDWR, 0600);
  CHECK(write(fd, "short", 5) == 5);
  on_siginfo(SIGBUS, handler, 0);
  volatile char *m = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(m[0] == 's');
  CHECK(m[PAGE] == 'g' && count == 1);
  CHECK(m[PAGE + 1] == 'r' && count == 1);
  printf("%p\n", (void *)m);
  return guest_ok();
}
