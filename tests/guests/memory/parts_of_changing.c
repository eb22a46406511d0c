// Small parts of a large file are mapped privately, while the file is changed by calls, by stores, and by another process:
// what each part shows, what it shows when it is moved, made longer, given up and cut off, and what a child has of it.
#include "../guest.h"

#include <setjmp.h>

#define LEN (4ul << 20)
#define PART (8 * PAGE)

static int fd;

static void put(size_t at, const char *text) { CHECK(pwrite(fd, text, 4, at) == 4); }

static char *part(size_t at, int prot) {
  char *m = mmap(NULL, PART, prot, MAP_PRIVATE, fd, at);
  CHECK(m != MAP_FAILED);
  return m;
}

static sigjmp_buf *beyond;

static void on_bus(int sig) {
  (void)sig;
  siglongjmp(*beyond, 1);
}

static int faults(volatile char *at) {
  sigjmp_buf here;
  beyond = &here;
  if (sigsetjmp(here, 1)) return 1;
  (void)*at;
  return 0;
}

static void parts(const char *kind) {
  CHECK(ftruncate(fd, LEN) == 0);
  for (size_t at = 0; at < LEN; at += PAGE) put(at, "abcd");
  // Again and again, at another place each time.
  for (int i = 0; i < 20; i++) {
    char text[8];
    snprintf(text, sizeof text, "%04d", i);
    put(i * PAGE, text);
    char *m = part(i * PAGE, PROT_READ | PROT_WRITE);
    CHECK(memcmp(m, text, 4) == 0 && memcmp(m + PAGE, "abcd", 4) == 0 && m[4] == 0);
    m[PAGE] = 'X';
    CHECK(munmap(m, PART) == 0);
  }
  // What is changed later, by a call and by a store, is there in pages that are not the process's own.
  char *shared = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 64 * PAGE);
  char *m = part(64 * PAGE, PROT_READ | PROT_WRITE);
  char *constant = part(64 * PAGE, PROT_READ);
  CHECK(shared != MAP_FAILED);
  m[0] = 'M';
  put(64 * PAGE, "efgh");
  put(65 * PAGE, "ijkl");
  CHECK(memcmp(m, "Mbcd", 4) == 0 && memcmp(m + PAGE, "ijkl", 4) == 0 && memcmp(constant, "efgh", 4) == 0);
  pid_t p = fork();
  if (p == 0) {
    CHECK(memcmp(m, "Mbcd", 4) == 0 && memcmp(m + PAGE, "ijkl", 4) == 0);
    put(66 * PAGE, "mnop");
    CHECK(memcmp(m + 2 * PAGE, "mnop", 4) == 0);
    _exit(0);
  }
  check_exited(p, 0);
  CHECK(memcmp(m + 2 * PAGE, "mnop", 4) == 0 && memcmp(constant + 2 * PAGE, "mnop", 4) == 0);
  // Its own page given up: the file again.
  CHECK(madvise(m, PAGE, MADV_DONTNEED) == 0 && memcmp(m, "efgh", 4) == 0);
  // Longer, and somewhere else.
  m = mremap(m, PART, 3 * PART, MREMAP_MAYMOVE);
  CHECK(m != MAP_FAILED && memcmp(m + PAGE, "ijkl", 4) == 0 && memcmp(m + 2 * PART, "abcd", 4) == 0);
  put((64 * PAGE) + 2 * PART, "qrst");
  CHECK(memcmp(m + 2 * PART, "qrst", 4) == 0);
  CHECK(mprotect(constant, PAGE, PROT_READ | PROT_WRITE) == 0);
  constant[1] = 'C';
  CHECK(memcmp(constant, "eCgh", 4) == 0);
  // Mapped beyond the file's end, and the file cut off in the middle of a part; then long again.
  char *end = part(LEN - 4 * PAGE, PROT_READ);
  CHECK(memcmp(end + 3 * PAGE, "abcd", 4) == 0 && faults(end + 4 * PAGE));
  CHECK(ftruncate(fd, 65 * PAGE + 100) == 0);
  CHECK(memcmp(m, "efgh", 4) == 0 && memcmp(m + PAGE, "ijkl", 4) == 0 && faults(m + 2 * PAGE) && faults(end));
  CHECK(ftruncate(fd, LEN) == 0);
  CHECK(memcmp(m + PAGE, "ijkl", 4) == 0 && m[2 * PAGE] == 0 && end[0] == 0 && !faults(end + 3 * PAGE));
  // In memory that may be executed, and that nothing may be done with.
  put(100 * PAGE, "\x6a\x07\x58\xc3"); // push 7; pop rax; ret
  long (*code)(void) = (long (*)(void))part(100 * PAGE, PROT_READ | PROT_EXEC);
  CHECK(code() == 7);
  put(101 * PAGE, "uvwx");
  char *none = part(101 * PAGE, PROT_NONE);
  CHECK(mprotect(none, PART, PROT_READ) == 0 && memcmp(none, "uvwx", 4) == 0);
  printf("%s: done\n", kind);
}

int main(void) {
  struct sigaction act = {.sa_handler = on_bus};
  CHECK(sigaction(SIGBUS, &act, NULL) == 0);
  fd = open("f", O_CREAT | O_RDWR, 0700);
  CHECK(fd >= 0);
  parts("a file that is open for writing");
  CHECK(unlink("f") == 0);
  parts("one without a name");
  fd = memfd_create("m", 0);
  CHECK(fd >= 0);
  parts("one in memory");
  return guest_ok();
}
