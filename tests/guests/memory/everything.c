// A program that goes through its whole address space: protects and advises all that is mapped, and unmaps everything
// that it does not need itself.
#include "../guest.h"

static char maps[1 << 18];

// What libraries have without a name (their bss, thread-local storage) lies between them.
static int is_needed(unsigned long start, const char *line) {
  int among_libraries = start > 0x7e0000000000;
  return among_libraries || strchr(line, '/') != NULL || strchr(line, '[') != NULL || start < 0x1000000;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  void *mine = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(mine != MAP_FAILED);
  int fd = open("/proc/self/maps", O_RDONLY);
  size_t len = 0;
  for (ssize_t n; (n = read(fd, maps + len, sizeof maps - 1 - len)) > 0;) len += (size_t)n;
  CHECK(len > 0 && close(fd) == 0);
  // As a collector does that wants to know who writes: one range, whatever is in it.
  CHECK(madvise((void *)0x70000000, 1 << 21, MADV_DONTNEED) == 0 || errno == ENOMEM);
  CHECK(mprotect((void *)0x70000000, 1 << 21, PROT_READ) == 0 || errno == ENOMEM);
  int unmapped = 0;
  for (char *line = maps, *next; line && *line; line = next) {
    next = strchr(line, '\n');
    if (next) *next++ = 0;
    unsigned long start, end;
    CHECK(sscanf(line, "%lx-%lx", &start, &end) == 2);
    if (start != (unsigned long)mine && is_needed(start, line)) continue;
    if (start == (unsigned long)mine) end = start + 64 * PAGE;
    CHECK(munmap((void *)start, end - start) == 0);
    unmapped += start == (unsigned long)mine;
  }
  // (It may be one with its neighbour.)
  CHECK(unmapped <= 1);
  CHECK(munmap((void *)0x70000000, 1 << 21) == 0);
  CHECK(getppid() > 0 && write(1, "still here\n", 11) == 11);
  pid_t p = fork();
  if (p == 0) _exit(7);
  check_exited(p, 7);
  return guest_ok();
}
