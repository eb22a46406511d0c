// Memory of which the kernel may drop pages is refused, as before Linux 6.11 (or is had natively); what a program has in its place is
// its own.
#include "../guest.h"

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8
#endif

int main(void) {
  char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    CHECK(errno == EINVAL);
    memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && madvise(memory, PAGE, MADV_WIPEONFORK) == 0);
  }
  memset(memory, 9, PAGE);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(memory[100]);
  check_exited(child, 0);
  CHECK(memory[100] == 9);
  return guest_ok();
}
