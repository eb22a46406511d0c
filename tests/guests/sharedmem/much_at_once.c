// Large changes of shared memory by one call each: a file that is mapped shared is written, copied into and filled
// anew; a System V segment comes with content.
#include "../guest.h"
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/uio.h>

#define LEN (6 << 20)

static void fill(unsigned char *at, size_t len, uint32_t x) {
  for (size_t i = 0; i + 4 <= len; i += 4) {
    x = x * 1664525 + 1013904223;
    memcpy(at + i, &x, 4);
  }
}

int main(void) {
  unsigned char *src = malloc(LEN);
  int fd = open("f", O_CREAT | O_RDWR, 0600), other = open("g", O_CREAT | O_RDWR, 0600);
  CHECK(src && ftruncate(fd, LEN + PAGE) == 0);
  unsigned char *m = mmap(NULL, LEN + PAGE, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(m != MAP_FAILED);

  fill(src, LEN, 1);
  CHECK(pwrite(fd, src, LEN, 100) == LEN && memcmp(m + 100, src, LEN) == 0 && m[99] == 0);
  printf("%lx\n", digest(m, LEN + PAGE));

  fill(src, LEN, 2);
  struct iovec parts[2] = {{src, LEN - 5}, {src + LEN - 5, 5}};
  CHECK(lseek(fd, 0, SEEK_SET) == 0 && writev(fd, parts, 2) == LEN && memcmp(m, src, LEN) == 0);
  printf("%lx\n", digest(m, LEN + PAGE));

  // A file that may be written and not read (but root may).
  fill(src, LEN, 3);
  int only = open("f", O_WRONLY);
  CHECK(fchmod(fd, 0200) == 0 && pwrite(only, src, LEN, 0) == LEN && memcmp(m, src, LEN) == 0);
  CHECK(fchmod(fd, 0600) == 0);

  fill(src, LEN, 4);
  CHECK(write(other, src, LEN) == LEN);
  loff_t from = 0, to = 0;
  ssize_t n = copy_file_range(other, &from, fd, &to, LEN, 0);
  CHECK(n > 0 || errno == EINVAL || errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS);
  CHECK(n <= 0 || memcmp(m, src, n) == 0);
  printf("%lx\n", digest(m, LEN + PAGE));

  // A child fills a segment; after an exec, whoever attaches it finds it full.
  int shm = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
  if (shm != -1) {
    unsigned char *seg = shmat(shm, NULL, 0);
    CHECK(seg != (void *)-1 && seg[LEN - 1] == 0);
    memcpy(seg, src, LEN);
    CHECK(shmdt(seg) == 0);
    pid_t p = fork();
    if (p == 0) {
      unsigned char *again = shmat(shm, NULL, SHM_RDONLY);
      CHECK(again != (void *)-1);
      _exit(memcmp(again, src, LEN) != 0);
    }
    check_exited(p, 0);
    CHECK(shmctl(shm, IPC_RMID, NULL) == 0);
  }
  return guest_ok();
}
