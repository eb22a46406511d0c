// madvise: DONTNEED gives zeros or the file again, FREE may, WIPEONFORK and DONTFORK act on fork.
#include "../guest.h"

int main(void) {
  int rw = PROT_READ | PROT_WRITE;
  char *m = mmap(NULL, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(m, 'x', 4 * PAGE);
  CHECK(madvise(m + PAGE, PAGE, MADV_DONTNEED) == 0);
  CHECK(m[0] == 'x' && m[PAGE] == 0 && m[2 * PAGE] == 'x');
  make_file("f", "file content", 12);
  int fd = open("f", O_RDONLY);
  char *f = mmap(NULL, PAGE, rw, MAP_PRIVATE, fd, 0);
  f[0] = 'F';
  CHECK(madvise(f, PAGE, MADV_DONTNEED) == 0 && f[0] == 'f');
  CHECK(madvise(m + 2 * PAGE, PAGE, MADV_FREE) == 0);
  char freed = m[2 * PAGE];
  CHECK(freed == 'x' || freed == 0);
  m[2 * PAGE] = 'y';
  CHECK(m[2 * PAGE] == 'y');
  CHECK(madvise(m, 4 * PAGE, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
  CHECK(madvise(m, 4 * PAGE, MADV_WILLNEED) == 0);
  CHECK_ERRNO(madvise(m + 1, PAGE, MADV_DONTNEED), EINVAL);
  CHECK_ERRNO(madvise(m, PAGE, 12345), EINVAL);
  char *w = mmap(NULL, 2 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(w, 'w', 2 * PAGE);
  CHECK(madvise(w, PAGE, MADV_WIPEONFORK) == 0 && madvise(w + PAGE, PAGE, MADV_DONTFORK) == 0);
  pid_t child = fork();
  if (child == 0) {
    unsigned char v;
    CHECK(w[0] == 0 && m[0] == 'x');
    CHECK_ERRNO(mincore(w + PAGE, PAGE, &v), ENOMEM);
    _exit(0);
  }
  check_exited(child, 0);
  CHECK(w[0] == 'w' && w[PAGE] == 'w');
  printf("freed page reads %d, %p\n", freed, m);
  return guest_ok();
}
