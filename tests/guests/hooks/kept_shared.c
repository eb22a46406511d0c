// needs: root
// unstopped: mmap
// A file of the system that is mapped shared, to be read, as the C library does it with its tables of encodings: by many processes, while
// nobody changes it; and by one that has it open for writing, and another that changes it.
#include "../guest.h"
#include <sys/stat.h>

static char name[64];

static void put(char c, size_t pages) {
  char page[PAGE];
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  CHECK(fd >= 0);
  memset(page, c, PAGE);
  for (size_t i = 0; i < pages; i++) CHECK(write(fd, page, PAGE) == PAGE);
  // Long ago: what was written a moment ago may be written again.
  struct timespec old[2] = {{1000000000, c}, {1000000000, c}};
  CHECK(futimens(fd, old) == 0 && close(fd) == 0);
}

static char *map(int flags, int prot, int how) {
  int fd = open(name, flags);
  CHECK(fd >= 0);
  char *m = mmap(NULL, 3 * PAGE, prot, how, fd, 0);
  CHECK(m != MAP_FAILED && close(fd) == 0);
  return m;
}

static void look(char c) {
  char *m = map(O_RDONLY, PROT_READ, MAP_SHARED);
  CHECK(m[0] == c && m[3 * PAGE - 1] == c);
  CHECK_ERRNO(mprotect(m, PAGE, PROT_READ | PROT_WRITE), EACCES);
  CHECK(mprotect(m, PAGE, PROT_NONE) == 0 && mprotect(m, PAGE, PROT_READ) == 0 && m[1] == c);
  CHECK(madvise(m, 3 * PAGE, MADV_DONTNEED) == 0 && m[PAGE] == c);
  CHECK(munmap(m, 3 * PAGE) == 0);
}

int main(void) {
  snprintf(name, sizeof name, "/usr/local/lib/bis-kept-shared.%d", getpid());
  put('a', 3);
  for (int round = 0; round < 150; round++) look('a');
  for (int i = 0; i < 3; i++) {
    pid_t child = fork();
    if (child == 0) {
      for (int round = 0; round < 20; round++) look('a');
      _exit(0);
    }
    check_exited(child, 0);
  }

  // Somebody has mapped it, and writes to it by that; whoever maps it now sees it.
  char *m = map(O_RDWR, PROT_READ | PROT_WRITE, MAP_SHARED);
  m[PAGE] = 'b';
  char *again = map(O_RDONLY, PROT_READ, MAP_SHARED), *read_only = map(O_RDWR, PROT_READ, MAP_SHARED);
  m[PAGE + 1] = 'c';
  CHECK(again[PAGE] == 'b' && again[PAGE + 1] == 'c' && read_only[PAGE + 1] == 'c');
  CHECK(mprotect(read_only, PAGE, PROT_READ | PROT_WRITE) == 0);
  read_only[0] = 'x';
  CHECK(m[0] == 'x' && again[0] == 'x');
  CHECK(munmap(m, 3 * PAGE) == 0 && munmap(again, 3 * PAGE) == 0 && munmap(read_only, 3 * PAGE) == 0);

  put('d', 3);
  for (int round = 0; round < 5; round++) look('d');
  CHECK(unlink(name) == 0);
  return guest_ok();
}
