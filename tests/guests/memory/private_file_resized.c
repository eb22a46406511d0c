// A private mapping whose file grows and gets shorter: what lies beyond the file's end is a SIGBUS, also where the
// process had made the page its own; what lies before it can be accessed, moved and made longer, wherever it came from.
#include "../guest.h"
#include <setjmp.h>

static sigjmp_buf back;

static void on_bus(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  CHECK(info->si_code == BUS_ADRERR);
  siglongjmp(back, 1);
}

// The byte at `at`, or -1 where there is none.
static int peek(volatile char *at) { return sigsetjmp(back, 1) ? -1 : *at; }

static void show(const char *what, char *m, int pages) {
  printf("%-14s", what);
  for (int i = 0; i < pages; i++) {
    int first = peek(m + i * PAGE), later = peek(m + i * PAGE + 100);
    printf(" %d/%d", first, later);
  }
  puts("");
}

static void expect(const char *what, char *m, int pages, int accessible) {
  show(what, m, pages);
  for (int i = 0; i < pages; i++) CHECK((peek(m + i * PAGE) >= 0) == (i < accessible));
}

int main(void) {
  on_siginfo(SIGBUS, on_bus, 0);
  char page[PAGE];
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  for (int i = 0; i < 4; i++) {
    memset(page, 'a' + i, PAGE);
    CHECK(write(fd, page, PAGE) == PAGE);
  }
  char *m = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  CHECK(m != MAP_FAILED);
  m[2 * PAGE] = 'P';
  m[3 * PAGE] = 'P';
  expect("mapped", m, 8, 4);

  // Grown by a write behind a hole.
  CHECK(pwrite(fd, "Z", 1, 5 * PAGE + 100) == 1);
  expect("grown", m, 8, 6);
  CHECK(m[5 * PAGE + 100] == 'Z' && m[4 * PAGE] == 0 && m[2 * PAGE] == 'P');
  m[4 * PAGE] = 'Q';

  // Moved, and longer; half of it protected meanwhile.
  CHECK(mprotect(m, 8 * PAGE, PROT_READ) == 0 && mprotect(m, 8 * PAGE, PROT_READ | PROT_WRITE) == 0);
  char *room = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *n = mremap(m, 8 * PAGE, 12 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
  CHECK(n == room);
  expect("moved", n, 12, 6);
  CHECK(n[0] == 'a' && n[2 * PAGE] == 'P' && n[4 * PAGE] == 'Q' && n[5 * PAGE + 100] == 'Z');

  // Shorter: pages of the process's own go with the file's.
  CHECK(ftruncate(fd, PAGE + 50) == 0);
  expect("shorter", n, 12, 2);
  CHECK(n[PAGE] == 'b' && n[PAGE + 100] == 0);

  // A call on what is not there.
  int p[2];
  CHECK(pipe(p) == 0);
  CHECK_ERRNO(write(p[1], n + 3 * PAGE, 1), EFAULT);

  // And longer again: nothing of what was lost comes back.
  CHECK(ftruncate(fd, 10 * PAGE) == 0);
  expect("longer", n, 12, 10);
  for (int i = 2; i < 10; i++) CHECK(n[i * PAGE] == 0 && n[i * PAGE + 100] == 0);
  CHECK(pwrite(fd, "Y", 1, 9 * PAGE) == 1 && n[9 * PAGE] == 'Y');

  // Cut to a part of it, then grown in place over the file's end.
  CHECK(mremap(n, 12 * PAGE, 3 * PAGE, 0) == n);
  char *q = mremap(n, 3 * PAGE, 12 * PAGE, 0);
  CHECK(q == n);
  expect("in place", q, 12, 10);
  CHECK(q[9 * PAGE] == 'Y' && q[0] == 'a');

  // What the process has made its own is given up: the file shows.
  n[9 * PAGE] = 'X';
  CHECK(madvise(n, 12 * PAGE, MADV_DONTNEED) == 0 && n[9 * PAGE] == 'Y' && n[0] == 'a' && n[2 * PAGE] == 0);

  // Another process does it, and a child that was forked before looks at its own copy.
  int go[2];
  CHECK(pipe(go) == 0);
  pid_t child = fork();
  if (child == 0) {
    char c;
    CHECK(read(go[0], &c, 1) == 1);
    expect("child", n, 12, 4);
    CHECK(n[3 * PAGE] == 'W');
    char *moved = mremap(n, 12 * PAGE, 12 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(moved != MAP_FAILED);
    expect("child moved", moved, 12, 4);
    expect("child kept", n, 12, 4);
    _exit(0);
  }
  pid_t other = fork();
  if (other == 0) {
    CHECK(munmap(n, 12 * PAGE) == 0);
    int again = open("f", O_RDWR | O_TRUNC);
    CHECK(again >= 0 && pwrite(again, "W", 1, 3 * PAGE) == 1);
    CHECK(write(go[1], "x", 1) == 1);
    _exit(0);
  }
  check_exited(other, 0);
  check_exited(child, 0);
  expect("parent", n, 12, 4);
  CHECK(n[0] == 0 && n[3 * PAGE] == 'W');
  CHECK(munmap(n, 12 * PAGE) == 0);
  return guest_ok();
}
