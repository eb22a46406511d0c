// After fork shared pages are one, private pages two; a page made shared later, mremap and munmap of shared memory.
#include "../guest.h"

int main(void) {
  int rw = PROT_READ | PROT_WRITE, a[2], b[2];
  char c, *s = mmap(NULL, 4 * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char *p = mmap(NULL, 4 * PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pipe(a) == 0 && pipe(b) == 0);
  strcpy(s, "shared"), strcpy(p, "private");
  pid_t pid = fork();
  if (pid == 0) {
    strcpy(s + PAGE, "child's"), strcpy(p, "child's");
    CHECK(write(a[1], "1", 1) == 1 && read(b[0], &c, 1) == 1);
    CHECK(strcmp(s, "parent's") == 0 && strcmp(p, "child's") == 0);
    char *moved = mremap(s, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p);
    CHECK(moved == p && strcmp(p, "parent's") == 0);
    strcpy(p + 2 * PAGE, "moved");
    pid_t grandchild = fork();
    if (grandchild == 0) {
      strcpy(p + 3 * PAGE, "third generation");
      _exit(0);
    }
    check_exited(grandchild, 0);
    CHECK(strcmp(p + 3 * PAGE, "third generation") == 0 && munmap(p, 4 * PAGE) == 0);
    _exit(0);
  }
  CHECK(read(a[0], &c, 1) == 1 && strcmp(s + PAGE, "child's") == 0 && strcmp(p, "private") == 0);
  strcpy(s, "parent's"), strcpy(p, "parent's");
  CHECK(write(b[1], "2", 1) == 1);
  check_exited(pid, 0);
  CHECK(strcmp(s + 2 * PAGE, "moved") == 0 && strcmp(s + 3 * PAGE, "third generation") == 0 && strcmp(p, "parent's") == 0);
  printf("%p %p\n", s, p);
  return guest_ok();
}
