// O_DIRECT: reads and writes that bypass the page cache, into private and into shared memory.
#include "../guest.h"
#include <sys/uio.h>

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR | O_DIRECT, 0600);
  bool direct = fd >= 0;
  if (!direct) {
    CHECK(errno == EINVAL);
    fd = open("f", O_CREAT | O_RDWR, 0600);
  }
  char *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *shared = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 4 * PAGE; i++) own[i] = (char)(i * 7 + i / PAGE);
  CHECK(pwrite(fd, own, 4 * PAGE, 0) == 4 * PAGE);
  uint64_t want = digest(own, 4 * PAGE);
  memset(own, 0, 4 * PAGE);
  CHECK(read(fd, own, 4 * PAGE) == 4 * PAGE && digest(own, 4 * PAGE) == want);
  struct iovec v[2] = {{shared + 2 * PAGE, 2 * PAGE}, {shared, 2 * PAGE}};
  CHECK(preadv(fd, v, 2, 0) == 4 * PAGE);
  CHECK(memcmp(shared + 2 * PAGE, own, 2 * PAGE) == 0 && memcmp(shared, own + 2 * PAGE, 2 * PAGE) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(pread(fd, shared, PAGE, PAGE) == PAGE);
    _exit(0);
  }
  check_exited(pid, 0);
  CHECK(memcmp(shared, own + PAGE, PAGE) == 0);
  if (direct && pread(fd, own + 1, PAGE, 0) == -1) CHECK(errno == EINVAL);
  CHECK(unlink("f") == 0);
  printf("%d %p %p %llx\n", direct, (void *)own, (void *)shared, (unsigned long long)want);
  return guest_ok();
}
